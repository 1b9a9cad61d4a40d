"""Where an image may be: in a file, in memory as it would stand in a file, or opened by Pillow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image file. They are decoded anew each time it is needed, and nothing of that is kept.

    Attributes:
        name: to call it in messages.
        lack: why there is no content, if that is known.
    """

    content: bytes = field(repr=False)
    name: str
    lack: str = "it is empty"


Picture = Path | EncodedImage | Image.Image
