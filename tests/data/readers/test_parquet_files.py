"""Parquet files, and what to do where the library is missing."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from softmatch.data.readers.typed_tables import Parquet
from softmatch.errors import InputError


def written(tmp_path: Path) -> Path:
    path = tmp_path / "table.parquet"
    columns = {
        "n": pa.array([1, 2, None], pa.int64()),
        "w": pa.array([7, 8, 9], pa.int32()),
        "f": pa.array([0.5, None, float("inf")], pa.float64()),
        "s": pa.array(["a", None, "b,\n😀"]),
        "t": pa.array([True, False, None]),
        "d": pa.array([date(2024, 1, 2), None, None]),
        "c": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    return path


def test_types_become_what_they_are(tmp_path: Path) -> None:
    file = Parquet(written(tmp_path))
    assert file.names == ("n", "w", "f", "s", "t", "d", "c")
    (piece,) = file.pieces(file.names, 10)
    assert list(piece["n"]) == [1, 2, None]
    np.testing.assert_array_equal(piece["w"], [7, 8, 9])
    np.testing.assert_array_equal(piece["f"], [0.5, np.nan, np.inf])
    assert list(piece["s"]) == ["a", None, "b,\n😀"]
    assert list(piece["t"]) == [True, False, None]
    assert list(piece["d"]) == [date(2024, 1, 2), None, None]
    assert list(piece["c"]) == ["x", "y", "x"]


def test_pieces_are_no_larger_than_asked(tmp_path: Path) -> None:
    assert [list(piece["w"]) for piece in Parquet(written(tmp_path)).pieces(["w"], 2)] == [[7, 8], [9]]


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"table.parquet cannot be read as Parquet: "):
        Parquet(path)
    with pytest.raises(InputError, match=r"nowhere.parquet cannot be read as Parquet: "):
        Parquet(tmp_path / "nowhere.parquet")


def test_missing_library_is_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install 'softmatch\[tables\]'"):
        Parquet(written(tmp_path))
