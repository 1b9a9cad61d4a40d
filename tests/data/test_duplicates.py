"""Copies are found by what the user gave."""

from __future__ import annotations

from pathlib import Path

import torch

from softmatch.data.duplicates import digests, group


def test_equal_vectors_are_in_one_group() -> None:
    items = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [-0.0, 1.0], [0.0, 1.0]])
    assert group("array", digests("array", items.numpy(), items)).tolist() == [0, 1, 0, 3, 3]


def test_texts_are_compared_as_texts_whatever_is_made_of_them() -> None:
    inputs = ["not good but bad", "not bad but good", "  not good\nbut bad "]
    items = torch.zeros(3, 4)  # a preparation may not tell them apart
    assert group("text", digests("text", inputs, items)).tolist() == [0, 1, 0]


def test_files_are_compared_by_their_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, content in zip(paths, (b"x" * 100_000, b"y", b"x" * 100_000), strict=True):
        path.write_bytes(content)
    assert group("image", digests("image", paths, torch.zeros(3, 1))).tolist() == [0, 1, 0]


def test_equal_rows_of_a_table_of_categories_are_different_samples() -> None:
    few = torch.arange(40)[:, None] % 4
    assert group("table", digests("table", {}, few.float())).tolist() == list(range(40))
    many = torch.arange(40)[:, None].float()
    many[39] = many[0]
    assert group("table", digests("table", {}, many)).tolist() == [*range(39), 0]
