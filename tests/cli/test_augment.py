"""`softmatch augment` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from softmatch.cli.app import main
from softmatch.data.sources import find_source
from softmatch.recipes import complete, require_versions
from softmatch.training.opening import texts_of
from tests.data.sources.text_copies import write_news

BROKEN_OFF = """
def once(texts):
    if texts[0] > "b": raise KeyboardInterrupt
    return [text.title() for text in texts]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    rows = [("a cat sat on the mat", "cat"), ("a dog ran over the mat", ""), ("the bird and the cat", "bird")]
    (tmp_path / "pets.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return tmp_path


def test_a_table_gets_new_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["augment", "pets.csv", "--via", "words,words", "--seed", "3"]) == 0
    said = capsys.readouterr()
    assert "3 texts in pets-augmented.csv" in said.out
    assert "softmatch train pets-augmented.csv --text text --label label" in said.out
    assert "words: 3/3 texts" in said.err
    assert (folder / "pets-augmented.csv").read_text().startswith("text,label,aug_0,aug_1\na cat sat on the mat,cat,")


def test_a_dataset_becomes_a_folder_that_the_papers_recipe_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_news(folder / "copy", versions=False)
    options = ["--data", "copy", "--train-per-class", "5", "--validation-per-class", "2", "--seed", "3"]
    assert main(["augment", "agnews", "--via", "words,words", "--out", "news", *options]) == 0
    said = capsys.readouterr()
    assert "Note: agnews: 20 texts to train on are augmented, each 2 times; the 8 of dev.jsonl stay as they are." in said.err
    assert "words: 0/20 texts" in said.err
    command = said.out.splitlines()[-1].partition("softmatch train agnews ")[2]
    given = dict(zip(command.split()[::2], command.split()[1::2], strict=True))
    settings = {key.removeprefix("--").replace("-", "_"): value for key, value in given.items()}
    config = complete("agnews", find_source("agnews").defaults, settings)
    data = texts_of("agnews", config)
    assert (len(data.train), len(data.test or ()), len(data.train.augmented)) == (20, 8, 2)
    require_versions("agnews", config, bool(data.train.augmented))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pets.csv"], "--via"),
        (["pets.csv", "--via", "german"], "--via german: it must be a language"),
        (["pets.csv", "--via", "missing.py:run"], "--via missing.py:run: there is no file missing.py"),
        (["pets.csv", "--via", "words", "--out", "pets.csv"], "never overwritten"),
        (["pets.csv", "--via", "words", "--out", "/proc/pets.csv"], "/proc/pets.csv cannot be written"),
        (["nowhere.csv", "--via", "words"], "there is no file nowhere.csv"),
        ([".", "--via", "words"], "is a folder: give one table of texts, such as pets.csv"),
        (["pets.csv", "--via", "words", "--data", "x"], "--data x: pets.csv is a file, and this is for a named dataset"),
        (["pets.csv", "--via", "words", "--train-per-class", "2"], "--train-per-class 2: pets.csv is a file"),
        (["pets.csv", "--via", "words", "--validation-per-class", "2"], "--validation-per-class 2: pets.csv is a file"),
        (["agnews", "--via", "words", "--text-column", "t"], "--text-column t: 'agnews' is a named dataset"),
        (["agnews", "--via", "words", "--data", "."], "--data . has no table of agnews"),
    ],
    ids=range(12),
)
def test_mistakes_are_explained_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["augment", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["pets.csv"]


def test_interrupted_it_keeps_what_was_made_and_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.py").write_text(BROKEN_OFF)
    command = ["augment", "pets.csv", "--via", "mine.py:once", "--batch", "1"]
    assert main(command) == 130
    (made,) = folder.rglob("*.jsonl")
    kept = len(made.read_text().splitlines())
    message = f"interrupted; {kept:,} new texts are cached, and the same command resumes there. No file was written."
    assert message in capsys.readouterr().err
    assert not (folder / "pets-augmented.csv").exists()
