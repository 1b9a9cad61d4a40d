"""Texts split into sentences, which translation models are trained on, and joined again."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

CANDIDATE = re.compile(
    r"""(?P<line>\s*[\n\r]\s*)                                  # a line break ends a sentence
    |(?P<mark>[.!?…]+)["'”’»)\]]*(?P<gap>\s+)(?=\S)             # so may a mark before a space
    |[。！？]+[」』”’）]*(?P<none>\s*)(?=\S)                     # and marks of scripts without spaces""",
    re.VERBOSE,
)
ABBREVIATION = re.compile(
    r"mrs?|ms|dr|prof|st|sr|jr|vs|inc|corp|co|ltd|gen|sen|rep|gov|lt|col|sgt|capt|rev|hon|etc|approx|dept|est|fig|vol"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec",
    re.IGNORECASE,
)
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
CLAUSE, SPACE = re.compile(r"(?<=[,;:])\s+"), re.compile(r"\s+")

Parts = list[str]
"""Sentences at odd places, the text between them at even places; joined, they are the text."""


def split(text: str) -> Parts:
    """Split a text into sentences and the text between them.

    A line break ends a sentence. So do a mark and a space, unless a small letter follows or the point belongs to an abbreviation:
    a sentence that is too long does less harm than half a sentence. A part without letters is not a sentence.

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
    """Return whether a mark before a space ends a sentence."""
    word = SPACE.split(text[max(0, found.start() - 40) : found.start()])[-1].strip("\"'“‘«([")
    abbreviated = found["mark"] == "." and (ABBREVIATION.fullmatch(word) or INITIALS.fullmatch(word))
    return not abbreviated and not text[found.end()].islower()


def _append(parts: Parts, sentence: str, gap: str) -> None:
    if not any(map(str.isalpha, sentence)):
        parts[-1] += sentence + gap
        return
    before, bare, after = around(sentence)
    parts[-1] += before
    parts += [bare, after + gap]


def around(text: str) -> Parts:
    """A text that is not blank, between the spaces around it."""
    bare = text.strip()
    before, _, after = text.partition(bare)
    return [before, bare, after]


def cut(sentence: str, fits: Callable[[str], bool]) -> Parts:
    """Cut a sentence into pieces that fit, near the middle and at a comma if possible; the result is like that of `split`."""
    if len(sentence) < 2 or fits(sentence):
        return ["", sentence, ""]
    start, end = _middle(sentence)
    left, right = cut(sentence[:start], fits), cut(sentence[end:], fits)
    return [*left[:-1], left[-1] + sentence[start:end] + right[0], *right[1:]]


def _middle(sentence: str) -> tuple[int, int]:
    """Start and end of the space nearest to the middle; both the middle if its half of the sentence has no space."""
    half = len(sentence) // 2
    for pattern in (CLAUSE, SPACE):
        found = [space.span() for space in pattern.finditer(sentence, half // 2 or 1, len(sentence) - (half // 2 or 1))]
        if found:
            return min(found, key=lambda span: abs(span[0] - half))
    return half, half


def put_together(parts: Parts, made: Mapping[str, str]) -> str:
    """Join parts, with the version of each sentence in its place; a sentence without a version stays."""
    return "".join(made.get(part, "").strip() or part if place % 2 else part for place, part in enumerate(parts))


def each_sentence(
    texts: Sequence[str], change: Callable[[list[str]], Sequence[str]], divide: Callable[[str], Parts] = split
) -> list[str]:
    """Change every sentence of texts by a function of a list of different sentences; what is between them stays."""
    parts = [divide(text) for text in texts]
    sentences = list(dict.fromkeys(chain.from_iterable(each[1::2] for each in parts)))
    made = dict(zip(sentences, change(sentences), strict=True)) if sentences else {}
    return [put_together(each, made) for each in parts]
