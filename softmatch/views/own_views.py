"""Views by code of the user's own, file.py:name, of arrays of any shape."""

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from softmatch.errors import InputError
from softmatch.plugins import call_own, find_own

OwnCode = str | Callable[..., Any]
"""file.py:name or module:name; or the class or function itself."""
OWN = "own"
"""Option of views that names the user's code; all others are options of that code."""


class OwnViews:
    """ω and Ω of an object with the methods weak(items, generator) and strong(items, generator), perhaps also medium.

    They get items standardised per channel, on the device of training. With a method plain(items), which then makes the input for
    evaluation, all of them get the items as they were given. Each returns float32 of one shape, the input of the network.

    Args:
        own: makes the object. A class or function gets the options, and those of `mean`, `std` and `shape` for which it has
            parameters; the first two are tensors (C, 1, …) that fit items (B, C, …).
        mean, std: mean and standard deviation of each channel, the first dimension of an item, over the training data.
        shape: of an item.
        options: options of the user for that code.
    """

    kind = "array"

    def __init__(
        self,
        own: OwnCode,
        mean: Sequence[float],
        std: Sequence[float],
        shape: Sequence[int],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = own if isinstance(own, str) else f"{own.__module__}:{getattr(own, '__qualname__', type(own).__name__)}"
        self.shape, self.options = tuple(shape), dict(options or {})
        apart = (-1, *[1] * (len(self.shape) - 1))
        self.mean = torch.as_tensor(mean, dtype=torch.float32).view(apart)
        self.std = torch.as_tensor(std, dtype=torch.float32).clamp_min(1e-12).view(apart)
        found = find_own(own) if isinstance(own, str) else own
        if inspect.isclass(found) or inspect.isroutine(found):
            about = {"mean": self.mean.clone(), "std": self.std.clone(), "shape": self.shape}
            found = call_own(found, about, self.options, f"views {self.name!r}")
        elif self.options:
            raise InputError(f"views {self.name!r} are an object, which takes no options: name its class instead.")
        for name in ("weak", "strong"):
            if not callable(getattr(found, name, None)):
                raise InputError(f"views {self.name!r}: {type(found).__name__} has no method {name}(items, generator). Add it.")
        self.made, self._scales = found, hasattr(found, "plain")

    def plain(self, items: Tensor) -> Tensor:
        if self._scales:
            return self._called("plain", items)
        return (items.float() - self.mean.to(items.device)) / self.std.to(items.device)

    def weak(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._view("weak", items, generator, part)

    def medium(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._view("medium", items, generator, part)

    def strong(self, items: Tensor, generator: Generator, part: slice | None = None) -> Tensor:
        return self._view("strong", items, generator, part)

    def settings(self) -> dict[str, Any]:
        about = {"kind": self.kind, OWN: self.name, "shape": list(self.shape), "options": self.options}
        return {**about, "mean": self.mean.flatten().tolist(), "std": self.std.flatten().tolist()}

    def describe(self) -> str:
        """Describe them for the user: the code, its views, and what it gets."""
        names = [name for name in ("plain", "weak", "medium", "strong") if hasattr(self.made, name)]
        return f"{self.name}: {', '.join(names)} of items {'as given' if self._scales else 'standardised per channel'}"

    def require(self, name: str) -> None:
        """Raise InputError unless the user's object has this view."""
        if not callable(getattr(self.made, name, None)):
            raise InputError(f"this method of training needs a method {name}(items, generator) of views {self.name!r}. Add it.")

    def check(self, items: Tensor) -> None:
        """Make each view of some items twice. Raises InputError unless both are equal, finite and shaped like the plain view."""
        plain = self.plain(items)
        for name in ("plain", "weak", "medium", "strong"):
            if name != "plain" and not hasattr(self.made, name):
                continue
            one, two = (self._again(name, items) for _ in range(2))
            if one.shape != plain.shape:
                raise self._wrong(name, f"returns {tuple(one.shape)} where the plain view is {tuple(plain.shape)}")
            if not bool(torch.isfinite(one).all()):
                raise self._wrong(name, f"returns NaN or infinity for {tuple(items.shape)} finite numbers")
            if not torch.equal(one, two):
                draws = "use no random numbers" if name == "plain" else "draw with torch.rand(n, generator=generator)"
                raise self._wrong(name, f"differs between two calls. Its result must follow from its arguments: {draws}")

    def _again(self, name: str, items: Tensor) -> Tensor:
        return self.plain(items) if name == "plain" else self._view(name, items, Generator().manual_seed(0), None)

    def _view(self, name: str, items: Tensor, generator: Generator, part: slice | None) -> Tensor:
        """Make the view of the whole batch, since the user's code draws random numbers for all rows; then take the part."""
        made = self._called(name, items if self._scales else self.plain(items), generator)
        return made if part is None else made[part]

    def _called(self, name: str, items: Tensor, *generator: Generator) -> Tensor:
        try:
            made = getattr(self.made, name)(items.clone(), *generator)  # a copy: code may change it in place
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})"
            raise self._wrong(name, f"fails on items {tuple(items.shape)}. {reason}") from error
        if not isinstance(made, Tensor) or made.dtype != torch.float32:
            what = f"{made.dtype} tensor" if isinstance(made, Tensor) else type(made).__name__
            raise self._wrong(name, f"returns a {what}, not a tensor of float32, for items {tuple(items.shape)}")
        if made.ndim < 2 or len(made) != len(items):
            raise self._wrong(name, f"returns {tuple(made.shape)} for {len(items)} items {tuple(items.shape)}: one row for each")
        return made

    def _wrong(self, name: str, what: str) -> InputError:
        return InputError(f"views {self.name!r}: {name} {what}.")
