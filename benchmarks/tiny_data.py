"""Tiny data for the programs that damage inputs, disturb runs and train for hours: a table, texts and folders of images."""

from pathlib import Path

import numpy as np
from PIL import Image

ROWS = ((k / 7, k * k % 11, ("red", "green", "blue")[k % 3], ("left", "right")[k % 2] if k < 24 else "") for k in range(40))
NUMBERS = "width,height,colour,label\n" + "".join(
    f"{width:.3f},{height},{colour},{label}\n" for width, height, colour, label in ROWS
)


def texts(rows: int, labeled: int) -> str:
    """Return a CSV of quoted texts in two classes."""
    things, lines = (("card", "bank", "money"), ("parcel", "post", "courier")), ["id,message,category"]
    for k in range(rows):
        lines.append(f'{k},"Dear ""{things[k % 2][k % 3]}"", my number, {k}, is lost",{"ab"[k % 2] if k < labeled else ""}')
    return "\n".join(lines)


def write_photos(folder: Path, labeled: int, unlabeled: int = 0, side: int = 16) -> Path:
    """Write PNG images of noise into the folders cat, dog and unlabeled."""
    random = np.random.default_rng(0)
    for number in range(labeled + unlabeled):
        place = folder / (("cat", "dog")[number % 2] if number < labeled else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(place / f"{number}.png")
    return folder
