"""Digests of files, folders and code."""

from __future__ import annotations

import os
from pathlib import Path

from softmatch.experiments.contents import code_of, digest


def test_of_a_file_the_bytes_count(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a" * 3_000_000)
    two.write_bytes(b"a" * 3_000_000)
    assert digest(one) == digest(two)
    two.write_bytes(b"a" * 2_999_999 + b"b")
    assert digest(one) != digest(two)


def test_of_a_folder_names_sizes_and_times_count(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    (folder / "cat").mkdir(parents=True)
    (folder / "cat" / "1.png").write_bytes(b"1")
    seen = [digest(folder)]
    (folder / "cat" / "1.png").rename(folder / "cat" / "2.png")
    seen.append(digest(folder))
    os.utime(folder / "cat" / "2.png", ns=(1, 1))
    seen.append(digest(folder))
    (folder / "dog.png").write_bytes(b"")
    seen.append(digest(folder))
    assert len(set(seen)) == 4
    assert digest(folder) == seen[-1]


def test_code_is_found_wherever_it_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("x = 1")
    named = {"method": f"saw+{mine}:x", "method_options": {"list": [f"{mine}:y"]}, "network": "gone.py:x", "labels": 4}
    assert code_of(named) == {str(mine): digest(mine)}
    assert code_of({"method": "softmatch.weightings:Linear"}) == {}
