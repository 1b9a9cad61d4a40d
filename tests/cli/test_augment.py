"""`softmatch augment` as a user runs it."""

import io
import sqlite3
from pathlib import Path

import pytest
from rich.console import Console

from softmatch.cli.app import main
from softmatch.cli.augment import AugmentingDisplay
from softmatch.data.sources import find_source
from softmatch.recipes import complete, require_versions
from softmatch.training.opening import texts_of
from tests.data.sources.text_copies import write_news

BROKEN_OFF = """
made = []
def once(texts):
    if made: raise KeyboardInterrupt
    made.extend(text.title() for text in texts)
    return list(made)
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
    assert "softmatch train pets-augmented.csv --text-column text --label-column label" in said.out
    assert "words: 3/3 texts" in said.err
    assert (folder / "pets-augmented.csv").read_text().startswith("text,label,aug_0,aug_1\na cat sat on the mat,cat,")


def test_a_dataset_becomes_a_folder_that_the_papers_recipe_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_news(folder / "copy", versions=False)
    options = ["--data", "copy", "--train-per-class", "5", "--validation-per-class", "2", "--seed", "3"]
    assert main(["augment", "agnews", "--via", "words,words", "--out", "news", *options]) == 0
    said = capsys.readouterr()
    assert "Note: agnews: 20 training texts are augmented 2 times; the 8 of dev.jsonl stay as they are." in said.err
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
        (["pets.csv", "--via", "words", "--data", "x"], "--data x: this is for datasets such as agnews, and pets.csv is a file"),
        (["pets.csv", "--via", "words", "--train-per-class", "2"], "--train-per-class 2: this is for datasets"),
        (["pets.csv", "--via", "words", "--validation-per-class", "2"], "--validation-per-class 2: this is for datasets"),
        (["agnews", "--via", "words", "--text-column", "t"], "--text-column t: this is for tables, and agnews is a dataset"),
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
    connection = sqlite3.connect(folder / "cache" / "augmented" / "versions.sqlite")
    (kept,) = connection.execute("SELECT count(*) FROM versions").fetchone()
    connection.close()
    assert kept == 1
    message = f"interrupted; {kept:,} new versions are kept, and the same command resumes. No file was written."
    assert message in capsys.readouterr().err
    assert not (folder / "pets-augmented.csv").exists()


def test_figures_are_done_rate_time_left_and_what_was_cached() -> None:
    out, done = io.StringIO(), 0
    display = AugmentingDisplay(Console(file=out, get_time=lambda: done / 20.0))
    for done in (100, 300, 500, 1200):
        display.report("de", "sentences", done, 1200, 100)
    lines = out.getvalue().splitlines()
    assert lines[0] == "de: 100/1,200 sentences, 100 from the cache"
    assert lines[2] == "de: 500/1,200 sentences, 20.0 per second, 35 s left, 100 from the cache"
    assert lines[3] == "de: 1,200/1,200 sentences, 100 from the cache"


def tell(display: AugmentingDisplay) -> None:
    for name, before in (("de", 0), ("ru", 40)):
        for done in range(before, 101, 2):
            display.report(name, "sentences", done, 100, before)


def test_a_line_now_and_then_without_a_terminal() -> None:
    out = io.StringIO()
    with AugmentingDisplay(Console(file=out)) as display:
        tell(display)
    lines = out.getvalue().splitlines()
    assert 10 <= sum(line.startswith("de: ") for line in lines) <= 12
    assert lines[0] == "de: 0/100 sentences"
    assert lines[-1].startswith("ru: 100/100 sentences")
    assert lines[-1].endswith("40 from the cache")
    assert display.made == 160


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    AugmentingDisplay().report("mine.py:boom:[red]", "texts", 0, 5, 0)
    assert capsys.readouterr().err == "mine.py:boom:[red]: 0/5 texts\n"
    out = io.StringIO()
    with AugmentingDisplay(Console(file=out, force_terminal=True, width=120)) as display:
        display.report("mine.py:boom:[red]", "texts", 0, 5, 0)
    assert "mine.py:boom:[red]" in out.getvalue()


def test_a_bar_for_each_column_on_a_terminal() -> None:
    out = io.StringIO()
    with AugmentingDisplay(Console(file=out, force_terminal=True, width=120)) as display:
        display.note("what was found")
        tell(display)
    assert "what was found" in out.getvalue()
    assert "100/100 sentences" in out.getvalue()
    assert out.getvalue().count("de: ") == 0
