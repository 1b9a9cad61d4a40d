"""Networks that have shapes but no memory: for reading what a network is like before its weights are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

INITIALISERS = ("normal_", "uniform_", "trunc_normal_")


class _Uninitialised(TorchFunctionMode):
    """Skip random initialisation; on the meta device torch would first import a compiler for it, which takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__name__", "") in INITIALISERS:
            tensor: Tensor = args[0] if args else given["tensor"]
            return tensor
        return func(*args, **given)


@contextmanager
def shapes_only() -> Iterator[None]:
    """In this block new modules are on the meta device, and no initial weights are drawn."""
    with torch.device("meta"), _Uninitialised():
        yield
