"""Tables of JSON objects and Parquet files."""

import json
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from softmatch.data.readers.table_source import JsonRows, Parquet
from softmatch.errors import InputError


def written(tmp_path: Path, content: str, name: str = "rows.jsonl") -> Path:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_objects_may_lack_keys_and_bring_new_ones_late(tmp_path: Path) -> None:
    rows = [{"text": f"t{k}"} for k in range(2500)] + [{"text": "last", "label": 1.0, "extra": {"deep": []}}]
    file = JsonRows(written(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n"))
    assert file.names == ("text", "label", "extra")
    pieces = list(file.pieces(["label", "text"], 2000))
    assert [len(piece["text"]) for piece in pieces] == [2000, 501]
    assert list(pieces[1]["label"])[-2:] == [None, 1.0]


def test_list_of_objects_is_the_same_table(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": "x\ny"}, {"a": None}]
    for content, name in [
        (json.dumps(rows, indent=2), "rows.json"),
        ("\n".join(map(json.dumps, rows)), "lines.json"),
        ("\ufeff" + "\n".join(map(json.dumps, rows)), "rows.ndjson"),
    ]:
        assert [dict(piece) for piece in JsonRows(written(tmp_path, content, name)).pieces(["a", "b"], 9)] == [
            {"a": [1, None], "b": ["x\ny", None]}
        ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "rows.jsonl is empty"),
        ("[]", "rows.jsonl is empty"),
        ('{"a": 1}\n\n{"a": }\n', r"rows.jsonl, row 2 \(line 3\) is not JSON: .* at column 7"),
        ('{"a": 1}\n3\n', r"rows.jsonl, row 2 \(line 2\) is a number, not an object"),
        ('{"a": 1}\n[1]\n', r"row 2 \(line 2\) is a list"),
        ('[{"a": 1},\n "x"]', "rows.jsonl, row 2 is a text, not an object"),
        ('[{"a": 1},\n {"b"}]', "rows.jsonl is not JSON: .* at line 2, column 6"),
        ('{"a": ' + "9" * 5000 + "}", r"row 1 \(line 1\) cannot be read as JSON"),
        ('{"a": ' + "[" * 100_000, r"row 1 \(line 1\) cannot be read as JSON"),
    ],
)
def test_what_is_no_object_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        JsonRows(written(tmp_path, content))


def test_half_a_character_can_be_written_again(tmp_path: Path) -> None:
    file = JsonRows(written(tmp_path, '{"a": "x \\ud83d", "b": "\\ud83d\\ude00"}\n'))
    assert dict(next(file.pieces(["a", "b"], 1))) == {"a": ["x ?"], "b": ["😀"]}


def written_parquet(tmp_path: Path) -> Path:
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
    file = Parquet(written_parquet(tmp_path))
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
    assert [list(piece["w"]) for piece in Parquet(written_parquet(tmp_path)).pieces(["w"], 2)] == [[7, 8], [9]]


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = written_parquet(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"table.parquet cannot be read as Parquet: "):
        Parquet(path)
    with pytest.raises(InputError, match=r"nowhere.parquet cannot be read as Parquet: "):
        Parquet(tmp_path / "nowhere.parquet")


def test_missing_library_is_named_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install 'softmatch\[tables\]'"):
        Parquet(written_parquet(tmp_path))
