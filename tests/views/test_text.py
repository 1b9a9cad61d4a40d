"""Views of texts: the stated share of words is hidden or changed, and nothing else is touched."""

import pytest
import torch

from softmatch.errors import InputError
from softmatch.views import TextViews, views_from_settings
from softmatch.views.text_statistics import word_statistics

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


@pytest.mark.parametrize(
    ("mask", "view", "expected"),
    [
        (MASK, "weak", [[2, 4, 11, 12, 13, 4, 4, 3, 0, 0], [2, 30, 1, 32, 33, 34, 35, 36, 4, 3]]),
        (MASK, "strong", [[2, 4, 11, 12, 13, 4, 4, 3, 0, 0], [2, 4, 1, 32, 33, 4, 35, 36, 4, 3]]),
        (None, "medium", [[2, 11, 12, 13, 3, 0, 0, 0, 0, 0], [2, 30, 1, 32, 33, 34, 35, 36, 3, 0]]),
        (None, "strong", [[2, 11, 12, 13, 3, 0, 0, 0, 0, 0], [2, 1, 32, 33, 35, 36, 3, 0, 0, 0]]),
    ],
)
def test_hiding_alone_draws_one_number_for_each_place(mask: int | None, view: str, expected: list[list[int]]) -> None:
    """Golden values: what other options draw must not change runs without them."""
    items = torch.tensor([[2, 10, 11, 12, 13, 14, 15, 3, 0, 0], [2, 30, 1, 32, 33, 34, 35, 36, 37, 3]])
    used, other = _generator(5), _generator(5)
    assert getattr(TextViews(PAD, mask, SPECIAL, 0.2, 0.6), view)(items, used).tolist() == expected
    torch.rand(items.shape, generator=other)
    assert torch.equal(used.get_state(), other.get_state())


ALL = {"strong": 0.2, "replace": 0.2, "swap": 0.3, "drop": 0.2, "span": 0.2}


def _full(weak: float = 0.0, share: float = 1.0, mask: int | None = MASK, words: bool = True) -> TextViews:
    """Views with everything; ids from 70 go on with a word."""
    continues = torch.arange(100) >= 70 if words else None
    texts = _texts(200)
    statistics = word_statistics(texts, torch.arange(200), SPECIAL, continues)
    options = {name: share * value for name, value in ALL.items()}
    return TextViews(PAD, mask, SPECIAL, weak, **options, continues=continues, statistics=statistics)


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("mask", [MASK, None])
def test_everything_together_keeps_the_form_of_a_text(mask: int | None, words: bool) -> None:
    items = _texts(300)
    items[::3, 5:] = PAD
    items[::3, 4] = END
    for views in (_full(mask=mask, words=words), _full(share=3.3, mask=mask, words=words)):
        seen = views.strong(items, _generator())
        assert seen.shape == items.shape
        assert seen.dtype == torch.int64
        assert ((seen == START).sum(1) == 1).all()
        assert (seen[:, 0] == START).all()
        for row in seen.tolist():
            left = row[: row.index(END) + 1]
            assert row == left + [PAD] * (len(row) - len(left)), "padding is on the right"
            assert any(token >= 10 for token in left), "one word stays"
            assert all(token >= 10 or token in (-1, mask) for token in left[1:-1])


def test_the_medium_view_has_half_of_everything_and_the_weak_one_nothing_but_hidden_words() -> None:
    items, views, half = _texts(50), _full(0.05), _full(share=0.5)
    half.shares["strong"] = (0.05 + 0.2) / 2
    assert torch.equal(views.medium(items, _generator()), half.strong(items, _generator()))
    weak = views.weak(items, _generator())
    assert ((weak == items) | (weak == MASK)).all()


def test_with_all_shares_0_the_strong_view_is_the_text_itself_and_nothing_is_drawn() -> None:
    views, items, used = TextViews(PAD, MASK, SPECIAL, strong=0.0), _texts(5), _generator()
    assert torch.equal(views.strong(items, used), items)
    assert torch.equal(used.get_state(), _generator().get_state())


def test_items_of_32_bits_and_of_a_part_of_the_columns_have_the_same_views() -> None:
    views, items = _full(), _texts(20)
    for view in ("weak", "medium", "strong"):
        expected = getattr(views, view)(items[:, :25].contiguous(), _generator())
        for same in (items[:, :25], items[:, :25].int()):
            found = getattr(views, view)(same, _generator())
            assert found.dtype == torch.int64
            assert torch.equal(found, expected)
    assert torch.equal(views.plain(items.int()), items)


def test_saved_settings_bring_all_shares_but_no_statistics() -> None:
    views = _full(0.1)
    again = views_from_settings(views.settings())
    assert again.settings() == views.settings()
    assert again.shares == {"weak": 0.1, **ALL}
    assert torch.equal(again.plain(_texts(2)), _texts(2))
    for view in ("medium", "strong"):
        with pytest.raises(InputError, match="replace: views cannot replace words without statistics of the training texts"):
            getattr(again, view)(_texts(2), _generator())


@pytest.mark.parametrize("name", ["weak", "strong", "replace", "swap", "drop", "span"])
@pytest.mark.parametrize("value", [1.0, -0.1, "much", True, float("nan")])
def test_impossible_shares_are_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^{name} must be a share of words"):
        TextViews(PAD, MASK, SPECIAL, **{name: value})


@pytest.mark.parametrize(("name", "value"), [("span", 1.5), ("drop", "0.1"), ("continues", [True])])
def test_damaged_settings_are_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        views_from_settings({**TextViews(PAD, MASK, SPECIAL).settings(), name: value})
