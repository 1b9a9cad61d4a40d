"""State that methods keep between steps: a registry by sample, a queue of recent rows, a step count, and ramps."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from softmatch.errors import InputError

Shape = Literal["linear", "sigmoid", "cosine", "square"]


def last_of_each(index: Tensor, slot: int) -> tuple[Tensor, Tensor]:
    """Destinations for values that belong to positions, some of which may occur several times in the batch.

    Returns:
        The order in which to take the values, and the position of each in that order. A value that a later one of the same
        position replaces goes to `slot`, as does one whose position is `slot`. No shape depends on the data.
    """
    key, order = torch.sort(index, stable=True)
    last = torch.cat([key[1:] != key[:-1], torch.ones_like(key[:1], dtype=torch.bool)])
    return order, torch.where(last, key, slot)


class Registry(nn.Module):
    """One row per sample of a set, by the sample's position. If a sample occurs twice in a batch, the later row counts.

    `values` has one more row than there are samples: rows that must not be written go there, without a branch on the device.
    """

    values: Tensor

    def __init__(self, size: int, shape: tuple[int, ...] = (), fill: float = 0.0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.size, self.fill = size, fill
        self.register_buffer("values", torch.full((size + 1, *shape), fill, dtype=dtype))

    @property
    def rows(self) -> Tensor:
        """The rows of all samples (N, …), without the spare one."""
        return self.values[: self.size]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Tensor) -> Tensor:
        return self.values[index]

    def check(self, index: Tensor | None) -> Tensor:
        """The positions; raises InputError if they are missing or outside the set. On an accelerator they are not checked."""
        if index is None:
            raise InputError("this method remembers samples: give `index`, the position of each in the unlabelled set.")
        if not torch.compiler.is_compiling() and index.device.type == "cpu" and len(index):
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= self.size:
                raise InputError(f"index must lie in 0 … {self.size - 1}; this batch has {low} … {high}.")
        return index

    @torch.no_grad()
    def write(self, index: Tensor, values: Tensor, where: Tensor | None = None) -> None:
        """Replace the rows at these positions, if `where` is true or not given."""
        chosen = self.check(index) if where is None else torch.where(where, self.check(index), self.size)
        order, key = last_of_each(chosen, self.size)
        self.values.index_copy_(0, key, values[order].to(self.values.dtype))
        self.values[self.size].fill_(self.fill)


class Queue(nn.Module):
    """The last `length` pushed rows. Rows never pushed hold `fill`; `count` is the number of pushed rows in all."""

    values: Tensor
    count: Tensor

    def __init__(self, length: int, shape: tuple[int, ...] = (), fill: float = 0.0) -> None:
        super().__init__()
        if length < 1:
            raise ValueError(f"a queue holds at least one row, not {length}")
        self.length = length
        self.register_buffer("values", torch.full((length, *shape), fill))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def push(self, rows: Tensor) -> None:
        """Take in rows (B, …) in their order, replacing the oldest."""
        number = len(rows)
        kept = rows[-self.length :]
        places = (self.count + number - len(kept) + torch.arange(len(kept), device=self.values.device)) % self.length
        self.values.index_copy_(0, places, kept.to(self.values.dtype))
        self.count.add_(number)

    def filled(self) -> Tensor:
        """True for rows that were pushed, (length,)."""
        return torch.arange(self.length, device=self.values.device) < self.count


class StepCount(nn.Module):
    """Number of steps so far, on the host, where decisions that depend on it do not wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def advance(self) -> None:
        """Count one step."""
        self.steps += 1

    def get_extra_state(self) -> Tensor:
        """The count as a tensor, as required in a checkpoint."""
        return torch.tensor(self.steps)

    def set_extra_state(self, state: Tensor) -> None:
        self.steps = int(state)


def ramp_factor(progress: Tensor, shape: Shape = "linear") -> Tensor:
    """Value of a ramp at `progress` x = t/T, which is clipped to [0, 1].

    "linear" x; "sigmoid" exp(−5(1 − x)²); "cosine" ½ − ½cos(πx); "square" x².
    """
    x = progress.clamp(0.0, 1.0)
    if shape == "sigmoid":
        return torch.exp(-5.0 * (1.0 - x) ** 2)
    return {"linear": x, "square": x**2, "cosine": 0.5 - 0.5 * torch.cos(math.pi * x)}[shape]


class Ramp(nn.Module):
    """ramp((t − start)/T), t the number of calls of `advance` before the present one.

    Args:
        steps: T, the length of the ramp.
        start: steps before the ramp, during which it has its lowest value.

    Example:
        >>> ramp = Ramp(4)
        >>> [(ramp.advance(), float(ramp()))[1] for _ in range(3)]
        [0.0, 0.25, 0.5]
    """

    updates: Tensor

    def __init__(self, steps: int, shape: Shape = "linear", start: int = 0) -> None:
        super().__init__()
        if steps < 1:
            raise ValueError(f"the ramp needs at least one step, not {steps}")
        if shape not in get_args(Shape):
            raise ValueError(f'shape must be "linear", "sigmoid", "cosine" or "square", not {shape!r}')
        self.steps, self.shape, self.start = steps, shape, start
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def advance(self) -> None:
        """Count one step. Called once per step, before the value is used."""
        self.updates.add_(1)

    def forward(self) -> Tensor:
        return ramp_factor((self.updates - 1 - self.start).clamp_min(0) / self.steps, self.shape)
