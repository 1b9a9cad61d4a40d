"""Columns of augmented texts: nothing is made twice, and an interruption costs at most a batch."""

from pathlib import Path

import pytest

from softmatch.augmenting import augment_texts
from softmatch.errors import InputError

CODE = """
from pathlib import Path
HERE = Path(__file__).parent
def shout(texts):
    with (HERE / "calls").open("a") as calls:
        calls.write("|".join(texts) + "\\n")
    if (HERE / "stop").exists() and len((HERE / "calls").read_text().splitlines()) == 3:
        raise KeyboardInterrupt
    return [text.upper() + "\\0\\ud800" for text in texts]
"""
TEXTS = [f"text {number:02}" for number in range(20)]


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(CODE)
    return f"{tmp_path / 'mine.py'}:shout"


def calls(tmp_path: Path) -> list[list[str]]:
    path = tmp_path / "calls"
    found = [line.split("|") for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_after_an_interruption_only_what_is_missing_is_made(tmp_path: Path, mine: str) -> None:
    (tmp_path / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        augment_texts(TEXTS, mine, batch=4)
    first = calls(tmp_path)
    assert [len(batch) for batch in first] == [4, 4, 4]  # the third was not finished
    (tmp_path / "stop").unlink()
    told: list[tuple[object, ...]] = []
    (column,) = augment_texts(TEXTS, mine, batch=4, progress=lambda *figures: told.append(figures))
    assert column == [f"{text.upper()}?" for text in TEXTS]
    again = calls(tmp_path)
    assert first[2] in again
    assert len(again) == 3
    assert {text for batch in [*first[:2], *again] for text in batch} == set(TEXTS)
    assert told == [(mine, "texts", done, 20, 8) for done in (8, 12, 16, 20)]


def test_the_same_texts_elsewhere_cost_nothing_and_each_is_made_once(tmp_path: Path, mine: str) -> None:
    augment_texts(TEXTS[:6], mine, batch=4)
    assert sorted(text for batch in calls(tmp_path) for text in batch) == TEXTS[:6]
    (column,) = augment_texts(["", "  ", *TEXTS[2:8], *TEXTS[2:8], f" {TEXTS[0]} "], mine, batch=4)
    assert calls(tmp_path) == [TEXTS[6:8]]
    assert column == ["", "  ", *(f"{text.upper()}?" for text in TEXTS[2:8] * 2), f" {TEXTS[0].upper()}? "]
    (tmp_path / "mine.py").write_text(CODE.replace("upper", "title"))
    assert augment_texts(TEXTS[:1], mine) == [["Text 00?"]]  # another function than before
    assert calls(tmp_path) == [TEXTS[:1]]


def test_what_another_process_makes_meanwhile_is_not_made_again(tmp_path: Path, mine: str) -> None:
    def work_elsewhere(name: str, unit: str, done: int, total: int, cached: int) -> None:
        if done == cached == 0:
            augment_texts(TEXTS[:12], mine, batch=4)

    (column,) = augment_texts(TEXTS, mine, batch=4, progress=work_elsewhere)
    assert column == [f"{text.upper()}?" for text in TEXTS]
    assert sorted(text for batch in calls(tmp_path) for text in batch) == TEXTS


def test_models_words_and_functions_make_a_column_each(tmp_path: Path, mine: str, pair: tuple[Path, Path]) -> None:
    via = f"words,{mine},words,{pair[0]}+{pair[1]},{pair[0]}+{pair[1]}"
    texts = ["the cat sat on the mat. How much is it?", "", "a dog ran", "12"]
    columns = augment_texts(texts, via, device="cpu", seed=1)
    assert len(columns) == 5
    assert all(column[1] == "" for column in columns)
    assert columns[1][0] == f"{texts[0].upper()}?"
    assert columns[3][3] == "12"  # nothing to translate
    assert len({tuple(column) for column in columns}) == 5  # the same entry twice draws anew
    assert augment_texts(texts, via, device="cpu", seed=1) == columns
    assert augment_texts(texts, via, device="cpu", seed=2)[3] != columns[3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "--temperature -1.0: it must be 0 or more"),
        ({"temperature": float("nan")}, "--temperature nan"),
        ({"batch": 0}, "--batch 0: it must be at least 1"),
    ],
    ids=range(3),
)
def test_mistakes(mine: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        augment_texts(TEXTS, mine, **options)  # type: ignore[arg-type]  # on purpose


def test_everything_that_cannot_work_is_reported_before_anything_is_made(tmp_path: Path, mine: str) -> None:
    with pytest.raises(InputError, match="no such folder"):
        augment_texts(TEXTS, f"{mine},{tmp_path / 'a'}+{tmp_path / 'b'}")
    assert calls(tmp_path) == []
