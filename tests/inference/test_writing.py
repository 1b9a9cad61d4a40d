"""Tables: every cell survives, nothing half is left behind, nothing is overwritten."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.data.readers.csv_files import Delimited
from softmatch.errors import SoftmatchError
from softmatch.inference.writing import STDOUT, choose_path, free_path, write_table
from tests import forked
from tests.refusals import refused

HARD = ['a "b", c', "line\nbreak", "carriage\rreturn", "both\r\n", "😀 ü", "=1+1"]
HARD += ["-2", "@x", "\t tab", " edges ", "semi;colon", ""]


def written(path: Path, columns: dict[str, Any], *pieces: dict[str, Any], raw: bool = False) -> Path:
    with write_table(path, columns, raw=raw) as write:
        for piece in pieces:
            write(piece)
    return path


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_hard_cells_survive(tmp_path: Path, name: str) -> None:
    pieces = {'na"me': HARD[:5], "p_a,b": torch.linspace(0, 1, 5)}, {'na"me': HARD[5:], "p_a,b": [0.25] * 7}
    path = written(tmp_path / name, {'na"me': "text", "p_a,b": "number"}, *pieces, raw=True)
    header, *rows = rows_of(path)
    assert header == ['na"me', "p_a,b"]
    assert [row[0] for row in rows] == HARD
    assert [row[1] for row in rows[:5]] == ["0", "0.25", "0.5", "0.75", "1"]
    assert path.read_bytes().startswith(b'"na""me"')
    assert b"\r\n" not in path.read_bytes().replace(b"both\r\n", b"")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_formulas_of_spreadsheets_are_guarded_and_read_back(tmp_path: Path, name: str) -> None:
    cells = [*HARD[:-1], "=cmd|' /C calc'!A0", "+x", "'=1", "''-a", "'tis", "'", "-1.5", "+3e2", "-", "--", "\rx"]
    columns = {"name": cells, "label": ["-minus"] * len(cells)}
    path = written(tmp_path / name, {"name": "text", "label": "text"}, columns)
    header, *rows = rows_of(path)
    assert header == ["name", "label"]
    found = dict(zip(cells, [row[0] for row in rows], strict=True))
    assert found["=1+1"] == "'=1+1"
    assert found["@x"] == "'@x"
    assert {found[cell] for cell in ("-2", "-1.5", "+3e2")} == {"-2", "-1.5", "+3e2"}
    assert found["'tis"] == "'tis"
    (piece,) = Delimited(path).pieces(["name", "label"], 100)
    assert list(piece["name"]) == cells
    assert set(piece["label"]) == {"-minus"}


def test_json_lines_have_numbers_and_nulls(tmp_path: Path) -> None:
    piece = {"name": ["=ü", None], "p": torch.tensor([1 / 3, torch.nan])}
    path = written(tmp_path / "t.jsonl", {"name": "text", "p": "number"}, piece)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert rows == [{"name": "=ü", "p": 0.333333}, {"name": None, "p": None}]


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    written(STDOUT, {"name": "text"}, {"name": ["a", "=b"]})
    assert capsys.readouterr().out == "name\na\n'=b\n"


def test_parquet_has_types_and_pieces(tmp_path: Path) -> None:
    import pyarrow.parquet

    pieces = {"name": HARD, "p": torch.linspace(0, 1, len(HARD))}, {"name": ["x", None], "p": [torch.nan, 0.5]}
    table = pyarrow.parquet.read_table(written(tmp_path / "t.parquet", {"name": "text", "p": "number"}, *pieces))
    assert [str(kind) for kind in table.schema.types] == ["string", "float"]
    assert table["name"].to_pylist() == [*HARD, "x", None]


def test_nan_none_and_names_that_are_no_utf8_in_a_file_like_any_other(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", {"a": "text", "p": "number"}, {"a": [None, "x"], "p": torch.tensor([0.5, torch.nan])})
    assert path.read_text() == "a,p\n,0.5\nx,\n"
    odd, _ = (written(tmp_path / f"odd.{suffix}", {"a": "text"}, {"a": ["caf\udce9"]}) for suffix in ("csv", "parquet"))
    assert odd.read_text(encoding="utf-8") == "a\ncaf\\udce9\n"
    assert written(tmp_path / "none.csv", {"a": "text"}, {"a": []}).read_text() == "a\n"
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_nothing_is_left_where_it_fails(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        with write_table(path, {"a": "text"}) as write:
            write({"a": ["x"]})
            assert len(list(tmp_path.iterdir())) == 1  # the temporary one
            raise KeyboardInterrupt

    for suffix in ("csv", "parquet"):
        with pytest.raises(KeyboardInterrupt):
            fail(tmp_path / f"t.{suffix}")
        assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_not_even_what_came_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"

    def slowly() -> None:
        with write_table(path, {"a": "text"}) as write:
            write({"a": ["mine"]})
            path.write_text("precious")

    refused("never overwritten", slowly)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]
    refused("never overwritten", choose_path, path, tmp_path, "other.csv")


def test_names_are_counted_on_and_suffixes_checked(tmp_path: Path) -> None:
    assert free_path(tmp_path / "new", "a.csv") == tmp_path / "new" / "a.csv"
    (tmp_path / "a.csv").touch()
    (tmp_path / "a-2.csv").symlink_to("nowhere")
    assert choose_path(None, tmp_path, "a.csv") == tmp_path / "a-3.csv"
    refused(r"must end with \.csv, \.tsv, \.jsonl or", choose_path, tmp_path / "a.xlsx", tmp_path, "a.csv")
    refused("there is no folder", choose_path, tmp_path / "no" / "a.csv", tmp_path, "a.csv")
    refused("cannot be created", free_path, tmp_path / "a.csv" / "sub", "a.csv")


def test_parquet_without_pyarrow_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(r"pip install 'softmatch\[tables\]'", written, tmp_path / "t.parquet", {"a": "text"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="limits of a process are POSIX")
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    """A process that may write 20 kB to a file meets the same error as one on a full disk."""
    code = """
import resource, signal, sys
from pathlib import Path
from softmatch.errors import SoftmatchError
from softmatch.inference.writing import write_table
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for path in sys.argv[1:]:
    try:
        with write_table(Path(path), {"a": "text"}) as write:
            for number in range(100):
                write({"a": [f"{number} {k * k}" for k in range(1000)]})
    except SoftmatchError as error:
        print(error)
"""
    paths = [str(tmp_path / f"t.{suffix}") for suffix in ("csv", "parquet")]
    done = forked.run(["-c", code, *paths], tmp_path)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line]
    assert len(said) == 2
    for path, line in zip(paths, said, strict=True):
        assert line.startswith(f"{path} cannot be written: ")
        assert "File too large" in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named() -> None:
    with pytest.raises(SoftmatchError, match="cannot be written"), write_table(Path("/proc/t.csv"), {"a": "text"}):
        pass
