"""The summary of augmented texts."""

import json
from pathlib import Path

import pytest

from softmatch.augmenting import augment_file


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text('def last(texts): return [text.replace("cat", "dog") for text in texts]')
    return f"{tmp_path / 'mine.py'}:last"


def test_the_summary_says_what_became_of_the_texts(tmp_path: Path, mine: str) -> None:
    path = tmp_path / "pets.jsonl"
    texts = ["a cat sat there", "", "one bird", "Cat! cat cat", "the cat"]
    path.write_text("".join(json.dumps({"message": text, "topic": "x"}) + "\n" for text in texts))
    notes: list[str] = []
    found = augment_file(path, f"{mine},words", note=notes.append)
    assert notes == [f"{path}: label: column 'topic'; text: column 'message'."]
    assert (found.out, found.texts, found.rows) == (tmp_path / "pets-augmented.jsonl", 4, 5)
    first = found.columns[0]
    assert (first.name, first.via, first.changed) == ("aug_0", mine, 3)
    assert first.kept == pytest.approx((3 / 4 + 1 + 1 / 3 + 1 / 2) / 4)
    assert len(found.examples) == 3
    assert found.examples[0][:2] == ("a cat sat there", "a dog sat there")
    said = found.describe()
    assert "aug_0  3 differ from the original, 65% of the words kept on average" in said
    assert "1 rows have no text" in said
    assert said.endswith(f"Train on it:  softmatch train {found.out} --text-column message --label-column topic")
    written = [json.loads(line) for line in found.out.read_text().splitlines()]
    assert [row["aug_0"] for row in written] == ["a dog sat there", "", "one bird", "Cat! dog dog", "the dog"]


def test_a_column_in_which_nothing_is_new_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nthe cat,x\n,x\nthe dog,y\nbird,x\n")
    code = "def none(texts): return ['' for _ in texts]\ndef same(texts): return [t if 'cat' in t else '' for t in texts]\n"
    code += "def some(texts): return [t.upper() if 'cat' in t else '' for t in texts]\n"
    (tmp_path / "mine.py").write_text(code)
    mine = tmp_path / "mine.py"
    found = augment_file(tmp_path / "a.csv", f"{mine}:none,{mine}:same,{mine}:some")
    assert [(column.changed, column.empty) for column in found.columns] == [(0, 3), (0, 2), (1, 2)]
    said = found.describe()
    assert "1 differ from the original, 100% of the words kept on average, 2 are empty: training uses the text itself" in said
    assert said.splitlines()[-3:] == [
        "",
        f"Warning: aug_0 is of no use: every version is empty or the text itself. Check what --via {mine}:none does.",
        f"Warning: aug_1 is of no use: every version is empty or the text itself. Check what --via {mine}:same does.",
    ]
