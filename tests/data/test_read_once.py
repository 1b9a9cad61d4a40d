"""A source file is opened once on the way to training."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import pytest

from softmatch.data.readers import csv_files, table_source
from softmatch.data.understanding import Reading, read_own
from softmatch.training.opening import open_job
from tests.own.sources import blobs, pictures, texts, write_csv
from tests.tiny_encoder import make_vit

_watched: list[tuple[Path, Counter[str]]] = []


def _on_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], (str, bytes)):
        folder, counts = _watched[-1]
        path = Path(arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0])
        if path.is_relative_to(folder):
            counts[path.relative_to(folder).as_posix()] += 1


sys.addaudithook(_on_open)  # it cannot be removed, and does nothing outside of `opens`


@contextmanager
def opens(folder: Path) -> Iterator[Counter[str]]:
    """How often each file below a folder is opened meanwhile."""
    _watched.append((folder, counts := Counter()))
    try:
        yield counts
    finally:
        _watched.pop()


def _as_jsonl(csv: Path) -> Path:
    path = csv.with_suffix(".jsonl")
    path.write_text("\n".join(json.dumps(row) for row in pd.read_csv(csv).fillna("").to_dict("records")))
    return path


def _as_tsv(csv: Path) -> Path:
    pd.read_csv(csv).to_csv(csv.with_suffix(".tsv"), sep="\t", index=False)
    return csv.with_suffix(".tsv")


@pytest.mark.parametrize("make", [blobs, texts])
@pytest.mark.parametrize("form", [lambda path: path, _as_tsv, _as_jsonl])
def test_a_table(tmp_path: Path, make: Callable[[Path], Path], form: Callable[[Path], Path]) -> None:
    source = form(make(tmp_path / "t.csv"))
    with opens(tmp_path) as counts:
        assert len(open_job(str(source)).examples) in (84, 90)
    assert counts == {source.name: 1}


def test_a_table_longer_than_what_is_kept_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(i / 7, i * i % 11, "ab"[i % 2] if i < 100 else "") for i in range(9000)]
    source = write_csv(tmp_path / "t.csv", rows, ("width", "height", "label"))
    monkeypatch.setattr(csv_files, "KEPT", 60_000)  # more than the sample of 1,000 rows, less than the file
    assert source.stat().st_size > 2 * 60_000
    with opens(tmp_path) as counts:
        assert len(open_job(str(source)).examples) == 9000
    assert counts == {"t.csv": 1}


def test_lines_of_json_are_parsed_once_unless_they_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, parsed, parse = _as_jsonl(texts(tmp_path / "t.csv")), list[str](), table_source._parse
    monkeypatch.setattr(table_source, "_parse", lambda text, place: (parsed.append(place), parse(text, place))[1])
    first = read_own(source, Reading()).examples
    assert len(parsed) == len(set(parsed)) == 84
    monkeypatch.setattr(table_source, "KEPT", 1000)
    again = read_own(source, Reading()).examples
    assert again.items.equal(first.items)  # type: ignore[union-attr, arg-type]  # vectors
    assert len(parsed) > 2 * 84


def test_a_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow opens files without telling Python: each of its objects opens one. The first looks for images."""
    opened, make = list[Any](), pyarrow.parquet.ParquetFile
    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", lambda path: (opened.append(path), make(path))[1])
    source = tmp_path / "t.parquet"
    pd.read_csv(blobs(tmp_path / "t.csv")).to_parquet(source)
    assert len(open_job(str(source)).examples) == 90
    assert opened == [source, source]


@pytest.mark.parametrize("test", ["", "test/"])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_folder_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: bool, test: str) -> None:
    """Digest, header and pixels come from one read, and the key of the cached features too."""
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "photos"
    pictures(folder / "train" if test else folder, per_class=3, unlabeled=4, side=16)
    if test:
        pictures(folder / "test", per_class=2, unlabeled=0, side=16, seed=1)
    (folder / ("train/dark" if test else "dark") / "broken.png").write_bytes(b"broken")
    given = {"encoder": str(make_vit(tmp_path / "vit"))} if frozen else {}
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.png")}
    for _ in ("computed", "cached"):
        with opens(folder) as counts:
            assert len(open_job(str(folder), given).examples) == 10
        assert counts == dict.fromkeys(files, 1)
