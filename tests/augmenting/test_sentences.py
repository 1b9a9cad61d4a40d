"""Sentences are found, and texts are the same when they are put together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmatch.augmenting.sentences import cut, each_sentence, put_together, split


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rains. I stay in! Why? Because.", ["It rains.", "I stay in!", "Why?", "Because."]),
        (
            "Mr. Lee of the U.S. Army paid $3.5 to J. Smith. He left.",
            ["Mr. Lee of the U.S. Army paid $3.5 to J. Smith.", "He left."],
        ),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("Acme Inc. rose... and fell. e.g. this", ["Acme Inc. rose... and fell. e.g. this"]),
        ("one line\nand another\r\n\n- a third", ["one line", "and another", "- a third"]),
        ("今日は雨です。家にいます！「はい。」と", ["今日は雨です。", "家にいます！", "「はい。」", "と"]),
        ("1,234. ... 5 % !", []),
        ("", []),
        ("Wow!!! Really?!", ["Wow!!!", "Really?!"]),
    ],
    ids=range(9),
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split(text)[1::2] == sentences


@given(st.text(alphabet="ab. \n?A1。", max_size=60), st.integers(1, 9))
def test_nothing_is_lost(text: str, most: int) -> None:
    parts = split(text)
    assert "".join(parts) == text
    assert len(parts) % 2 == 1
    for sentence in parts[1::2]:
        assert sentence == sentence.strip() != ""
        pieces = cut(sentence, lambda piece: len(piece) <= most)
        assert "".join(pieces) == sentence
        assert all(0 < len(piece) <= most for piece in pieces[1::2])


def test_a_long_sentence_is_cut_at_a_comma_in_its_middle_else_between_words() -> None:
    assert cut("a, when it rained all day, we stayed", lambda piece: len(piece) < 30)[1::2] == [
        "a, when it rained all day,",
        "we stayed",
    ]
    assert cut("when it rained all day", lambda piece: len(piece) < 15) == ["", "when it rained", " ", "all day", ""]
    assert cut("short", lambda piece: len(piece) < 15) == ["", "short", ""]


def test_new_sentences_take_the_place_of_the_old_ones() -> None:
    parts = split("  It rains.\n\nI stay.  ")
    assert put_together(parts, {"It rains.": " Es regnet. ", "I stay.": " "}) == "  Es regnet.\n\nI stay.  "
    seen: list[list[str]] = []

    def shout(sentences: list[str]) -> list[str]:
        seen.append(sentences)
        return [sentence.upper() for sentence in sentences]

    assert each_sentence(["It rains. It pours.", "", "It rains."], shout) == ["IT RAINS. IT POURS.", "", "IT RAINS."]
    assert seen == [["It rains.", "It pours."]]
    assert each_sentence(["", "…"], shout) == ["", "…"]
    assert len(seen) == 1
    with pytest.raises(ValueError, match="zip"):
        each_sentence(["It rains."], lambda sentences: [])
