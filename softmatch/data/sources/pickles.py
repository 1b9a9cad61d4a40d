"""Reading a pickle of arrays and plain containers, and nothing else: such a file cannot run code here."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in the old protocols; `codecs.encode` itself could do much more."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not allowed")
    return text.encode("latin1")


class _Type:
    """Stands for numpy's types, which can be told to take any bytes for objects in memory: these are numbers, in either order."""

    def __init__(self, name: object, *rest: object) -> None:
        self.found = np.dtype(name.decode("latin1") if isinstance(name, bytes) else str(name))
        if self.found.kind not in "biuf" or self.found.subdtype is not None:
            raise pickle.UnpicklingError(f"arrays of {self.found} are not allowed")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        self.found = self.found.newbyteorder(order)


class _Array(np.ndarray[Any, Any]):
    """Stands for numpy's arrays, whose content follows, with its shape and type."""

    def __new__(cls, *given: object) -> _Array:
        return np.zeros(0, np.uint8).view(cls)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, content = state
        if not isinstance(kind, _Type) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("its arrays are not of numbers")
        super().__setstate__((1, shape, kind.found, fortran, content))


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    """What numpy's `_frombuffer` is."""
    if not isinstance(kind, _Type):
        raise pickle.UnpicklingError("its arrays are not of numbers")
    return np.frombuffer(content, kind.found).reshape(shape, order=order)


_MODULES = ("numpy.core", "numpy._core")  # before and since numpy 2
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    **{(f"{module}.multiarray", "_reconstruct"): _Array for module in _MODULES},
    **{(f"{module}.numeric", "_frombuffer"): _from_buffer for module in _MODULES},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no file of arrays needs")
        return _ALLOWED[module, name]


def load(content: bytes) -> Any:
    """The object in a pickle that holds arrays, numbers, bytes, text and plain containers; strings of Python 2 become bytes.

    Raises:
        pickle.UnpicklingError: where the pickle asks for anything else, or is damaged in whatever way.
    """
    try:
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # damaged bytes are arbitrary instructions: any error may come of them
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error
