"""Changed words: by the documented rule, and the same for the same text and seed."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

from softmatch.views.text_statistics import _Vocabulary, change_words, words_of

COMMON = ("the", "of", "a", "to", "in")
TEXTS = [" ".join(f"{common} topic{number}{k}" for k, common in enumerate(COMMON)) for number in range(200)]
"""Of ten words, every second one is in all texts, the others in one of them alone."""


def test_words_are_what_is_between_spaces_without_punctuation() -> None:
    assert words_of("“Hello,” said O'Neil — twice! 1.5%") == ["hello", "said", "o'neil", "twice", "1.5"]
    assert words_of("雨が、降る") == ["雨", "が", "降", "る"]


def test_probabilities_are_those_of_the_rule() -> None:
    vocabulary = _Vocabulary(["a a b c", "a b d d", "a e"])
    # idf: a log 1, b log 3/2, c d e log 3; in "a a b c" t = 0, 0, log(1.5)/4, log(3)/4
    shares = vocabulary.chances(["a", "a", "b", "c"])
    largest, middle = 1.0986122887 / 4, 0.4054651081 / 4
    mean = (2 * largest + largest - middle) / 4
    assert shares == pytest.approx([0.4 * largest / mean] * 2 + [0.4 * (largest - middle) / mean, 0.0], abs=1e-5)
    # n · (max idf − idf): a 4 · log 3, b 2 · log 2, the others 0
    even = (torch.arange(10_000).double() + 0.5) / 10_000
    drawn = Counter(vocabulary.names[word] for word in vocabulary.statistics.words_at(even).tolist())
    expected = 4 * 1.0986122887 / (4 * 1.0986122887 + 2 * 0.6931471806)
    assert set(drawn) == {"a", "b"}
    assert abs(drawn["a"] / 10_000 - expected) < 1e-3


def test_telling_words_stay_and_common_ones_change() -> None:
    made = change_words(TEXTS)
    kept = Counter(word for text in made for word in words_of(text) if word.startswith("topic"))
    assert all(kept[f"topic{number}{k}"] == 1 for number in range(200) for k in range(5))
    common = Counter(word for text in made for word in words_of(text) if word in COMMON)
    # each of the 1,000 is changed with p/½ = 0.8, and a quarter of those dropped
    assert abs(common.total() - 800) < 40
    assert sum(text != new for text, new in zip(TEXTS, made, strict=True)) > 190


def replacements(texts: list[str]) -> list[str]:
    vocabulary = _Vocabulary(texts)
    return [vocabulary.names[word] for word in vocabulary.statistics.words[0].tolist()]


def test_only_common_words_replace_others() -> None:
    texts = [f"the 39;s quot 2004 of camp word{k} {'oil' if k < 9 else 'price' if k < 19 else ''}" for k in range(100)]
    assert replacements(texts) == ["camp", "of", "price", "the"]
    assert replacements(["1 2", "3 2"]) == ["1", "2", "3"]  # there is no other


def test_the_same_text_and_seed_give_the_same() -> None:
    made = change_words(TEXTS)
    assert change_words(TEXTS[::-1]) == made[::-1]
    assert change_words([*TEXTS, TEXTS[0]])[-1] == change_words([*TEXTS, TEXTS[0]])[0]
    assert sum(one != other for one, other in zip(made, change_words(TEXTS, seed=1), strict=True)) > 150


def test_spaces_lines_capitals_and_punctuation_stay() -> None:
    texts = ["The cat,\nthe  dog: the Bird (the tree).", *(f"the other text{k}" for k in range(20))]
    for seed in range(30):
        new = change_words(texts, seed)[0]
        assert new.count("\n") == 1
        assert all(new.count(mark) <= 1 for mark in ",:(.")
    kept = [new for seed in range(30) if len(words_of(new := change_words(texts, seed)[0])) == 8]
    assert len(kept) > 1
    for new in kept:
        assert re.split(r"\w+", new) == ["", " ", ",\n", "  ", ": ", " ", " (", " ", ")."]
        assert [word[0].isupper() for word in re.findall(r"\w+", new)].count(True) == 2
    assert change_words(["", "  ", "!?", "one"]) == ["", "  ", "!?", "one"]
    assert change_words(["same same", "same same"]) == ["same same", "same same"]  # all equally telling
