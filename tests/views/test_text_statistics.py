"""Word statistics, and texts changed by them."""

import re
from collections import Counter
from math import log

import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import text_statistics
from softmatch.views.text_statistics import (
    WordStatistics,
    _Vocabulary,
    change_words,
    replacement_chances,
    word_statistics,
    words_of,
)

ITEMS = torch.tensor(
    [[2, 10, 10, 11, 12, 3], [2, 10, 11, 3, 0, 0], [9, 9, 9, 9, 9, 9], [2, 10, 13, 3, 0, 0], [2, 10, 14, 14, 3, 0]]
)
TEXTS = torch.tensor([0, 1, 3, 4])
"""Document frequencies 4, 2, 1, 1, 1 of the words 10 … 14; numbers 5, 2, 1, 1, 2."""
SPECIAL = (0, 2, 3, 4)


def _probabilities(statistics: WordStatistics, points: int = 10_000) -> dict[int, float]:
    found = statistics.words_at((torch.arange(points).double() + 0.5) / points)
    return {word: int((found == word).sum()) / points for word in found.unique().tolist()}


@pytest.mark.parametrize("rows", [1, 3, 8192])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_idf_and_replacements(monkeypatch: pytest.MonkeyPatch, rows: int, dtype: torch.dtype) -> None:
    """S = 0, 2 ln 2, ln 4, ln 4, 2 ln 4, so that max S − S is in the ratio 4 : 2 : 2 : 2 : 0."""
    monkeypatch.setattr(text_statistics, "ROWS", rows)
    found = word_statistics(ITEMS.to(dtype), TEXTS, SPECIAL)
    assert found.idf_of(torch.arange(10, 15)).tolist() == pytest.approx([0.0, log(2), log(4), log(4), log(4)], abs=1e-6)
    assert found.idf_of(torch.tensor([9, 15, 40_000])).tolist() == pytest.approx([log(4)] * 3, abs=1e-6), "no text has these"
    assert _probabilities(found) == pytest.approx({10: 0.4, 11: 0.2, 12: 0.2, 13: 0.2}, abs=1e-3)


def test_pieces_that_go_on_with_a_word_replace_nothing() -> None:
    found = word_statistics(ITEMS, TEXTS, SPECIAL, continues=torch.arange(20) == 12)
    assert _probabilities(found) == pytest.approx({10: 0.5, 11: 0.25, 13: 0.25}, abs=1e-3)
    only = word_statistics(ITEMS, TEXTS, SPECIAL, continues=torch.arange(20) >= 10)
    assert set(_probabilities(only)) == {10, 11, 12, 13}, "where there is nothing else, they do"


def test_words_of_the_same_score_are_equally_likely() -> None:
    found = word_statistics(torch.tensor([[10, 11], [12, 13]]), torch.arange(2), SPECIAL)
    assert _probabilities(found) == pytest.approx(dict.fromkeys((10, 11, 12, 13), 0.25), abs=1e-3)
    assert _probabilities(word_statistics(torch.tensor([[10]]), torch.arange(1), SPECIAL)) == {10: 1.0}


def test_the_probabilities_of_many_words() -> None:
    items = (torch.rand(400, 30, generator=torch.Generator().manual_seed(0)) ** 3 * 300).long() + 10
    found = word_statistics(items, torch.arange(400), SPECIAL)
    counts = torch.bincount(items.flatten(), minlength=310)[10:]
    texts = torch.stack([(items == word).any(1).sum() for word in range(10, 310)])
    weights = counts * torch.log(400 / texts)
    expected = (weights.max() - weights) / (weights.max() - weights).sum()
    chances = torch.zeros(310, dtype=torch.float64)
    chances.scatter_add_(0, found.words[0], found.upper).scatter_add_(0, found.words[1], 1 - found.upper)
    assert torch.allclose(chances[10:] / len(found.upper), expected.double(), atol=1e-7)
    assert found.upper.min() >= 0
    assert found.words_at(torch.tensor([1.0 - 2**-53], dtype=torch.float64)).item() >= 10


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(InputError, match="replace: the training texts have no words"):
        word_statistics(torch.tensor([[2, 3, 0]]), torch.arange(1), SPECIAL)


COMMON = ("the", "of", "a", "to", "in")
REPLACED_TEXTS = [" ".join(f"{common} topic{number}{k}" for k, common in enumerate(COMMON)) for number in range(200)]
"""Of ten words, every second one is in all texts, the others in one of them alone."""


def test_words_are_what_is_between_spaces_without_punctuation() -> None:
    assert words_of("“Hello,” said O'Neil — twice! 1.5%") == ["hello", "said", "o'neil", "twice", "1.5"]
    assert words_of("雨が、降る") == ["雨", "が", "降", "る"]


def test_probabilities_are_those_of_the_rule() -> None:
    vocabulary = _Vocabulary(["a a b c", "a b d d", "a e"])
    # idf: a log 1, b log 3/2, c d e log 3; in "a a b c" t = 0, 0, log(1.5)/4, log(3)/4
    ids = torch.tensor([[vocabulary.numbers[word] for word in "aabc"]])
    shares = replacement_chances(vocabulary.statistics.scores(ids), ids >= 0, 0.4)[0].tolist()
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
    made = change_words(REPLACED_TEXTS)
    kept = Counter(word for text in made for word in words_of(text) if word.startswith("topic"))
    assert all(kept[f"topic{number}{k}"] == 1 for number in range(200) for k in range(5))
    common = Counter(word for text in made for word in words_of(text) if word in COMMON)
    # each of the 1,000 is changed with p/½ = 0.8, and a quarter of those dropped
    assert abs(common.total() - 800) < 40
    assert sum(text != new for text, new in zip(REPLACED_TEXTS, made, strict=True)) > 190


def replacements(texts: list[str]) -> list[str]:
    vocabulary = _Vocabulary(texts)
    return [vocabulary.names[word] for word in vocabulary.statistics.words[0].tolist()]


def test_only_common_words_replace_others() -> None:
    texts = [f"the 39;s quot 2004 of camp word{k} {'oil' if k < 9 else 'price' if k < 19 else ''}" for k in range(100)]
    assert replacements(texts) == ["camp", "of", "price", "the"]
    assert replacements(["1 2", "3 2"]) == ["1", "2", "3"]  # there is no other


def test_the_same_text_and_seed_give_the_same() -> None:
    made = change_words(REPLACED_TEXTS)
    assert change_words(REPLACED_TEXTS[::-1]) == made[::-1]
    assert change_words([*REPLACED_TEXTS, REPLACED_TEXTS[0]])[-1] == change_words([*REPLACED_TEXTS, REPLACED_TEXTS[0]])[0]
    assert sum(one != other for one, other in zip(made, change_words(REPLACED_TEXTS, seed=1), strict=True)) > 150


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
