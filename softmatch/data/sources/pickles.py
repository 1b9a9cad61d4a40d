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


_MODULES = ("numpy.core", "numpy._core")  # before and since numpy 2
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
    **{(f"{module}.multiarray", "_reconstruct"): np.zeros(1).__reduce__()[0] for module in _MODULES},
    **{(f"{module}.numeric", "_frombuffer"): np.zeros(1).__reduce_ex__(5)[0] for module in _MODULES},
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
