"""Labels as people write them: equal labels, words for "none", and likely typing errors."""

import re
import shlex
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import commonprefix

import numpy as np

from softmatch.data.cells import as_text, is_nothing
from softmatch.data.records import Finding
from softmatch.errors import InputError

EDGE = re.compile(r"^[\s\u200b\ufeff]+|[\s\u200b\ufeff]+$")
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0*")
TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}

NO_LABEL = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "unlabeled", "unlabelled", "no label", "?", "-1"})
MAYBE_NO_LABEL = frozenset({"unknown", "other", "-"})
RARE = 5
"""A name one edit away from another is suspected if the other is this many times as frequent."""
LETTERS = 5
LONGEST = 80
MOST_NAMES = 5000
SHOWN = 10


def clean_label(value: object) -> str | None:
    """Give a label as text, the same for all ways to write it; None: no label.

    Spaces around it do not count, nor does the composition of accents. 1, 1.0, "1" and "1.0" are "1"; True, "True", "TRUE" and
    "true" are "true". Everything else is unchanged.
    """
    if is_nothing(value):
        return None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else as_text(value)
    if not text.isascii():  # half of a pair that is one character cannot be written anywhere: it becomes "?"
        text = text.encode("utf-8", "replace").decode()
    text = EDGE.sub("", unicodedata.normalize("NFC", text))
    if whole := WHOLE.fullmatch(text):
        text = whole[1]
    return TRUTH.get(text, "0" if text == "-0" else text) or None


def clean_labels(values: Iterable[object], unlabeled: str | None = None, place: str = "y", first: int = 1) -> list[str | None]:
    """Apply `clean_label` to each; None also for the word `unlabeled`. Messages name `place` and the row, from `first`."""
    word = clean_label(unlabeled)
    known: dict[str, str | None] = {}
    found: list[str | None] = []
    for value in values:
        key = value if isinstance(value, str) else None  # 1, 1.0 and True are the same key of a dictionary
        if key is not None and key in known:
            found.append(known[key])
            continue
        try:
            label = clean_label(value)
        except TypeError as error:
            row = first + len(found)
            raise InputError(f"{place}, row {row}: the label is {error}. A label is a text or a number.") from error
        label = None if label == word else label
        if key is not None:
            known[key] = label
        found.append(label)
    return found


def are_missing(values: Iterable[object]) -> list[bool]:
    """Tell which labels are missing: None, NaN, "", and the number −1, also as a float. The text "-1" is a label."""
    return [
        is_nothing(value)
        or (isinstance(value, str) and not value)
        or (isinstance(value, int | float | np.number) and value == -1)
        for value in values
    ]


def suspicious_unlabeled(counts: Mapping[str, int], unlabeled: str | None) -> Finding | None:
    """Report classes whose names mean "no label", unless the user has said which word does ("": every word is a class)."""
    if unlabeled is not None or set(counts) == {"-1", "1"}:  # the usual two classes of a margin
        return None
    certain = [name for name in counts if name.casefold() in NO_LABEL]
    named = certain or [name for name in counts if name.casefold() in MAYBE_NO_LABEL]
    if not named:
        return None
    shown, word = " and ".join(f"{name!r} ({counts[name]:,} times)" for name in named), shlex.quote(named[0])
    if certain:
        others = " (and empty the cells with the other words)" if len(named) > 1 else ""
        advice = f"Give --unlabeled {word} if it means a missing label{others}, or --unlabeled '' if it is a class."
        return Finding("stop", f"The labels include {shown}, which would be learned as a class. {advice}")
    advice = f"If it means a missing label, give --unlabeled {word}."
    return Finding("warning", f"The labels include {shown}, which is learned as a class. {advice}")


def look_alikes(counts: Mapping[str, int]) -> list[Finding]:
    """Report class names that may be one name written in two ways.

    Names that differ only in case, spaces, punctuation, accents or a plural s, names with two letters exchanged, and names one
    edit apart of which one is much rarer. Codes (class1 and class2, A+ and A−) are different classes.
    """
    groups: dict[object, list[str]] = defaultdict(list)
    for name in counts:
        if (key := _spelling(name)) is not None:
            groups[key].append(name)
    texts = [_say(sorted(names, key=lambda name: -counts[name]), counts) for names in groups.values() if len(names) > 1]
    same = {name: key for key, names in groups.items() for name in names}
    if len(counts) <= MOST_NAMES:
        pairs = (pair for pair in _one_edit_apart(list(counts)) if same.get(pair[0], 0) != same.get(pair[1], 1))
        for pair in pairs:
            often, rarely = sorted(pair, key=lambda name: -counts[name])
            if sorted(often) == sorted(rarely) or counts[rarely] * RARE <= counts[often]:  # exchanged letters are no accident
                texts.append(_say([often, rarely], counts))
    findings = [Finding("warning", text) for text in texts[:SHOWN]]
    if len(texts) > SHOWN:
        findings.append(Finding("warning", f"{len(texts) - SHOWN:,} further pairs of labels look alike.", tuple(texts[SHOWN:])))
    return findings


def _say(names: Sequence[str], counts: Mapping[str, int]) -> str:
    shown = [f'"{name}" ({counts[name]:,})' for name in names]
    joined = ", ".join(shown[:-1]) + f" and {shown[-1]}"
    return f"The labels {joined} look like one class written in {'two' if len(names) == 2 else 'several'} ways."


def _spelling(name: str) -> tuple[object, ...] | None:
    """Reduce a name by case, spaces, punctuation, accents and plural; None for a code too short to judge.

    Groups of digits and signs at the end stay: "room 1.1" is not "room 11", "HER2+" is not "HER2-".
    """
    folded = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(sign for sign in folded if sign.isalnum())
    count = sum(sign.isalpha() for sign in letters)
    if count < 2:
        return None
    digits = tuple(re.findall(r"\d+", folded))
    bare = re.sub(r"\s+", "", folded) if count < 3 else letters  # of two letters, only case and spaces
    if count > 3 and bare.endswith("s") and not bare.endswith("ss"):
        bare = bare[:-1]
    return bare, digits, folded[len(folded.rstrip("+-#*")) :]


def _one_edit_apart(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Find pairs that differ by one letter added, left out or replaced, or by two exchanged letters.

    Such pairs share a text that both become by leaving out up to one letter, which finds them without comparing all.
    """
    near: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if len(name) <= LONGEST and sum(sign.isalpha() for sign in name) >= LETTERS:
            for text in {name, *(name[:k] + name[k + 1 :] for k in range(len(name)))}:
                near[text].append(name)
    seen: set[tuple[str, str]] = set()
    for group in near.values():
        for k, one in enumerate(group):
            for other in group[k + 1 :]:
                if (one, other) not in seen and _is_slip(one, other):
                    seen.add((one, other))
                    yield one, other


def _is_slip(one: str, other: str) -> bool:
    """Tell whether a single edit within a word is all that differs, rather than a number or a code."""
    start = len(commonprefix([one, other]))  # noqa: RUF071  # letters are meant, not parts of a path
    end = len(commonprefix([one[start:][::-1], other[start:][::-1]]))  # noqa: RUF071  # likewise
    left, right = one[start : len(one) - end], other[start : len(other) - end]
    if len(left) > 1 or len(right) > 1:
        return len(left) == len(right) == 2 and left == right[::-1] and left.isalpha()
    if not (left + right).isalpha():
        return False
    if any(text.isupper() for text in (left, right)) and start and one[start - 1].islower():
        return False  # typeA and typeB
    return min(len(_word_at(one, start)), len(_word_at(other, start))) > 2


def _word_at(name: str, position: int) -> str:
    """Give the run of letters around a position."""
    words = re.finditer(r"[^\W\d_]+", name)
    return next((word[0] for word in words if word.start() <= position <= word.end()), "")
