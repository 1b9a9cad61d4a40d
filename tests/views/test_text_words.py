"""Which tokens are words, and which belong to one."""

from __future__ import annotations

import torch

from softmatch.views.rows import Rows
from softmatch.views.text_operations import Draws, Words, find_continuing, find_words, word_table

TABLE = word_table((0, 2, 3))
CONTINUES = torch.arange(40) >= 30


def test_all_but_special_ids_are_words() -> None:
    assert TABLE.tolist() == [False, True, False, False, True]
    assert find_words(torch.tensor([[2, 9, 1, 3, 0, 50_000]]), 0, TABLE).are.tolist() == [[False, True, True, False, False, True]]


def test_pieces_belong_to_the_word_before_them_but_not_to_special_tokens() -> None:
    found = find_words(torch.tensor([[2, 10, 30, 31, 11, 3, 32, 33], [30, 12, 30, 3, 0, 0, 0, 0]]), 0, TABLE, CONTINUES)
    assert found.group is not None
    assert found.group.tolist() == [[0, 1, 1, 1, 4, 5, 6, 6], [0, 1, 1, 3, 4, 5, 6, 7]]
    assert found.starts().int().tolist() == [[0, 1, 0, 0, 1, 0, 1, 0], [1, 1, 0, 0, 0, 0, 0, 0]]
    assert found.spread(torch.arange(16).view(2, 8))[0].tolist() == [0, 1, 1, 1, 4, 5, 6, 6]


def test_without_marks_each_token_is_a_word() -> None:
    found = find_words(torch.tensor([[2, 10, 30, 3]]), 0, TABLE)
    assert found.group is None
    assert found.starts() is found.are


def test_what_stays_moves_to_the_left_and_keeps_its_word() -> None:
    before = find_words(torch.tensor([[2, 10, 11, 30, 12, 3, 0]]), 0, TABLE, CONTINUES)
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


def test_a_part_draws_what_the_whole_draws() -> None:
    draw = [
        Draws(rows, torch.Generator().manual_seed(3), torch.device("cpu"))(4, torch.float64)
        for rows in (Rows(9), Rows(9, slice(2, 5)))
    ]
    assert draw[0].shape == (9, 4)
    assert torch.equal(draw[0][2:5], draw[1])
