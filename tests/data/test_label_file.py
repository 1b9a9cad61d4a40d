"""Labels that come back: found by name or content, merged with those of the source, and refused where they cannot be right."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from softmatch.data.fingerprint import sample_digest
from softmatch.data.label_file import add_labels, read_label_file
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns, Records, numbered
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError
from tests.own.sources import blobs, pictures, texts, write_csv


def some_texts(number: int = 6, labels: list[str | None] | None = None) -> Records:
    return numbered([f"text {k}" for k in range(number)], "text", labels or [None] * number)


def merged(records: Records, path: Path, **how: Any) -> Records:
    made, findings = add_labels(records, "source", path, **how)
    assert not [finding.text for finding in findings if finding.level == "stop"]
    return made


def stops(records: Records, path: Path, **how: Any) -> str:
    return "\n".join(finding.text for finding in add_labels(records, "source", path, **how)[1] if finding.level == "stop")


@pytest.mark.parametrize("column", ["name", "id", "row", "Name"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_labels_are_merged_by_name(tmp_path: Path, column: str, suffix: str) -> None:
    rows = [("2", "cat", "…"), ("5", "", "empty"), ("6", "dog", "x")]
    path = tmp_path / f"labels.{suffix}"
    if suffix == "jsonl":
        lines = [json.dumps({column: int(name), "label": label or None, "reason": reason}) for name, label, reason in rows]
    else:
        mark = "\t" if suffix == "tsv" else ","
        lines = [mark.join(row) for row in [(column, "label", "reason"), *rows]]
    path.write_text("\n".join(lines))
    made = merged(some_texts(labels=["cat", None, None, "dog", None, None]), path)
    assert made.labels == ["cat", "cat", None, "dog", None, "dog"]
    assert made.chosen == ()


def test_what_was_merged_is_said(tmp_path: Path) -> None:
    rows = [("1", "cat", "random"), ("2", "bird", "chosen"), ("3", "dog", "group"), ("4", "dog", "")]
    path = write_csv(tmp_path / "l.csv", rows, ("name", "label", "purpose"))
    made, findings = add_labels(some_texts(labels=["cat", None, None, None, "dog", None]), "source", path)
    (note,) = findings
    counted = f"labels of {path}: 4, of which 3 are of samples without a label"
    assert note.level == "note"
    assert note.text == f"{counted}; purpose: 1 random, 1 chosen, 1 group; new class: 'bird'."
    assert made.chosen == [False, True, True, False, False, False]


def test_a_file_that_nobody_has_filled_in_is_pointed_out(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "l.csv", [("1", "", "random"), ("2", "", "chosen")], ("name", "label", "purpose"))
    made, (finding,) = add_labels(some_texts(), "source", path)
    assert (finding.level, finding.text) == ("warning", f"{path} has no labels yet: its column label is empty.")
    assert made.labels == [None] * 6


def test_parquet_and_numbers_as_labels(tmp_path: Path) -> None:
    path = tmp_path / "l.parquet"
    pd.DataFrame({"row": [2, 4], "label": [1.0, float("nan")], "purpose": ["chosen", None]}).to_parquet(path)
    made = merged(some_texts(), path)
    assert made.labels == [None, "1", None, None, None, None]
    assert made.chosen == [False, True, False, False, False, False]


@pytest.mark.parametrize("kind", ["text", "table", "array", "image"])
def test_a_digest_finds_a_sample_that_has_moved(tmp_path: Path, kind: str) -> None:
    if kind == "image":
        records = open_source(pictures(tmp_path / "p", per_class=2, unlabeled=4)).read()
    elif kind == "array":
        records = numbered(np.arange(8.0).reshape(4, 2), "array", [None] * 4)
    else:
        make, columns = (texts, Columns(text="message")) if kind == "text" else (blobs, Columns())
        records = open_source(make(tmp_path / "t.csv", 2, 4), columns).read()
    records = replace(records, labels=[None] * len(records))
    rows = [(name, f"class {k % 2}", sample_digest(records, k)) for k, name in enumerate(records.names)]
    path = write_csv(tmp_path / "l.csv", rows, ("name", "label", "digest"))
    order = list(range(len(records)))[::-1]
    turned = replace(records.select(order), names=records.names)  # the same names, other samples
    made, findings = add_labels(turned, "source", path)
    assert made.labels == [f"class {k % 2}" for k in order]
    assert f"{len(rows)} were found by content, under another name" in findings[-1].text
    assert "by content" not in add_labels(records, "source", path)[1][-1].text


def test_cells_have_one_digest_however_their_column_is_read() -> None:
    numbers = Records("table", {"a": np.array([1.0, np.nan]), "b": np.array([-0.0, 2.5])}, ["1", "2"], [None] * 2)
    words = Records("table", {"b": [" 0", "2.50"], "a": ["1", "NA"]}, ["1", "2"], [None] * 2)
    assert [sample_digest(numbers, k) for k in (0, 1)] == [sample_digest(words, k) for k in (0, 1)]
    assert sample_digest(numbers, 0) != sample_digest(numbers, 1)


def test_copies_share_the_labels_of_their_content(tmp_path: Path) -> None:
    """Rows of a table may be equal and have different labels: each label goes to a row of its own."""
    records = Records("table", {"a": np.array([3.0, 7.0, 7.0])}, ["1", "2", "3"], [None] * 3)
    digest = sample_digest(records, 1)
    path = write_csv(tmp_path / "l.csv", [("8", "x", digest), ("9", "y", digest)], ("name", "label", "digest"))
    assert merged(records, path).labels == [None, "x", "y"]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([("some/1", "cat")], "row 1: 'some/1'"),  # a longer path is another file
        (
            [("7", "cat")],
            "1 label is of samples that source does not have: {file}, row 1: '7'. Its samples are called '1' to '6'",
        ),
        (
            [("1", "cat"), ("1", "dog")],
            "1 sample is labelled twice differently: {file}, row 2: '1' is 'dog' here and 'cat' in row 1.",
        ),
        ([("2", "cat"), ("3", "horses")], "{file}, row 2: the source has no class 'horses'. Did you mean 'horse'?"),
        (
            [("4", "cat"), ("5", "cat")],
            "2 labels contradict the source: {file}, row 1: '4' is 'cat' here and 'horse' in source; ",
        ),
    ],
)
def test_wrong_labels_stop(tmp_path: Path, rows: list[tuple[str, str]], text: str) -> None:
    path = write_csv(tmp_path / "l.csv", rows, ("name", "label"))
    assert text.format(file=path) in stops(some_texts(labels=[None, None, None, "horse", "horse", None]), path)


def test_a_digest_that_no_sample_has_stops(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "l.csv", [("1", "cat", "ab12"), ("2", "dog", "")], ("name", "label", "digest"))
    assert f"1 label has a digest that no sample of source has: {path}, row 1: '1'." in stops(some_texts(), path)


def test_similar_names_of_codes_are_new_classes(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "l.csv", [("1", "10"), ("2", "A2")], ("name", "label"))
    assert merged(some_texts(labels=[None, None, "1", "A1", None, None]), path).labels[:2] == ["10", "A2"]


def test_the_user_says_which_label_counts(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "l.csv", [("1", "dogs"), ("2", "cat")], ("name", "label"))
    records = some_texts(labels=["cat", None, "dog", None, None, None])
    assert merged(records, path, prefer="new").labels[:2] == ["dogs", "cat"]
    path = write_csv(tmp_path / "l.csv", [("1", "dog"), ("2", "cat")], ("name", "label"))
    assert merged(records, path, prefer="old").labels[:2] == ["cat", "cat"]
    _, findings = add_labels(records, "source", path, prefer="old")
    assert findings[0].text.startswith("1 label contradicts the source; the old one is used: ")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("file,label\n1,a\n", "has no column 'name' (or 'id' or 'row'): it has 'file', 'label'."),
        ("name,class\n1,a\n", "has no column 'label'"),
        ("name,label,purpose\n1,a,\n2,b,test\n", "row 2: the purpose is 'test'. Write random, chosen or group, or nothing."),
        ("name,label\n,a\n", "row 1: the label 'a' has no sample."),
    ],
)
def test_files_that_cannot_be_understood(tmp_path: Path, content: str, text: str) -> None:
    (path := tmp_path / "l.csv").write_text(content)
    with pytest.raises(InputError) as error:
        read_label_file(path)
    assert text in str(error.value)
    assert str(path) in str(error.value)


def test_files_that_are_not_there_or_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .* with labels"):
        read_label_file(tmp_path / "none.csv")
    (tmp_path / "l.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match="labels are read from a"):
        read_label_file(tmp_path / "l.txt")


def task(data: dict[str, Any], *choices: str, **annotation: Any) -> dict[str, Any]:
    result = [{"type": "choices", "from_name": "label", "to_name": "x", "value": {"choices": [choice]}} for choice in choices]
    return {"id": 1, "data": data, "annotations": [{"id": 1, "result": result, **annotation}]}


def test_an_export_of_label_studio(tmp_path: Path) -> None:
    source = pictures(tmp_path / "p", per_class=2, unlabeled=5)
    records = open_source(source).read()
    unlabeled = [name for name in records.names if name.startswith("unlabeled/")]
    tasks = [
        task({"image": f"/data/local-files/?d=photos/{unlabeled[0].replace('/', '%2F')}"}, "light"),
        task({"image": f"https://host/some/{unlabeled[1]}?token=1"}, "dark"),
        task({"image": "anything", "name": unlabeled[2], "purpose": "chosen"}, "light"),
        task({"image": unlabeled[3]}, "light", was_cancelled=True),
        {"id": 9, "data": {"image": unlabeled[4]}, "annotations": []},
    ]
    (path := tmp_path / "export.json").write_text(json.dumps(tasks))
    made = merged(records, path)
    found = dict(zip(made.names, made.labels, strict=True))
    assert [found[name] for name in unlabeled] == ["light", "dark", "light", None, None]
    assert [name for name, chosen in zip(made.names, made.chosen, strict=True) if chosen] == [unlabeled[2]]


def test_texts_of_label_studio_are_found_by_content(tmp_path: Path) -> None:
    tasks = [task({"text": "text  3 "}, "a"), task({"text": "text 1", "title": "other"}, "b")]
    (path := tmp_path / "export.json").write_text(json.dumps(tasks))
    assert merged(some_texts(), path).labels == [None, "b", None, "a", None, None]


def test_tasks_of_label_studio_that_cannot_be_used(tmp_path: Path) -> None:
    for wrong, text in (
        (task({"text": "text 1"}, "a") | {"data": []}, "row 1 is not a task of Label Studio"),
        (task({"number": 3}, "a"), "row 1: cannot tell which sample it is"),
    ):
        (path := tmp_path / "export.json").write_text(json.dumps([wrong]))
        with pytest.raises(InputError, match=text):
            read_label_file(path)
    several = task({"text": "text 1"}, "a")
    several["annotations"][0]["result"][0]["value"]["choices"] = ["a", "b"]
    path.write_text(json.dumps([several]))
    with pytest.raises(InputError, match=r"row 1 has 2 choices: 'a', 'b'. A sample has one class."):
        read_label_file(path)


def test_a_source_without_labels_needs_none_of_its_own(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "t.csv", [(f"a {word} here", k) for k, word in enumerate("abcdefgh")], ("text", "day"))
    path = write_csv(tmp_path / "l.csv", [(k, "odd" if k % 2 else "even") for k in range(1, 6)], ("row", "label"))
    found = read_own(str(source), Reading(labels_from=path))
    assert found.examples.classes == ("even", "odd")
    assert found.examples.labels.tolist() == [1, 0, 1, 0, 1, -1, -1, -1]
    with pytest.raises(InputError, match="has no column 'kind'"):
        read_own(str(source), Reading(Columns(label="kind"), labels_from=path))


def test_a_column_of_labels_that_was_not_recognised_is_pointed_out(tmp_path: Path) -> None:
    rows = [(k / 7, -k, ("low", "high", "")[k % 3]) for k in range(12)]
    source = write_csv(tmp_path / "t.csv", rows, ("a", "b", "level"))
    path = write_csv(tmp_path / "l.csv", [(1, "x"), (2, "y"), (3, "x")], ("name", "label"))
    warned = [each.text for each in read_own(str(source), Reading(labels_from=path)).findings if each.level == "warning"]
    assert any("no label column was found" in text for text in warned)
