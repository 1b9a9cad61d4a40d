"""Cache on disk of features that took long to compute, keyed by content and encoder."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from softmatch.errors import InputError
from softmatch.files.cache import cache_folder
from softmatch.files.tensors import read_checked, write_checked

__all__ = ["cache_key", "load_features", "store_features"]

_log = logging.getLogger(__name__)


def cache_key(maker: str, contents: Iterable[bytes]) -> str:
    """Compute the key of the features that `maker` makes of inputs with these SHA-256 digests, in this order."""
    total = hashlib.sha256(maker.encode())
    for digest in contents:
        total.update(digest)
    return total.hexdigest()


def load_features(key: str) -> Tensor | None:
    """Load what was stored under this key; None where there is nothing, or it is damaged."""
    path = _place(key)
    if not path.is_file():
        return None
    try:
        return read_checked(path)[0]["features"]
    except (InputError, KeyError) as error:
        _log.warning("the cached features in %s cannot be used (%s) and are computed again", path, error)
        return None


def store_features(key: str, features: Tensor) -> None:
    """Store features; where the cache cannot be written, they are computed again next time."""
    path = _place(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_checked(path, {"features": features}, {})
    except OSError as error:
        _log.info("the cache %s cannot be written (%s): the features are not kept", path.parent, error)


def _place(key: str) -> Path:
    return cache_folder() / "features" / f"{key}.safetensors"
