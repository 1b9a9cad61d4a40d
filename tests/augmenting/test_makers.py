"""Entries of --via; functions of your own are found, called, checked, and recognised by their content."""

from pathlib import Path

import pytest

from softmatch.augmenting.makers import Entry, OwnFunction, parse_via
from softmatch.errors import InputError

CODE = """
def shout(texts): return [text.upper() for text in texts]
def whisper(texts): return [text.lower() for text in texts]
def one(texts): return texts[:1]
def text(texts): return "text"
def numbers(texts): return [1 for _ in texts]
def broken(texts): return 1 / 0
class Engine:
    def __call__(self, texts): return texts[::-1]
engine = Engine()
number = 3
"""


def test_languages_become_models() -> None:
    german = ("facebook/wmt19-en-de", "facebook/wmt19-de-en")
    french = ("Helsinki-NLP/opus-mt-en-fr", "Helsinki-NLP/opus-mt-fr-en")
    assert parse_via("de, fr,de") == [
        Entry("de", 0, german),
        Entry("fr", 0, french),
        Entry("de", 1, german),
    ]
    assert parse_via("ru")[0].models[0] == "facebook/wmt19-en-ru"
    assert parse_via("en", "de")[0].models == german[::-1]
    assert parse_via("ru", "de")[0].models == ("Helsinki-NLP/opus-mt-de-ru", "Helsinki-NLP/opus-mt-ru-de")


def test_other_entries() -> None:
    assert parse_via(["words,words", "my/forth + ../back", "mine.py:run", "mine:run"]) == [
        Entry("words", 0),
        Entry("words", 1),
        Entry("my/forth + ../back", 0, ("my/forth", "../back")),
        Entry("mine.py:run", 0),
        Entry("mine:run", 0),
    ]


@pytest.mark.parametrize(
    ("via", "message"),
    [
        ("", "--via is empty: give a language"),
        ("german", r"--via german: it must be a language \(de, ru, fr …\), two translation models as FORTH\+BACK"),
        ("mine.py", "it must be a language"),
        ("de,en", "--via en is the language of the texts"),
        ("a+b+c", r"as FORTH\+BACK"),
        ("+b", r"as FORTH\+BACK"),
        ("mine.py:run,mine.py:run", "names mine.py:run twice"),
    ],
    ids=range(7),
)
def test_what_is_refused(via: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_via(via)


def test_the_same_models_twice_need_sampling() -> None:
    with pytest.raises(InputError, match="names de twice"):
        parse_via("de,de", sampled=False)
    with pytest.raises(InputError, match="--language English"):
        parse_via("de", "English")


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(CODE)
    return str(tmp_path / "mine.py")


def test_a_function_makes_texts(mine: str) -> None:
    found = OwnFunction.find(f"{mine}:shout")
    assert found.load()(["a", "b"]) == ["A", "B"]
    assert found.split(" a b\n") == [" ", "a b", "\n"]
    assert found.split(" ") == [" "]
    assert found.unit == "texts"
    assert OwnFunction.find(f"{mine}:engine").load()(("a", "b")) == ["b", "a"]


def test_the_fingerprint_is_that_of_the_file_and_the_name(mine: str, tmp_path: Path) -> None:
    prints = {OwnFunction.find(f"{mine}:{name}").fingerprint for name in ("shout", "whisper", "engine")}
    assert len(prints) == 3
    (tmp_path / "copy.py").write_text(CODE)
    assert OwnFunction.find(f"{tmp_path / 'copy.py'}:shout").fingerprint in prints
    (tmp_path / "copy.py").write_text(CODE.replace("upper", "title"))
    assert OwnFunction.find(f"{tmp_path / 'copy.py'}:shout").fingerprint not in prints


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one", "returned 1 texts for 2"),
        ("text", "returned str: it must return one text for each"),
        ("numbers", "returned a list with int in it"),
        ("broken", "failed on 2 texts: ZeroDivisionError: division by zero"),
    ],
)
def test_what_it_gives_is_checked(mine: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OwnFunction.find(f"{mine}:{name}").load()(["a", "b"])


def test_what_is_no_function_is_refused(mine: str) -> None:
    with pytest.raises(InputError, match="number is not a function, but of type int"):
        OwnFunction.find(f"{mine}:number")
    with pytest.raises(InputError, match=r"--via .*mine.py:shoud: .* has no 'shoud'. Did you mean 'shout'"):
        OwnFunction.find(f"{mine}:shoud")
