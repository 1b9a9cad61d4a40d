"""Views of texts: the stated share of words is hidden, and nothing else is touched."""

from __future__ import annotations

import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import TextViews, views_from_settings

PAD, START, END, MASK = 0, 2, 3, 4
SPECIAL = (PAD, 1, START, END, MASK)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _texts(number: int = 2000, words: int = 20, length: int = 30) -> torch.Tensor:
    body = torch.randint(10, 100, (number, words), generator=_generator(9))
    ends = torch.full((number, 1), START), torch.full((number, 1), END)
    return torch.cat([ends[0], body, ends[1], torch.full((number, length - words - 2), PAD)], 1)


def test_plain_and_weak_are_the_text_itself() -> None:
    views, items = TextViews(PAD, MASK, SPECIAL), _texts(5)
    assert views.plain(items) is items
    assert torch.equal(views.weak(items, _generator()), items)


@pytest.mark.parametrize(("view", "share"), [("weak", 0.1), ("medium", 0.2), ("strong", 0.3)])
def test_the_share_of_words_that_is_hidden(view: str, share: float) -> None:
    views, items = TextViews(PAD, MASK, SPECIAL, weak=0.1, strong=0.3), _texts()
    seen = getattr(views, view)(items, _generator())
    hidden = seen != items
    assert (seen[hidden] == MASK).all()
    assert (items[hidden] >= 10).all(), "only words are hidden"
    assert float(hidden.sum() / (items >= 10).sum()) == pytest.approx(share, abs=0.01)


def test_without_a_mask_words_are_taken_out() -> None:
    views, items = TextViews(PAD, None, SPECIAL, strong=0.3), _texts()
    seen = views.strong(items, _generator())
    assert seen.shape == items.shape
    for before, after in zip(items[:50].tolist(), seen[:50].tolist(), strict=True):
        left = [token for token in after if token != PAD]
        assert after == left + [PAD] * (len(after) - len(left)), "padding is on the right"
        assert (left[0], left[-1]) == (START, END)
        remaining = iter(before)
        assert all(token in remaining for token in left), "the order is kept"
    assert float((seen >= 10).sum() / (items >= 10).sum()) == pytest.approx(0.7, abs=0.01)


def test_one_word_always_stays() -> None:
    items = _texts(500, words=3, length=5)
    for mask in (MASK, None):
        seen = TextViews(PAD, mask, SPECIAL, strong=0.99).strong(items, _generator())
        assert ((seen >= 10).sum(1) >= 1).all()
    nothing = torch.tensor([[START, END, PAD], [START, 1, END]])
    for mask in (MASK, None):
        assert torch.equal(TextViews(PAD, mask, SPECIAL, strong=0.9).strong(nothing, _generator()), nothing)


def test_the_generator_decides() -> None:
    views, items = TextViews(PAD, MASK, SPECIAL), _texts(20)
    first, same, other = (views.strong(items, _generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_settings_make_the_same_views_again() -> None:
    views, items = TextViews(PAD, None, SPECIAL, 0.05, 0.25), _texts(20)
    again = views_from_settings(views.settings())
    assert again.kind == "text"
    assert again.settings() == views.settings()
    assert torch.equal(again.strong(items, _generator()), views.strong(items, _generator()))


@pytest.mark.parametrize("options", [{"strong": 1.0}, {"weak": -0.1}, {"strong": "much"}, {"weak": True}])
def test_impossible_shares_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be a share of words"):
        TextViews(PAD, MASK, SPECIAL, **options)
