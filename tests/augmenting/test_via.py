"""What --via may name."""

from __future__ import annotations

import pytest

from softmatch.augmenting.via import Entry, parse_via
from softmatch.errors import InputError


def test_languages_become_models() -> None:
    german = ("facebook/wmt19-en-de", "facebook/wmt19-de-en")
    french = ("Helsinki-NLP/opus-mt-en-fr", "Helsinki-NLP/opus-mt-fr-en")
    assert parse_via("de, fr,de") == [
        Entry("de", "models", 0, german),
        Entry("fr", "models", 0, french),
        Entry("de", "models", 1, german),
    ]
    assert parse_via("ru")[0].models[0] == "facebook/wmt19-en-ru"
    assert parse_via("en", "de")[0].models == german[::-1]
    assert parse_via("ru", "de")[0].models == ("Helsinki-NLP/opus-mt-de-ru", "Helsinki-NLP/opus-mt-ru-de")


def test_other_entries() -> None:
    assert parse_via(["words,words", "my/forth + ../back", "mine.py:run", "mine:run"]) == [
        Entry("words", "words"),
        Entry("words", "words", 1),
        Entry("my/forth + ../back", "models", 0, ("my/forth", "../back")),
        Entry("mine.py:run", "function"),
        Entry("mine:run", "function"),
    ]


@pytest.mark.parametrize(
    ("via", "message"),
    [
        ("", "--via names nothing: give a language"),
        ("german", r"--via german: it must be a language \(de, ru, fr …\), FORTH\+BACK"),
        ("mine.py", "it must be a language"),
        ("de,en", "the texts are in this language already"),
        ("a+b+c", r"as FORTH\+BACK"),
        ("+b", r"as FORTH\+BACK"),
        ("mine.py:run,mine.py:run", "names mine.py:run twice"),
    ],
    ids=range(7),
)
def test_what_is_refused(via: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_via(via)


def test_the_same_models_twice_need_draws() -> None:
    with pytest.raises(InputError, match="names de twice"):
        parse_via("de,de", drawn=False)
    with pytest.raises(InputError, match="--language English"):
        parse_via("de", "English")
