"""Tiny data for the programs that damage inputs, disturb runs and train for hours: a table, texts and folders of images."""

from pathlib import Path

import numpy as np
from PIL import Image

NUMBERS = "width,height,colour,label\n" + "".join(
    f"{k / 7:.3f},{k * k % 11},{('red', 'green', 'blue')[k % 3]},{('left', 'right')[k % 2] if k < 24 else ''}\n"
    for k in range(40)
)


def texts(rows: int, labeled: int) -> str:
    """Return a CSV of quoted texts in two classes."""
    things = (("card", "bank", "money"), ("parcel", "post", "courier"))
    cells = ((k, things[k % 2][k % 3], "ab"[k % 2] if k < labeled else "") for k in range(rows))
    return "id,message,category\n" + "".join(
        f'{k},"Dear ""friends"", my {thing}, number {k}, is lost",{c}\n' for k, thing, c in cells
    )


def write_photos(folder: Path, labeled: int, unlabeled: int = 0, side: int = 16) -> Path:
    """Write PNG images of noise into the folders cat, dog and unlabeled."""
    random = np.random.default_rng(0)
    for number in range(labeled + unlabeled):
        place = folder / (("cat", "dog")[number % 2] if number < labeled else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(place / f"{number}.png")
    return folder
