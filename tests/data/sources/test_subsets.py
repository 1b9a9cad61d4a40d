"""Texts drawn of each class: how many, which, in which order, and what is said where there are too few."""

from collections import Counter
from typing import Any

import pytest

from softmatch.data.records import Records
from softmatch.data.sources.open_texts import TextData, draw
from softmatch.errors import InputError
from tests.data.sources.text_copies import WORDS, news


def make(number: int = 10, unlabeled: int = 0, **parts: Any) -> TextData:
    rows = news(number, versions=True)
    names = [str(row) for row in range(1, len(rows) + unlabeled + 1)]
    texts = [str(row["text"]) for row in rows] + [f"? {k}" for k in range(unlabeled)]
    labels = [row["label"] for row in rows] + [None] * unlabeled
    versions = [[f"v {text}" for text in texts]]
    test = Records("text", ["t"], ["1"], ["World"])
    return TextData("agnews", Records("text", texts, names, labels, versions), test, tuple(WORDS), **parts)


def test_validation_texts_are_taken_out_of_the_training_set() -> None:
    data = make()
    drawn = draw(data, None, 3, seed=0)
    assert drawn.test is not None
    assert Counter(drawn.test.labels) == dict.fromkeys(WORDS, 3)
    assert Counter(drawn.train.labels) == dict.fromkeys(WORDS, 7)
    assert {*drawn.train.names, *drawn.test.names} == {*data.train.names}
    for part in (drawn.train, drawn.test):
        assert [int(name) for name in part.names] == sorted(int(name) for name in part.names), "their order stays"
        assert [data.train.labels[int(name) - 1] for name in part.names] == list(part.labels)
    assert drawn.train.augmented == [[f"v {text}" for text in drawn.train.inputs]], "versions stay with their texts"
    assert not drawn.test.augmented
    assert "12 texts taken out of the training set, 3 per class; the test set is not used" in drawn.findings[-1].text


def test_the_seed_decides_and_nothing_else() -> None:
    first, again, other = (draw(make(), None, 3, seed) for seed in (0, 0, 1))
    assert first == again
    assert first.train.names != other.train.names
    fewer = draw(make(), 2, 3, seed=0)
    assert first.test is not None
    assert fewer.test == first.test, "how many are trained on does not change what is validated on"
    assert Counter(fewer.train.labels) == dict.fromkeys(WORDS, 2)
    assert {*fewer.train.names} < {*first.train.names}


def test_texts_without_a_label_stay() -> None:
    drawn = draw(make(4, unlabeled=5), 2, 1, seed=0)
    counts = Counter(drawn.train.labels)
    assert [counts[name] for name in (*WORDS, None)] == [2, 2, 2, 2, 5]


def test_nothing_asked_for_leaves_everything() -> None:
    data = make()
    assert draw(data, None, None, seed=0) == data


def test_a_table_to_validate_on_is_used_where_there_is_one() -> None:
    data = make(validation=make(4).train)
    drawn = draw(data, None, 2, seed=0)
    assert drawn.train == data.train
    assert drawn.test is not None
    assert Counter(drawn.test.labels) == dict.fromkeys(WORDS, 2)
    assert "8 texts of the validation set" in drawn.findings[-1].text


@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        (
            None,
            10,
            "class 'World' has 10 texts; 10 per class to validate on and 1 to train on .*: lower --validation-per-class\\.",
        ),
        (
            8,
            3,
            "has 10 texts; 3 per class to validate on and 8 to train on .*: lower --validation-per-class or --train-per-class",
        ),
        (11, None, "class 'World' has 10 texts to train on, 11 per class are asked for: lower --train-per-class"),
    ],
)
def test_too_few_texts_are_named_with_the_option_to_change(train: int | None, validation: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(make(), train, validation, seed=0)


def test_too_few_in_the_table_to_validate_on() -> None:
    with pytest.raises(InputError, match="class 'World' has 2 texts to validate on, 3 per class are asked for"):
        draw(make(validation=make(2).train), None, 3, seed=0)


def test_without_a_test_set_validation_is_the_way_out() -> None:
    data = TextData("agnews", make().train, None, tuple(WORDS))
    with pytest.raises(InputError, match=r"no table test\.\*.* --validation-per-class N"):
        draw(data, None, None, seed=0)
    assert draw(data, None, 1, seed=0).test is not None
