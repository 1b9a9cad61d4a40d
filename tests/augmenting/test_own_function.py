"""Functions of the user's own: found, called, checked, and known again by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from softmatch.augmenting.own_function import OwnFunction
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


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(CODE)
    return str(tmp_path / "mine.py")


def test_a_function_makes_texts(mine: str) -> None:
    found = OwnFunction.find(f"{mine}:shout")
    assert found.load()(["a", "b"]) == ["A", "B"]
    assert found.split(" a b\n") == [" ", "a b", "\n"]
    assert found.split(" ") == [" "]
    assert found.what == "texts"
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
        ("one", "gave 1 texts for 2"),
        ("text", "gave str, not a list of texts"),
        ("numbers", "gave int in its list, not a text"),
        ("broken", "failed on 2 texts: ZeroDivisionError: division by zero"),
    ],
)
def test_what_it_gives_is_checked(mine: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OwnFunction.find(f"{mine}:{name}").load()(["a", "b"])


def test_what_is_no_function_is_refused(mine: str) -> None:
    with pytest.raises(InputError, match="number: int, not a function of a list of texts"):
        OwnFunction.find(f"{mine}:number")
    with pytest.raises(InputError, match=r"--via .*mine.py:shoud: .* has no 'shoud'. Did you mean 'shout'"):
        OwnFunction.find(f"{mine}:shoud")
