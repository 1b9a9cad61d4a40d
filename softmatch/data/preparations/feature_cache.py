"""Features that took long to compute, kept on disk under what they were computed of."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from softmatch.data.sources.cache import folder
from softmatch.training.checkpoint import write_atomically
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
        with safe_open(path, "pt") as file:
            features: Tensor = file.get_tensor("features")
            noted = (file.metadata() or {}).get("sha256")
    except (OSError, SafetensorError) as error:
        _log.warning("the cached features in %s are damaged (%s): they are computed again", path, error)
        return None
    if noted != _checksum(features):
        _log.warning("the cached features in %s are not as they were written: they are computed again", path)
        return None
    return features


def store_features(key: str, features: Tensor) -> None:
    """Keep them; where the cache cannot be written, they are computed again next time."""
    path = _place(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save({"features": features.contiguous()}, {"sha256": _checksum(features)}))
    except OSError as error:
        _log.info("the cache %s cannot be written (%s): the features are not kept", path.parent, error)


def _place(key: str) -> Path:
    return folder() / "features" / f"{key}.safetensors"


def _checksum(features: Tensor) -> str:
    return hashlib.sha256(features.contiguous().numpy().data).hexdigest()
