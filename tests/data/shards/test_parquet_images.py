"""Parquet files with a column of images: as the library `datasets` writes them, and with plain bytes; local and from S3."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import softmatch
from softmatch.data.pictures import load
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns
from softmatch.data.shards.shard_source import OpenedShards
from softmatch.errors import InputError
from softmatch.inference.predict import predict
from tests.tar_shards import CLASSES, picture, s3_server, write_shards
from tests.training.test_shard_runs import TINY, task_of, weak_views


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))


def write_parquet(path: Path, columns: dict[str, Sequence[Any]], features: dict[str, Any] | None = None) -> Path:
    """Write a Parquet file, with the note of the library `datasets` about its columns if there are any."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(dict(columns))
    note = None if features is None else {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(table.replace_schema_metadata(note), path, compression="zstd", row_group_size=7)
    return path


def opened(where: object, columns: Columns | None = None) -> OpenedShards:
    found = open_source(where, columns)
    assert isinstance(found, OpenedShards)
    return found


def test_images_as_the_library_datasets_writes_them(tmp_path: Path) -> None:
    cells = [{"bytes": picture(k), "path": None} for k in range(20)]
    numbers = [k % 2 if k < 8 else -1 for k in range(20)]
    features = {"img": {"_type": "Image"}, "label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    path = write_parquet(tmp_path / "train-0.of.1.parquet", {"label": numbers, "img": cells}, features)
    source = opened(path)
    assert [load(each).content for each in source.members] == [picture(k) for k in range(20)]
    records = source.read()
    assert dict(zip(records.names, records.labels, strict=True)) == {f"train-0_of_1/{k + 1}": CLASSES[k % 2] for k in range(8)}
    assert [label for piece in source.stream(6) for label in piece.labels] == [*CLASSES] * 4 + [None] * 12


def test_batches_are_those_of_tar_shards_with_the_same_images(tmp_path: Path) -> None:
    tars = write_shards(tmp_path / "tars", [9, 5, 16], labelled=12)
    for shard, (start, stop) in enumerate(((0, 9), (9, 14), (14, 30))):
        labels = [CLASSES[k % 2] if k < 12 else None for k in range(start, stop)]
        columns = {"image": [picture(k) for k in range(start, stop)], "class": pa.array(labels, pa.string())}
        write_parquet(tmp_path / "parquet" / f"shard-{shard}.parquet", columns)
    ours = weak_views(task_of(f"{tmp_path}/parquet/shard-*.parquet", workers=0), 3)
    assert [each.tolist() for each in ours] == [each.tolist() for each in weak_views(task_of(tars, workers=0), 3)]


def test_a_run_and_predictions_from_s3(tmp_path: Path) -> None:
    columns = {"image": [picture(k) for k in range(40)], "label": [k % 2 if k < 20 else -1 for k in range(40)]}
    write_parquet(tmp_path / "bucket" / "one.parquet", columns)
    with s3_server("bucket", tmp_path / "bucket") as address:
        result = softmatch.train(f"{address}/one.parquet", **{**TINY, "steps": 2, "checkpoint_every": None}, out=tmp_path / "run")
        found = predict(result.run, f"{address}/one.parquet", tmp_path / "predictions.csv")
    assert (found.samples, found.problems, found.known) == (40, 0, 20)
    assert (tmp_path / "predictions.csv").read_text().splitlines()[40].startswith("one/40,")


def test_what_is_no_file_of_images_stays_a_table(tmp_path: Path) -> None:
    columns = {"text": ["red", "blue"] * 9, "label": ["a", "b"] * 9, "raw": [b"\0"] * 18}
    assert open_source(write_parquet(tmp_path / "texts.parquet", columns)).kind == "text"
    images = {"text": ["red", "blue"] * 9, "label": ["a", "b"] * 9, "image": [picture(1)] * 18}
    assert open_source(write_parquet(tmp_path / "both.parquet", images), Columns(text="text")).kind == "text"
    sounds = {"audio": [{"bytes": b"RIFF", "path": None}] * 18, "label": ["a", "b"] * 9, "length": [1.0, 2.0] * 9}
    path = write_parquet(tmp_path / "sounds.parquet", sounds, {"audio": {"_type": "Audio"}})
    assert open_source(path, Columns(features=("length",))).kind == "table"


def test_files_that_are_no_good(tmp_path: Path) -> None:
    gap = write_parquet(tmp_path / "gap.parquet", {"image": [picture(1), None, picture(3)]})
    with pytest.raises(InputError, match=r"gap\.parquet, row 2 holds no image in the column 'image'"):
        opened(gap)
    two = write_parquet(tmp_path / "two.parquet", {"image": [picture(1)], "label": ["a"], "topic": ["b"]})
    with pytest.raises(InputError, match=r"which column holds the labels \('label' or 'topic'\)\. Choose one with --label"):
        opened(two)
    assert opened(two, Columns(label="topic")).read().labels == ["b"]
    assert opened(two, Columns(label="label")).read().labels == ["a"]
    with pytest.raises(InputError, match=r"has no column 'Label'.*label"):
        opened(two, Columns(label="Label"))
    far = write_parquet(tmp_path / "far.parquet", {"image": [picture(1)], "label": [5]}, {"label": {"names": ["a", "b"]}})
    with pytest.raises(InputError, match=r"far\.parquet, row 1: there is no class 5: the file names 2"):
        opened(far)
    write_parquet(tmp_path / "part-1.parquet", {"image": [picture(1)], "label": ["a"]})
    write_parquet(tmp_path / "part-2.parquet", {"picture": [picture(1)]})
    with pytest.raises(InputError, match=r"part-2\.parquet lacks columns of the first file"):
        opened(f"{tmp_path}/part-{{1..2}}.parquet")
