"""Datasets of texts: what is drawn is augmented and written, and is read again as what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softmatch.augmenting import augment_source
from softmatch.data.sources.open_texts import read_texts
from softmatch.data.sources.subsets import draw
from softmatch.errors import InputError, SoftmatchError
from tests.data.sources.text_copies import news, write_jsonl, write_news

MINE = """
from pathlib import Path

def loud(texts): return [text.upper() for text in texts]

def rude(texts):
    Path({new!r}).mkdir()
    Path({new!r}, "precious").touch()
    return texts
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE.format(new=str(tmp_path / "new")))
    return str(tmp_path / "mine.py")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_all_texts_and_the_test_set(tmp_path: Path, mine: str) -> None:
    given = [*news(3), {"text": "the café, unlabelled", "label": None}]
    write_jsonl(tmp_path / "copy" / "train.jsonl", given)
    write_jsonl(tmp_path / "copy" / "test.jsonl", news(2, start=9))
    notes: list[str] = []
    found = augment_source("agnews", f"{mine}:loud,words", data=tmp_path / "copy", note=notes.append)
    assert notes[-1] == "agnews: 13 texts to train on are augmented, each 2 times; the 8 of test.jsonl stay as they are."
    assert found.out == Path("agnews-augmented")
    assert sorted(path.name for path in found.out.iterdir()) == ["test.jsonl", "train.jsonl"]
    train = rows(found.out / "train.jsonl")
    assert [{key: row[key] for key in ("text", "label")} for row in train] == given
    assert [row["aug_0"] for row in train] == [row["text"].upper() for row in given]
    assert list(train[0]) == ["text", "label", "aug_0", "aug_1"]
    assert rows(found.out / "test.jsonl") == news(2, start=9)
    assert (found.columns[0].name, found.columns[0].changed) == ("aug_0", 13)
    assert found.train == "softmatch train agnews --data agnews-augmented --recipe paper"


def test_what_is_drawn_is_what_training_would_draw(tmp_path: Path, mine: str) -> None:
    copy = write_news(tmp_path / "copy")
    (tmp_path / "new").mkdir()  # an empty one is taken
    options = {"train_per_class": 4, "validation_per_class": 2, "seed": 7}
    found = augment_source("agnews", f"{mine}:loud", tmp_path / "new", copy, **options)
    assert [column.name for column in found.columns] == ["aug_2"], "those that are there stay"
    assert found.train.endswith("new --train-per-class 4 --validation-per-class 2 --recipe paper")
    wanted = draw(read_texts("agnews", copy, validating=True), 4, 2, seed=7)
    again = draw(read_texts("agnews", tmp_path / "new", validating=True), 4, 2, seed=0)  # all that there is, by any seed
    assert (again.train.inputs, again.train.labels) == (wanted.train.inputs, wanted.train.labels)
    assert list(again.train.augmented) == [*wanted.train.augmented, [str(text).upper() for text in wanted.train.inputs]]
    assert again.test is not None
    assert wanted.test is not None
    assert (again.test.inputs, again.test.labels) == (wanted.test.inputs, wanted.test.labels)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["dev.jsonl", "train.jsonl"]
    smaller = augment_source("agnews", "words", tmp_path / "smaller", copy, train_per_class=4)
    assert smaller.train.endswith("smaller --train-per-class 4"), "the recipe would take its validation texts out of them"


def test_what_cannot_work_is_refused_before_anything_is_made(tmp_path: Path, mine: str, cache: Path) -> None:
    copy = write_news(tmp_path / "copy")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "precious").touch()
    for source, changed, message in (
        ("agnews", {"out": tmp_path / "used"}, "exists already and is never overwritten"),
        ("agnews", {"out": tmp_path / "no" / "new"}, "there is no folder"),
        ("agnews", {"out": Path()}, "is the current folder"),
        ("agnews", {"train_per_class": 13}, "class 'World' has 12 texts to train on, 13 of each class are asked for"),
        ("agnews", {"validation_per_class": 0}, "--validation-per-class 0: one or more are needed"),
        ("agnews", {"via": "german"}, "--via german: it must be a language"),
        ("digits", {}, "digits holds no texts to augment: give one of agnews,"),
        ("agnew", {}, "Did you mean 'agnews'"),
    ):
        with pytest.raises(InputError, match=message):
            augment_source(source, **{"via": f"{mine}:loud", "data": copy, **changed})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "mine.py", "used"]
    assert not cache.exists()


def test_a_folder_that_comes_meanwhile_stays(tmp_path: Path, mine: str) -> None:
    copy = write_news(tmp_path / "copy", versions=False)
    with pytest.raises(SoftmatchError, match=r"new cannot be written: .* Nothing was left there"):
        augment_source("agnews", f"{mine}:rude", tmp_path / "new", copy, batch=1000)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["precious"]
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
