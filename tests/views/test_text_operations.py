"""Words in token ids, and the operations of strong views on them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from softmatch.views.rows import Rows
from softmatch.views.text_operations import (
    CUT_OFF,
    Draws,
    Words,
    cut_span,
    drop_words,
    find_continuing,
    find_words,
    hide_words,
    replace_words,
    swap_words,
)
from softmatch.views.text_statistics import word_statistics

PAD, UNKNOWN, START, END, MASK = range(5)
NOT_WORDS = (PAD, UNKNOWN, START, END, MASK)
PIECES = torch.arange(100) >= 70
"""Ids from 70 go on with a word."""
NUMBER = 4000


def _draws(number: int, seed: int = 0) -> Draws:
    return Draws(Rows(number), torch.Generator().manual_seed(seed), torch.device("cpu"))


def _copies(*tokens: int, pieces: bool = False) -> tuple[Words, Draws]:
    ids = torch.tensor(tokens).expand(NUMBER, -1)
    return find_words(ids, PAD, NOT_WORDS, PIECES if pieces else None), _draws(NUMBER)


def _rates(chosen: Tensor) -> list[float]:
    return [float(rate) for rate in chosen.double().mean(0)]


# UDA's replacement

DATA = torch.tensor([[10, 10, 11, 12], [10, 11, 0, 0], [10, 13, 0, 0], [10, 14, 14, 0]])


def test_words_are_replaced_with_the_probabilities_of_uda() -> None:
    """Of 10 10 11 12 the scores are 0, 0, ln 2, 2 ln 2, so the probabilities share · (2, 2, 1, 0) / 1.25. A replacement is the
    word itself with the probability 0.4 (word 10) or 0.2 (word 11)."""
    statistics = word_statistics(DATA, torch.arange(4), (PAD,))
    text, draw = _copies(START, 10, 10, 11, 12, END, PAD)
    changed = replace_words(text, 0.5, statistics, draw).ids
    expected = [0, 0.8 * 0.6, 0.8 * 0.6, 0.4 * 0.8, 0, 0, 0]
    assert _rates(changed != text.ids) == pytest.approx(expected, abs=0.03)
    assert [rate for rate, wanted in zip(_rates(changed != text.ids), expected, strict=True) if not wanted] == [0.0] * 4
    found = changed[:, 1][changed[:, 1] != 10]
    assert [float((found == word).float().mean()) for word in (11, 12, 13)] == pytest.approx([1 / 3] * 3, abs=0.03)
    capped = replace_words(text, 0.9, statistics, _draws(NUMBER)).ids
    assert _rates(capped != text.ids)[1:4] == pytest.approx([0.6, 0.6, 0.72 * 0.8], abs=0.03)


def test_the_score_of_a_word_counts_it_in_the_text_and_is_that_of_its_rarest_piece() -> None:
    """11 11 12 10 has the scores 2 ln 2 (three times) and 0. In 12 11 81 10 they are 2 ln 2, ln 2 of both pieces, 0: the
    probabilities are 0.3 · 3 · (0, 1, 2) / 3."""
    statistics = word_statistics(DATA, torch.arange(4), (PAD,))
    text, draw = _copies(11, 11, 12, 10)
    assert _rates(replace_words(text, 0.2, statistics, draw).ids != text.ids) == pytest.approx([0, 0, 0, 0.8 * 0.6], abs=0.03)
    pieces = torch.where(DATA == 13, 81, DATA)
    pieces[0, 3], pieces[1, 1:3] = 12, torch.tensor([11, 81])
    statistics = word_statistics(pieces, torch.arange(4), (PAD,), PIECES)
    text, draw = _copies(12, 11, 81, 10, pieces=True)
    changed = replace_words(text, 0.3, statistics, draw).ids
    assert float((changed == 81).any(1).double().mean()) == pytest.approx(0.7, abs=0.03)


def test_where_all_words_say_the_same_none_is_replaced() -> None:
    statistics = word_statistics(DATA, torch.arange(4), (PAD,))
    for tokens in ([START, 12, END], [START, 12, 13, 14, END], [START, END], [PAD, PAD]):
        text, draw = _copies(*tokens)
        assert torch.equal(replace_words(text, 0.9, statistics, draw).ids, text.ids)


def test_a_replaced_word_of_several_pieces_becomes_one_token() -> None:
    """The word 10 80 has the score of its piece 80, which is the rarest: it stays. 11 81 82 is replaced with all its pieces."""
    data = torch.tensor([[10, 80, 11, 81, 82], [11, 81, 82, 0, 0], [11, 81, 82, 15, 0]])
    statistics = word_statistics(data, torch.arange(3), (PAD,), PIECES)
    text, draw = _copies(START, 10, 80, 11, 81, 82, END, pieces=True)
    changed = replace_words(text, 0.5, statistics, draw)
    found = {tuple(row) for row in changed.ids.tolist()}
    assert found == {(START, 10, 80, 11, END, PAD, PAD)}, "0.5 · n · gap / sum of gaps = 0.5 · 2 · 1: always, by the only word"
    assert changed.starts()[:, :5].all(0).tolist() == [False, True, False, True, False]
    half = replace_words(text, 0.25, statistics, _draws(NUMBER)).ids
    assert float((half[:, 4] == END).float().mean()) == pytest.approx(0.5, abs=0.03)


# swaps


@pytest.mark.parametrize(("words", "share"), [(2, 0.4), (3, 0.3), (8, 0.2), (9, 0.5), (20, 0.95)])
def test_the_stated_share_of_words_changes_places_with_a_neighbour(words: int, share: float) -> None:
    text, draw = _copies(START, *range(10, 10 + words), END, PAD)
    moved = swap_words(text, share, draw)
    assert float((moved.ids != text.ids)[:, 1 : words + 1].double().mean()) == pytest.approx(share, abs=0.02)
    assert torch.equal(moved.ids.sort(1).values, text.ids.sort(1).values)
    assert int((moved.ids - text.ids).abs()[:, 1:-2].max()) == 1
    assert (moved.ids[:, [0, -2, -1]] == torch.tensor([START, END, PAD])).all()
    assert torch.equal(moved.ids.gather(1, moved.ids.argsort(1)), text.ids.sort(1).values)


def test_a_word_alone_and_words_with_something_between_them_stay() -> None:
    for tokens in ([START, 10, END], [10], [START, END], [START, 10, UNKNOWN, 11, END]):
        text, draw = _copies(*tokens)
        assert torch.equal(swap_words(text, 0.9, draw).ids, text.ids)
    text, draw = _copies(10, 11, UNKNOWN, 12, 13, END)
    found = {tuple(row) for row in swap_words(text, 0.6, draw).ids.tolist()}
    assert found == {(*left, UNKNOWN, *right, END) for left in ((10, 11), (11, 10)) for right in ((12, 13), (13, 12))}


def test_words_change_places_with_all_their_pieces() -> None:
    text, draw = _copies(START, 10, 80, 81, 11, 12, 82, END, PAD, pieces=True)
    moved = swap_words(text, 0.6, draw)
    words = {"A": (10, 80, 81), "B": (11,), "C": (12, 82)}
    expected = {(START, *sum((words[each] for each in order), ()), END, PAD) for order in ("ABC", "BAC", "ACB")}
    assert {tuple(row) for row in moved.ids.tolist()} == expected
    assert (moved.starts().sum(1) == 3).all()


# words that are taken out or hidden


@pytest.mark.parametrize("mask", [MASK, None])
def test_all_pieces_of_a_word_are_hidden_together(mask: int | None) -> None:
    text, draw = _copies(START, 10, 80, 81, 11, 12, 82, END, pieces=True)
    seen = hide_words(text, 0.4, mask, draw).ids
    gone = [~(seen == word).any(1) for word in (10, 80, 81, 11, 12, 82)]
    assert torch.equal(gone[0], gone[1])
    assert torch.equal(gone[0], gone[2])
    assert torch.equal(gone[4], gone[5])
    assert not (gone[0] & gone[3] & gone[4]).any(), "one word stays"
    assert [float(each.double().mean()) for each in gone[::3]] == pytest.approx([0.4 - 0.4**3 / 3] * 2, abs=0.02)
    if mask is not None:
        assert ((seen == MASK).sum(1) == 3 * gone[0] + 1 * gone[3] + 2 * gone[4]).all()


def test_words_are_taken_out() -> None:
    text, draw = _copies(START, *range(10, 30), END)
    left = drop_words(text, 0.25, draw)
    assert float(left.are.sum(1).double().mean()) == pytest.approx(15, abs=0.1)
    assert (left.ids.gather(1, left.are.sum(1, keepdim=True) + 1) == END).all()
    assert torch.equal(left.are, left.ids >= 10)


# spans


def test_a_span_has_the_stated_length_on_average_and_may_be_anywhere() -> None:
    text, draw = _copies(START, *range(10, 20), END, PAD)
    seen = cut_span(text, 0.25, MASK, draw).ids
    cut = seen == CUT_OFF
    assert torch.equal(torch.where(cut, text.ids, seen), text.ids)
    assert not cut[:, [0, 11, 12]].any()
    assert set(cut.sum(1).tolist()) == {2, 3}
    assert float(cut.sum(1).double().mean()) == pytest.approx(2.5, abs=0.03)
    assert (cut.int().diff(dim=1).abs().sum(1) == 2).all(), "one span"
    first = cut.int().argmax(1)
    for length in (2, 3):
        rates = torch.bincount(first[cut.sum(1) == length], minlength=12).double() / (cut.sum(1) == length).sum()
        assert rates.tolist() == pytest.approx([0] + [1 / (11 - length)] * (11 - length) + [0] * length, abs=0.03)


def test_a_span_goes_over_special_tokens_and_whole_words() -> None:
    text, draw = _copies(START, 10, UNKNOWN, 11, 80, 12, END, pieces=True)
    found = {tuple(row) for row in cut_span(text, 0.6, MASK, draw).ids.tolist()}
    one = {(START, -1, 1, 11, 80, 12, END), (START, 10, 1, -1, -1, 12, END), (START, 10, 1, 11, 80, -1, END)}
    two = {(START, -1, 1, -1, -1, 12, END), (START, 10, 1, -1, -1, -1, END)}
    assert found == one | two


def test_the_last_word_that_can_be_seen_is_not_cut_off() -> None:
    text, draw = _copies(START, MASK, 10, MASK, END)
    hidden = Words(text.ids, text.ids != START, PAD)  # as after hiding: masks are words
    hidden.are[:, -1] = False
    seen = cut_span(hidden, 0.9, MASK, draw).ids
    assert (seen[:, 2] == 10).all()
    assert (seen[:, [1, 3]] == CUT_OFF).any(1).all()
    for tokens in ([START, 10, END], [START, END]):
        text, draw = _copies(*tokens)
        assert torch.equal(cut_span(text, 0.9, MASK, draw).ids, text.ids)


# any texts


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.lists(st.sampled_from([UNKNOWN, 10, 11, 12, 80, 81]), max_size=9), min_size=1, max_size=4),
    share=st.floats(0.01, 0.99),
    pieces=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_texts_keep_their_form(rows: list[list[int]], share: float, pieces: bool, seed: int) -> None:
    ids = torch.tensor([[START, *row, END, *[PAD] * (9 - len(row))] for row in rows])
    statistics = word_statistics(DATA, torch.arange(4), (PAD,))
    continues = PIECES if pieces else None
    draw = _draws(len(ids), seed)
    before = find_words(ids, PAD, NOT_WORDS, continues)
    for text in (
        replace_words(before, share, statistics, draw),
        swap_words(before, share, draw),
        drop_words(before, share, draw),
        hide_words(before, share, MASK, draw),
        cut_span(before, share, MASK, draw),
    ):
        assert text.ids.shape == ids.shape
        for token in (START, END, UNKNOWN):
            assert torch.equal((text.ids == token).sum(1), (ids == token).sum(1))
        length = (text.ids != PAD).sum(1, keepdim=True)
        assert torch.equal(text.ids != PAD, torch.arange(11) < length), "padding is on the right"
        assert (text.ids.gather(1, length - 1) == END).all()
        assert torch.equal((text.ids >= 10).any(1), before.are.any(1)), "one word stays"
        assert not (text.are & torch.isin(text.ids, torch.tensor([PAD, UNKNOWN, START, END]))).any()


ENDS = (0, 2, 3)
CONTINUES = torch.arange(40) >= 30


def test_all_but_special_ids_are_words() -> None:
    found = find_words(torch.tensor([[2, 9, 1, 3, 0, 50_000]]), 0, ENDS)
    assert found.are.tolist() == found.starts().tolist() == [[False, True, True, False, False, True]], (
        "without marks, each is one"
    )


def test_pieces_belong_to_the_word_before_them_but_not_to_special_tokens() -> None:
    found = find_words(torch.tensor([[2, 10, 30, 31, 11, 3, 32, 33], [30, 12, 30, 3, 0, 0, 0, 0]]), 0, ENDS, CONTINUES)
    assert found.group is not None
    assert found.group.tolist() == [[0, 1, 1, 1, 4, 5, 6, 6], [0, 1, 1, 3, 4, 5, 6, 7]]
    assert found.starts().int().tolist() == [[0, 1, 0, 0, 1, 0, 1, 0], [1, 1, 0, 0, 0, 0, 0, 0]]
    assert found.spread(torch.arange(16).view(2, 8))[0].tolist() == [0, 1, 1, 1, 4, 5, 6, 6]


def test_what_stays_moves_to_the_left_and_keeps_its_word() -> None:
    before = find_words(torch.tensor([[2, 10, 11, 30, 12, 3, 0]]), 0, ENDS, CONTINUES)
    after = before.without(before.ids == 10)
    assert isinstance(after, Words)
    assert after.ids.tolist() == [[2, 11, 30, 12, 3, 0, 0]]
    assert after.starts().int().tolist() == [[0, 1, 0, 1, 0, 0, 0]]


def _names(vocabulary: dict[str, int]) -> set[str]:
    found = find_continuing(vocabulary)
    assert found is not None
    assert len(found) == max(vocabulary.values()) + 1
    return {name for name, number in vocabulary.items() if found[number]}


def test_the_marks_of_tokenizers() -> None:
    piece = {"[PAD]": 0, "play": 7, "##ing": 3, "##é": 2, "#": 4, "##の": 5}
    assert _names(piece) == {"##ing", "##é"}
    sentence = {"<s>": 0, "▁play": 1, "ing": 2, "▁": 3, ",": 4, "шка": 5, "天气": 6, "##": 7}
    assert _names(sentence) == {"ing", "шка"}, "no script without spaces, no punctuation, no special tokens"
    bytes_ = {"<s>": 0, "Ġplay": 1, "ing": 2, "äŃ": 3, "Ġ": 4, ".": 5, "7": 6}
    assert _names(bytes_) == {"ing", "7"}, "others than ASCII are parts of any letter"
    assert find_continuing({"play": 0, "ing": 1}) is None
