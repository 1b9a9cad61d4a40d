"""Statistics of texts, by hand."""

from math import log

import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import text_statistics
from softmatch.views.text_statistics import WordStatistics, word_statistics

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
