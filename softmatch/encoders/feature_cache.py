"""Features that took long to compute, kept on disk under what they were computed of."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from torch import Tensor

from softmatch.errors import InputError
from softmatch.files.cache import cache_folder
from softmatch.files.tensors import read_checked, write_checked
from softmatch.views.pictures import EncodedImage, Picture
from softmatch.views.pillow import orientation

__all__ = ["digest", "load_features", "store_features"]

_log = logging.getLogger(__name__)


def digest(maker: str, inputs: Sequence[str] | Sequence[Picture]) -> str:
    """The key of the features that `maker` makes of these texts, or of the content of these images, in this order."""
    total = hashlib.sha256(maker.encode())
    for item in inputs:
        total.update(hashlib.sha256(_content(item)).digest())
    return total.hexdigest()


def _content(item: str | Picture) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, EncodedImage):
        return item.content
    if isinstance(item, Image.Image):
        about = (item.mode, item.size, item.getpalette(), item.info.get("transparency"), orientation(item))
        return repr(about).encode() + item.tobytes()
    try:
        return item.read_bytes()
    except OSError:
        return b""  # whoever makes the features finds out that it cannot be read, and says so


def load_features(key: str) -> Tensor | None:
    """What was stored under this key; None where there is nothing, or nothing whole."""
    path = _place(key)
    if not path.is_file():
        return None
    try:
        return read_checked(path)[0]["features"]
    except (InputError, KeyError) as error:
        _log.warning("the cached features in %s cannot be used (%s): they are computed again", path, error)
        return None


def store_features(key: str, features: Tensor) -> None:
    """Keep them; where the cache cannot be written, they are computed again next time."""
    path = _place(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_checked(path, {"features": features}, {})
    except OSError as error:
        _log.info("the cache %s cannot be written (%s): the features are not kept", path.parent, error)


def _place(key: str) -> Path:
    return cache_folder() / "features" / f"{key}.safetensors"
