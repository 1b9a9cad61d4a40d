"""The paper's datasets of texts: columns and labels of each, every form in which they are kept, and what is wrong with others."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from softmatch.data import SOURCES, find_source
from softmatch.data.records import Records
from softmatch.data.sources.open_texts import TEXTS, TextData, read_texts
from softmatch.errors import InputError
from tests.data.sources.text_copies import news, write_jsonl, write_news, write_parquet, write_usb

ROWS: dict[str, tuple[dict[str, list[Any]], list[str], list[str]]] = {
    "agnews": (
        {"text": ["a", "b", "c", "d"], "label": [3, 0, 1, 2]},
        ["a", "b", "c", "d"],
        ["Sci/Tech", "World", "Sports", "Business"],
    ),
    "dbpedia": (
        {"label": [0, 13, 12], "title": ["T1", "T2 ", ""], "content": [" one", "two", " three"]},
        ["T1 one", "T2 two", "three"],
        ["Company", "WrittenWork", "Film"],
    ),
    "imdb": ({"text": ["bad", "good"], "label": [0, 1]}, ["bad", "good"], ["neg", "pos"]),
    "amazon-5": (
        {"class_index": [5, 1, 2], "review_title": ["Yes", None, "Hm"], "review_text": ["fine", "no", "so so"]},
        ["Yes fine", "no", "Hm so so"],
        ["5 stars", "1 star", "2 stars"],
    ),
    "yelp-5": (
        {"label": ["4", "0", "2"], "text": ["great", "awful", "so so"]},
        ["great", "awful", "so so"],
        ["5 stars", "1 star", "3 stars"],
    ),
}
"""Of each dataset a table as it is on the hub, the texts and the names of the classes in it."""


def texts(records: Records | None) -> list[str]:
    assert records is not None
    return [str(text) for text in records.inputs]


def labels(records: Records | None) -> list[str | None]:
    assert records is not None
    return list(records.labels)


@pytest.mark.parametrize("name", TEXTS)
def test_the_hubs_parquet_files_give_texts_and_classes(tmp_path: Path, name: str) -> None:
    columns, expected, classes = ROWS[name]
    head, tail = ({key: cells[part] for key, cells in columns.items()} for part in (slice(2), slice(2, None)))
    write_parquet(tmp_path / "data" / "train-00000-of-00002.parquet", head)
    if any(tail.values()):
        write_parquet(tmp_path / "data" / "train-00001-of-00002.parquet", tail)
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", columns)
    write_parquet(tmp_path / "data" / "unsupervised-00000-of-00001.parquet", head)
    data = read_texts(name, tmp_path)
    assert (texts(data.train), labels(data.train)) == (expected, classes)
    assert (texts(data.test), labels(data.test)) == (expected, classes)
    assert set(classes) <= set(data.classes) == set(TEXTS[name].classes)
    assert data.train.augmented == []


@pytest.mark.parametrize("name", TEXTS)
def test_the_hub_is_asked_for_what_the_table_says(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    datasets = pytest.importorskip("datasets", reason="of the extra `hub`")
    columns, expected, classes = ROWS[name]
    asked = []

    def load_dataset(place: str, config: str | None, *, split: str) -> Any:
        asked.append((place, config, split))
        return datasets.Dataset.from_dict(columns)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = read_texts(name)
    assert (texts(data.train), labels(data.train)) == (expected, classes)
    assert labels(data.test) == classes
    assert asked == [(TEXTS[name].hub.id, None, "train"), (TEXTS[name].hub.id, None, "test")]
    assert read_texts(name, validating=True).test is None
    assert len(asked) == 3, "the test set is not fetched where it is not used"


def test_a_hub_out_of_reach_is_an_error_with_a_way_out() -> None:
    pytest.importorskip("datasets", reason="of the extra `hub`")
    with pytest.raises(InputError, match=r"split 'train' of fancyzhx/ag_news cannot be fetched from .* --data PATH"):
        read_texts("agnews")


def test_a_table_of_texts_with_versions(tmp_path: Path) -> None:
    data = read_texts("agnews", write_news(tmp_path, 2, 1))
    rows = news(2, versions=True)
    assert texts(data.train) == [row["text"] for row in rows]
    assert labels(data.train) == [row["label"] for row in rows]
    assert [list(column) for column in data.train.augmented] == [[row[key] for row in rows] for key in ("aug_0", "aug_1")]
    assert data.test is not None
    assert not data.test.augmented
    assert any("aug_0" in finding.text for finding in data.findings)
    assert len(read_texts("agnews", tmp_path, augmented=["aug_1"]).train.augmented) == 1
    assert not read_texts("agnews", tmp_path, augmented=()).train.augmented


@pytest.mark.parametrize("indent", [None, 1])
def test_the_files_of_usb(tmp_path: Path, indent: int | None) -> None:
    for part, rows in {"train": news(2, versions=True), "dev": news(1, 50), "test": news(1, 90)}.items():
        write_usb(tmp_path / f"{part}.json", rows, indent)
    data = read_texts("agnews", tmp_path)
    assert texts(data.train) == [row["text"] for row in news(2)]
    assert labels(data.train) == [row["label"] for row in news(2)]
    assert data.train.augmented[1][0] == "a dog dog ran 0"
    assert texts(data.test) == [row["text"] for row in news(1, 90)]
    validating = read_texts("agnews", tmp_path, validating=True)
    assert texts(validating.validation) == [row["text"] for row in news(1, 50)]
    assert validating.test is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["0", "1", "4"], ["1 star", "2 stars", "5 stars"]),
        (["1", "2", "5"], ["1 star", "2 stars", "5 stars"]),
        (["1 star", "2 Star", "5 stars"], ["1 star", "2 stars", "5 stars"]),
        (["1.0", "", "-1"], ["2 stars", None, None]),
    ],
)
def test_labels_are_names_or_numbers_from_0_or_1(tmp_path: Path, given: list[str], expected: list[str | None]) -> None:
    for part in ("train", "test"):
        write_jsonl(tmp_path / f"{part}.jsonl", [{"text": f"t{k}", "label": label} for k, label in enumerate(given)])
    assert labels(read_texts("yelp-5", tmp_path).train) == expected


def test_packed_tables_and_tables_with_the_hubs_columns(tmp_path: Path) -> None:
    content = "class_index,review_title,review_text\n5,Yes,fine\n1,No,bad\n"
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv.gz").write_bytes(gzip.compress(content.encode()))
    data = read_texts("amazon-5", tmp_path)
    assert (texts(data.train), labels(data.train)) == (["Yes fine", "No bad"], ["5 stars", "1 star"])


def test_a_list_and_lines_of_objects_in_json_are_tables_too(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text('[{"text": "a", "label": "World"},\n{"text": "b", "label": "Sports"}]')
    (tmp_path / "test.json").write_text('{"text": "a", "label": 0}\n{"text": "b", "label": 3}\n')
    data = read_texts("agnews", tmp_path)
    assert (labels(data.train), labels(data.test)) == (["World", "Sports"], ["World", "Sci/Tech"])


def test_a_source_of_texts_loads_as_vectors_in_the_order_of_its_classes(tmp_path: Path) -> None:
    examples = find_source("agnews").load(0, write_news(tmp_path))
    assert examples.kind == "vector"
    assert examples.classes == ("World", "Sports", "Business", "Sci/Tech")
    assert examples.labels.tolist() == [0, 1, 2, 3] * 12
    assert examples.test is not None
    assert examples.test.labels.tolist() == [0, 1, 2, 3] * 3


def test_every_dataset_is_a_source() -> None:
    assert {name for name, source in SOURCES.items() if source.texts} == set(TEXTS)
    assert {name: dict(data.defaults) for name, data in TEXTS.items()} == {
        "agnews": {"labels": 40},
        "dbpedia": {"labels": 70},
        "imdb": {"labels": 100},
        "amazon-5": {"labels": 1000},
        "yelp-5": {"labels": 1000},
    }
    assert [len(data.classes) for data in TEXTS.values()] == [4, 14, 2, 5, 5]


def wrong(folder: Path, what: str) -> TextData:
    """Read a copy that has this wrong with it."""
    write_news(folder, 1, 1)
    train = folder / "train.jsonl"
    if what == "label":
        write_jsonl(train, [*news(1), {"text": "x", "label": "Culture"}])
    elif what == "number":
        write_jsonl(train, [{"text": "x", "label": 0}, {"text": "y", "label": 4}])
    elif what == "columns":
        write_jsonl(train, [{"sentence": "x", "label": 0}])
    elif what == "two":
        (folder / "train.csv").write_text("text,label\nx,0\n")
    elif what == "json":
        train.unlink()
        (folder / "train.json").write_text('{"0": {"ori": "x",\n "label": ')
    elif what == "nothing":
        train.unlink()
    elif what == "file":
        return read_texts("agnews", train)
    return read_texts("agnews", folder / "not there" if what == "missing" else folder)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "label",
            r"train\.jsonl, row 5: the label 'Culture' is not a class of agnews: they are 'World', 'Sports', .* from 0 to 3",
        ),
        ("number", r"train\.jsonl, row 2: the label '4' is not a class of agnews"),
        ("columns", r"train\.jsonl has the columns 'sentence', 'label'; texts must be in 'text' and labels in 'label'"),
        ("two", r"has train\.csv and train\.jsonl: only one of them can be meant"),
        ("json", r"train\.json, row 1 \(line 1\) is not JSON"),
        ("nothing", r"has no table of agnews; it holds 'test\.jsonl'\. Expected train\.\* and test\.\*"),
        ("file", r"train\.jsonl is a file: give the folder"),
        ("missing", r"not there: there is no such folder"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong(tmp_path, what)
