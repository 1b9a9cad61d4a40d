"""Copies are found by content."""

from __future__ import annotations

from pathlib import Path

import torch

from softmatch.data.duplicates import digests, group
from softmatch.data.files import ImageFiles


def test_equal_vectors_are_in_one_group() -> None:
    items = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [-0.0, 1.0], [0.0, 1.0]])
    assert group(digests(items)).tolist() == [0, 1, 0, 3, 3]


def test_images_are_compared_by_their_pixels() -> None:
    items = torch.randint(0, 256, (4, 3, 5, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    items[3] = items[1]
    assert group(digests(items)).tolist() == [0, 1, 2, 1]


def test_files_are_compared_by_their_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, content in zip(paths, (b"x" * 100_000, b"y", b"x" * 100_000), strict=True):
        path.write_bytes(content)
    assert group(digests(ImageFiles(paths))).tolist() == [0, 1, 0]
