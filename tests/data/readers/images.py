"""Image files for tests, ordinary and odd ones."""

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

QUADRANTS = np.kron(np.array([[40, 90], [150, 220]], np.uint8), np.ones((8, 12), np.uint8))
"""16 × 24 grey pixels: four levels, one in each quarter, so that every turn looks different."""


def write_image(path: Path, level: int | tuple[int, ...] = 100, size: tuple[int, int] = (16, 16), mode: str = "RGB") -> Path:
    """A file of one colour, in the format of its suffix; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    color = (level,) * 3 if mode == "RGB" and isinstance(level, int) else level
    Image.new(mode, size, color).save(path)
    return path


def write_truncated(path: Path) -> Path:
    """A file that ends in the middle of its pixels."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:1500])
    return path


def write_claiming(path: Path, width: int, height: int) -> Path:
    """A PNG of a few bytes whose header claims this size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b"")]
    packed = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))
    return path


def write_animation(path: Path, levels: tuple[int, ...] = (50, 200)) -> Path:
    """Frames of one level each."""
    first, *rest = (Image.new("L", (16, 16), level) for level in levels)
    first.save(path, save_all=True, append_images=rest)
    return path


def write_turned(path: Path, orientation: int) -> Path:
    """A photograph that is `QUADRANTS` once it is turned as EXIF says: stored as the camera was held."""
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    image = Image.fromarray(QUADRANTS)
    exif = Image.Exif()
    exif[0x0112] = orientation
    (image if undo is None else image.transpose(undo)).save(path, exif=exif)
    return path


def write_with_bad_exif(path: Path, kept: int | None) -> Path:
    """`QUADRANTS` as a sound JPEG, with EXIF data of which so many bytes are there, or None: with nonsense in their place.

    From 40 bytes on, the data still say that the image is to be turned by a right angle.
    """
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a long description " * 20
    nonsense = b"Exif\0\0MM\0*" + b"\xff" * 40
    Image.fromarray(QUADRANTS).save(path, exif=nonsense if kept is None else exif.tobytes()[:kept])
    return path
