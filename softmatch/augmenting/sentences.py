"""Texts taken apart into sentences, which is what translation models are trained on, and put together again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

__all__ = ["cut", "each_sentence", "put_together", "split"]

CANDIDATE = re.compile(
    r"""(?P<line>\s*[\n\r]\s*)                                  # a line ends a sentence
    |(?P<mark>[.!?…]+)["'”’»)\]]*(?P<gap>\s+)(?=\S)             # so may a mark before a space
    |[。！？]+[」』”’）]*(?P<none>\s*)(?=\S)                     # and marks of scripts without spaces""",
    re.VERBOSE,
)
LAST_WORD = re.compile(r"\S*$")
ABBREVIATION = re.compile(
    r"mrs?|ms|dr|prof|st|sr|jr|vs|inc|corp|co|ltd|gen|sen|rep|gov|lt|col|sgt|capt|rev|hon|etc|approx|dept|est|fig|vol"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec",
    re.IGNORECASE,
)
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
"""A single letter, or letters with a point after each, as in U.S."""
CLAUSE, SPACE = re.compile(r"(?<=[,;:])\s+"), re.compile(r"\s+")

Parts = list[str]
"""What lies between sentences at even places, sentences at odd ones; joined they are the text."""


def split(text: str) -> Parts:
    """Sentences and what lies between them.

    Lines are sentences of their own. A mark and a space end a sentence unless a small letter follows, or the point belongs to
    an abbreviation: too long a sentence does less harm than half of one. What has no letter is no sentence.

    Example:
        >>> split("Mr. Lee left.  He had 3.5 million (!) in 2004.")
        ['', 'Mr. Lee left.', '  ', 'He had 3.5 million (!) in 2004.', '']
    """
    parts, start = [""], 0
    for found in CANDIDATE.finditer(text):
        gap = next(name for name in ("line", "gap", "none") if found[name] is not None)
        if gap != "gap" or _ends(text, found):
            _append(parts, text[start : found.start(gap)], found[gap])
            start = found.end()
    _append(parts, text[start:], "")
    return parts


def _ends(text: str, found: re.Match[str]) -> bool:
    """Whether a mark before a space ends a sentence."""
    if text[found.end()].islower():
        return False
    before = LAST_WORD.search(text, max(0, found.start() - 40), found.start())
    word = before[0].strip("\"'“‘«([") if before else ""
    return found["mark"] != "." or not (ABBREVIATION.fullmatch(word) or INITIALS.fullmatch(word))


def _append(parts: Parts, sentence: str, gap: str) -> None:
    bare = sentence.strip()
    if not any(map(str.isalpha, bare)):
        parts[-1] += sentence + gap
        return
    before, _, after = sentence.partition(bare)
    parts[-1] += before
    parts += [bare, after + gap]


def cut(sentence: str, fits: Callable[[str], bool]) -> Parts:
    """A sentence that is too long in pieces that fit, as `split` gives sentences: cut near the middle, at a comma if it can be.

    Args:
        fits: whether a piece is short enough. One letter is taken to be.
    """
    if len(sentence) < 2 or fits(sentence):
        return ["", sentence, ""]
    start, end = _middle(sentence)
    left, right = cut(sentence[:start], fits), cut(sentence[end:], fits)
    return [*left[:-1], left[-1] + sentence[start:end] + right[0], *right[1:]]


def _middle(sentence: str) -> tuple[int, int]:
    """Start and end of the space nearest to the middle, of nothing where there is none in the middle half."""
    half = len(sentence) // 2
    for pattern in (CLAUSE, SPACE):
        found = [space.span() for space in pattern.finditer(sentence, half // 2 or 1, len(sentence) - (half // 2 or 1))]
        if found:
            return min(found, key=lambda span: abs(span[0] - half))
    return half, half


def put_together(parts: Parts, made: Mapping[str, str]) -> str:
    """The text with what was made of its sentences; a sentence of which nothing was made stays as it is."""
    return "".join(made.get(part, "").strip() or part if place % 2 else part for place, part in enumerate(parts))


def each_sentence(texts: Sequence[str], change: Callable[[list[str]], Sequence[str]]) -> list[str]:
    """Texts of which every sentence is changed; the spaces and lines between them stay.

    Args:
        change: what makes new sentences of different ones.
    """
    parts = [split(text) for text in texts]
    sentences = list(dict.fromkeys(chain.from_iterable(each[1::2] for each in parts)))
    made = dict(zip(sentences, change(sentences), strict=True)) if sentences else {}
    return [put_together(each, made) for each in parts]
