"""Which column is what: found where it is obvious, asked for where it is not."""

from typing import Any

import pytest

from softmatch.data.readers.columns import decide
from softmatch.data.records import Columns
from softmatch.errors import InputError

SENTENCES = [f"this is the sentence with the number {k}" for k in range(6)]
LABELS = ["a", "", "b", "", "a", "b"]


def found(sample: dict[str, list[Any]], columns: Columns | None = None, **options: bool) -> Columns:
    return decide(sample, columns or Columns(), "data.csv", **options)[0]


def told(sample: dict[str, list[Any]], columns: Columns | None = None, **options: bool) -> str:
    """What is said about what was found, if anything."""
    findings = decide(sample, columns or Columns(), "data.csv", **options)[1]
    assert {finding.level for finding in findings} <= {"note"}
    return "\n".join(finding.text for finding in findings)


@pytest.mark.parametrize("label", ["label", "Labels", "CLASS", "category", "target", "y", "Intent", "topic"])
@pytest.mark.parametrize("text", ["text", "Sentence", "message", "review", "utterance", "title", "whatever"])
def test_obvious_names_are_found_and_told(label: str, text: str) -> None:
    sample = {"id": list(range(6)), text: SENTENCES, label: LABELS}
    assert found(sample) == Columns(label=label, text=text)
    assert told(sample) == f"data.csv: label: column {label!r}; text: column {text!r}; left out: 'id'."


def test_table_leaves_out_what_is_no_feature() -> None:
    sample = {
        "Unnamed: 0": ["0", "1", "2", "3", "4", "5"],
        "PassengerId": [7, 3, 9, 1, 4, 2],
        "customer_id": [7, 3, 9, 1, 4, 2],
        "name": ["Ann", "Bob", "Cy", "Di", "Ed", "Flo"],
        "age": ["1", "2", "3", "4", "5", "6"],
        "colour": ["red", "red", "blue", "NA", "red", "blue"],
        "same": ["x"] * 6,
        "empty": [""] * 6,
        "half": ["x", "", "x", "", "", "x"],
        "label": LABELS,
    }
    assert found(sample, whole=True) == Columns(label="label", features=("age", "colour", "half"))
    note = told(sample, whole=True)
    assert "features: 'age', 'colour', 'half'" in note
    assert "'name' (all values differ)" in note
    assert "'same' (always the same)" in note
    assert "'empty' (empty)" in note
    assert "'customer_id' (all values differ, a row number)" in note


def test_constant_so_far_is_kept_where_more_rows_follow() -> None:
    assert found({"a": ["1"] * 6, "label": LABELS}).features == ("a",)


def test_what_the_user_says_is_taken_and_not_told_again() -> None:
    sample = {"q": SENTENCES, "text": SENTENCES, "label": LABELS, "kind": LABELS, "a": [1, 2, 3, 4, 5, 6]}
    for given in (Columns(label="kind", text="q", unlabeled="?"), Columns(label="kind", features=("a", "label"))):
        assert (found(sample, given), told(sample, given)) == (given, "")


def test_text_wins_over_other_names_for_it() -> None:
    assert found({"title": SENTENCES, "text": SENTENCES, "label": LABELS}).text == "text"
    assert found({"title": SENTENCES, "message": SENTENCES, "label": LABELS}).text == "message"


def test_title_of_few_words_is_a_category() -> None:
    sample = {"title": ["Mr", "Mrs", "Mr", "Mr", "Mrs", "Mr"], "age": [1, 2, 3, 3, 5, 6], "label": LABELS}
    assert found(sample).features == ("title", "age")


def test_augmented_texts_are_no_features_and_no_texts() -> None:
    sample = {"query": SENTENCES, "aug_0": SENTENCES, "aug_1": SENTENCES, "label": LABELS}
    assert found(sample) == Columns(label="label", text="query", augmented=("aug_0", "aug_1"))
    assert told(sample).endswith("text: column 'query'; strong views come from: 'aug_0', 'aug_1'.")


def test_columns_of_augmented_texts_are_sorted_by_their_numbers_chosen_or_left_out() -> None:
    sample = {"text": SENTENCES, "aug_10": SENTENCES, "aug_2": SENTENCES, "other": SENTENCES, "label": LABELS}
    assert found(sample).augmented == ("aug_2", "aug_10")
    assert found(sample, Columns(augmented=("other",))).augmented == ("other",)
    assert found(sample, Columns(augmented=())).augmented == ()
    assert "'aug_10', 'aug_2', 'other'" in told(sample, Columns(augmented=()))


@pytest.mark.parametrize(
    ("sample", "columns", "message"),
    [
        ({"text": SENTENCES, "label": LABELS}, Columns(augmented=("label",)), r"--augmented names 'label', the column of labels"),
        ({"text": SENTENCES, "label": LABELS}, Columns(augmented=("text",)), r"column 'text' is given as the text and as an"),
        ({"text": SENTENCES, "b": SENTENCES, "label": LABELS}, Columns(augmented=("b", "b")), r"--augmented names 'b' twice"),
        ({"text": SENTENCES, "label": LABELS}, Columns(augmented=("aug_0",)), r"data.csv has no column 'aug_0'"),
        ({"a": LABELS, "label": LABELS}, Columns(features=("a",), augmented=("b",)), r"--augmented .* with --features"),
        (
            {"a": LABELS, "b": LABELS},
            Columns(),
            r"data.csv: cannot tell which column holds the labels \('a' or 'b'\). Choose one with --label",
        ),
        ({"label": LABELS, "Class": LABELS}, Columns(), r"holds the labels \('label' or 'Class'\). Choose one with --label"),
        ({"label": LABELS, "t": SENTENCES}, Columns(label="lable"), "has no column 'lable'. Did you mean 'label'?"),
        ({"label": LABELS, "text": SENTENCES}, Columns(text="txt"), "has no column 'txt'. Did you mean 'text'?"),
        ({"label": LABELS, "a": LABELS}, Columns(features=("a", "b b")), "has no column 'b b'. Known: a, label"),
        ({"label": LABELS, "a": LABELS}, Columns(features=("a", "a")), "--features names 'a' twice"),
        ({"label": LABELS, "a": LABELS}, Columns(features=()), "--features names no column"),
        ({"label": LABELS, "a": LABELS}, Columns(text="a", features=("a",)), "give --text .* or --features .*, not both"),
        ({"label": LABELS, "a": LABELS}, Columns(label="a", text="a"), "'a' is given as the label and as an input"),
        ({"label": LABELS}, Columns(), "data.csv has no column to learn from. Name them with --features"),
        ({"label": LABELS, "id": list("abcdef")}, Columns(), r"no column to learn from: 'id' \(all values differ\)"),
        (
            {"label": LABELS, "one": SENTENCES, "two words": SENTENCES},
            Columns(),
            r"which column holds the texts \('one' or 'two words'\). Choose one with --text",
        ),
        (
            {"label": LABELS, "Name": SENTENCES, "Age": [1, 2, 2, 4, 5, 6], "Fare": [0.5, 1, 2, 3, 4, 4]},
            Columns(),
            "texts in column 'Name' and numbers in 'Age', 'Fare'. Choose the texts with --text, or the numbers with --features",
        ),
        ({"label": LABELS, "text": [["a"]] * 6}, Columns(text="text"), "column 'text' holds lists or objects"),
    ],
)
def test_doubt_and_contradiction_are_errors_that_say_what_to_give(sample: Any, columns: Columns, message: str) -> None:
    with pytest.raises(InputError, match=message):
        found(sample, columns)


def test_nested_columns_are_left_out_where_no_one_asks_for_them() -> None:
    sample: dict[str, list[Any]] = {"a": [1, 2, 2, 3, 3, 1], "deep": [{"x": 1}] * 6, "label": LABELS}
    assert found(sample).features == ("a",)
    assert "'deep' (lists or objects)" in told(sample)


def test_y_beside_a_label_is_a_coordinate() -> None:
    assert found({"x": [1, 2, 2, 3, 3, 1], "y": [4, 5, 4, 5, 5, 4], "class": LABELS}) == Columns(
        label="class", features=("x", "y")
    )


def test_labels_may_be_absent_where_none_are_needed() -> None:
    given = Columns(label="label", text="text")
    assert found({"text": SENTENCES}, given, need_label=False) == Columns(text="text")
    assert found({"text": SENTENCES, "label": LABELS}, given, need_label=False) == given
    assert found({"a": [1, 2, 2]}, need_label=False) == Columns(features=("a",))
    both = {"a": [1, 2, 2], "topic": [1, 2, 2], "class": [1, 2, 2]}
    assert found(both, Columns(features=("a",)), need_label=False).label is None
    with pytest.raises(InputError, match="'topic' or 'class'"):
        found(both, need_label=False)
    with pytest.raises(InputError, match="has no column 'b'"):
        found({"a": [1, 2]}, Columns(features=("a", "b")), need_label=False)


TAGS = ["a", "", "b", "a", "b", ""]


@pytest.mark.parametrize(
    ("sample", "columns", "label"),
    [
        ({"title": SENTENCES, "tag": TAGS}, Columns(), "tag"),
        ({"tag": TAGS, "words": SENTENCES}, Columns(text="words"), "tag"),
        ({"title": SENTENCES, "tag": TAGS, "aug_0": SENTENCES}, Columns(), "tag"),
        ({"title": SENTENCES, "tag": ["a", "b"] * 3}, Columns(), None),  # no empty cells
        ({"title": SENTENCES, "tag": ["a", "", "b", "", "", ""]}, Columns(), None),  # not few values
        ({"title": SENTENCES, "tag": TAGS, "kind": TAGS}, Columns(), None),
        ({"age": [1, 2, 3, 4, 5, 6], "tag": TAGS}, Columns(), None),  # not a text
        ({"tag": TAGS, "kind": TAGS}, Columns(), None),
    ],
)
@pytest.mark.parametrize("need_label", [True, False])
def test_a_tag_with_empty_cells_beside_texts_is_the_label(
    sample: Any, columns: Columns, label: str | None, need_label: bool
) -> None:
    if label is None and need_label:
        with pytest.raises(InputError, match=r"cannot tell which column holds the labels .* Choose one with --label"):
            found(sample, columns)
    else:
        expected = label if need_label or columns.text is None else None  # a model that predicts knows where labels were
        assert found(sample, columns, need_label=need_label).label == expected


def test_thousands_of_columns_are_counted() -> None:
    sample: dict[str, list[Any]] = {f"c{k}": [1, 2, 2] for k in range(3000)} | {"label": ["a", "b", ""]}
    assert len(found(sample).features or ()) == 3000
    assert told(sample).endswith("'c11' and 2,988 more columns.")
