"""Views of the activations of an encoder below its last layers: ω as they are, Ω without some positions and with noise."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from softmatch.views.rows import check_number

SCALED = 64
"""Number of items that the scale of the noise is computed from."""


class ActivationViews:
    """Rows of a table of activations (B, 1) → (B, T, D + 1): activations at T positions, and 1 where there is one, else 0.

    Ω(x) has no activation at a share of the positions: tokens of a text are removed, the rest moves to the left; patches and
    pixels become zero. The first position always stays, where encoders have a token for the whole item; a map of features
    loses any. Maps of features are mirrored in half of the views. The medium view has half of drop and noise.

    Args:
        values: (P, D) activations of all items, one after the other; may be mapped from a file.
        starts, lengths: (N,) first of them and number for each item.
        grid: height and width of the positions of a map of features; None for a sequence.
        removes: positions are removed, as in texts, not set to zero.
        drop: share of the positions that Ω loses.
        weak_noise, strong_noise: Gaussian noise, in standard deviations of each activation.
        flip: mirror maps of features.
    """

    kind = "activations"

    def __init__(
        self,
        values: npt.NDArray[np.float16],
        starts: Tensor,
        lengths: Tensor,
        grid: tuple[int, int] | None = None,
        removes: bool = True,
        drop: float = 0.25,
        weak_noise: float = 0.0,
        strong_noise: float = 0.0,
        flip: bool = True,
    ) -> None:
        check_number("drop", drop, "a share of positions from 0 to 1", 1.0)
        for name, noise in (("weak_noise", weak_noise), ("strong_noise", strong_noise)):
            check_number(name, noise, "a number of 0 or more", sys.float_info.max)
        self.values, self.starts, self.lengths, self.grid, self.removes = values, starts, lengths, grid, removes
        self.drop, self.weak_noise, self.strong_noise, self.flip = drop, weak_noise, strong_noise, flip
        some = [self._of(row) for row in range(0, len(starts), max(len(starts) // SCALED, 1))]
        self.scale = torch.from_numpy(np.concatenate(some).astype(np.float32)).std(0, correction=0)

    @property
    def size(self) -> int:
        """Largest number of values of an item."""
        longest, width = int(self.lengths.max()), int(self.values.shape[1])
        return longest * (width + 1)

    def _of(self, row: int) -> npt.NDArray[np.float16]:
        start = int(self.starts[row])
        return self.values[start : start + int(self.lengths[row])]

    def plain(self, items: Tensor) -> Tensor:
        return self._changed(items, None, None, 0.0, 0.0)

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, 0.0, self.weak_noise)

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, self.drop / 2.0, self.strong_noise / 2.0)

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._changed(items, generator, part, self.drop, self.strong_noise)

    def _changed(self, items: Tensor, generator: Generator | None, part: slice | None, drop: float, noise: float) -> Tensor:
        """Read the activations of some rows. Random numbers are drawn for the whole batch, and nothing for a share of 0."""
        every, rows = items[:, 0].tolist(), items[:, 0][slice(None) if part is None else part].tolist()
        longest, width = max((int(self.lengths[row]) for row in every), default=1), self.values.shape[1]
        kept, drawn = torch.ones(len(every), longest, dtype=torch.bool), None
        if drop:
            kept = torch.rand(len(every), longest, generator=generator) >= drop
            if self.grid is None:
                kept[:, 0] = True
        mirrored = torch.zeros(len(every), dtype=torch.bool)
        if self.grid is not None and self.flip and generator is not None:
            mirrored = torch.rand(len(every), generator=generator) < 0.5
        if noise:
            drawn = torch.randn(len(every), longest, width, generator=generator)[slice(None) if part is None else part]
        kept, mirrored = (each[slice(None) if part is None else part] for each in (kept, mirrored))
        out = np.zeros((len(rows), longest, width + 1), dtype=np.float32)
        for place, row in enumerate(rows):
            found, there = self._of(row), kept[place, : int(self.lengths[row])].numpy()
            if self.removes:
                found = found[there] if drop else found
            out[place, : len(found), :-1] = found
            out[place, : len(found), -1] = 1.0
            if drop and not self.removes:
                out[place, : len(found), :-1] *= there[:, None]
        made = torch.from_numpy(out)
        if drawn is not None:
            made[..., :-1] += noise * self.scale * drawn * made[..., -1:]
        if self.grid is not None and bool(mirrored.any()):
            made[mirrored] = made[mirrored].view(-1, *self.grid, width + 1).flip(2).flatten(1, 2)
        return made.to(items.device, non_blocking=True)

    def settings(self) -> dict[str, Any]:
        chosen = ("drop", "weak_noise", "strong_noise", *(("flip",) if self.grid is not None else ()))
        return {"kind": self.kind, **{name: getattr(self, name) for name in chosen}}
