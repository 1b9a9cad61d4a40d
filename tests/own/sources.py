"""Small sources as users have them, written by the tests."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def write_csv(path: Path, rows: Sequence[Sequence[Any]], header: Sequence[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(header)
        table.writerows(rows)
    return path


def blobs(path: Path, labeled: int = 30, unlabeled: int = 60, seed: int = 0) -> Path:
    """Two clouds of points, `labeled` of them with a label."""
    random = np.random.default_rng(seed)
    rows = []
    for position in range(labeled + unlabeled):
        side = position % 2
        x, y = random.normal(3.0 * side, 1.0, 2)
        rows.append((f"{x:.4f}", f"{y:.4f}", ("left", "right")[side] if position < labeled else ""))
    return write_csv(path, rows, ("width", "height", "label"))


def texts(path: Path, labeled: int = 24, unlabeled: int = 60, seed: int = 0) -> Path:
    """Messages about cards and about parcels."""
    random = np.random.default_rng(seed)
    words = (("card", "bank", "account", "money", "payment"), ("parcel", "post", "delivery", "courier", "package"))
    rows = []
    for position in range(labeled + unlabeled):
        side = position % 2
        said = " ".join(random.choice(words[side], 3))
        label = ("cards", "parcels")[side] if position < labeled else ""
        rows.append((f"please help me with the {said} number {position}", label))
    return write_csv(path, rows, ("message", "category"))


def pictures(folder: Path, per_class: int = 12, unlabeled: int = 30, side: int = 8, seed: int = 0) -> Path:
    """Bright and dark images in class folders, and some in unlabeled/."""
    random = np.random.default_rng(seed)
    for position in range(2 * per_class + unlabeled):
        kind = position % 2
        place = folder / (("dark", "light")[kind] if position < 2 * per_class else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        level = 60 + 120 * kind
        pixels = random.integers(level - 40, level + 40, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{position:03d}.png")
    return folder
