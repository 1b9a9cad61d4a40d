"""Meaning of the columns of a table: as the user says, or found where it is obvious."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from softmatch.data.cells import as_text, is_missing, parse_number
from softmatch.data.records import Columns, Finding
from softmatch.errors import InputError, nearest
from softmatch.formatting import quoted

LABEL_NAMES = frozenset({"label", "labels", "class", "category", "target", "y", "intent", "topic"})
TEXT_NAMES = frozenset({"text", "texts", "sentence", "message", "review", "utterance"})
MAYBE_TEXT_NAMES = frozenset({"content", "body", "description", "title"})
"""May hold the text, or describe what the table is about."""
IDENTIFIER = re.compile(r"(.*[_ -])?(id|uuid|guid|index|idx|key)|id_.*|row|rows|number|nr|no|unnamed: \d+|__index_level_\d+__")
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
AUGMENTED = re.compile(r"aug_\d+")
"""Columns of augmented versions of the text, as `softmatch augment` writes them."""
LONG_TEXT = 20
SHOWN = 12


class NoColumn(InputError):  # noqa: N818  # says what is wrong
    """A column that does not exist.

    Attributes:
        name: of the column.
        plain: the message without a suggestion, for a name that the user has not given: it lists the columns.
    """

    def __init__(self, text: str, name: str = "", plain: str = "") -> None:
        super().__init__(text)
        self.name, self.plain = name, plain


@dataclass(frozen=True)
class _Looks:
    """Appearance of a column, by its first cells."""

    rows: int
    nested: bool
    number: bool
    whole: bool
    distinct: int
    present: int
    spaced: float
    long: float

    @property
    def all_differ(self) -> bool:
        return self.present > 1 and self.distinct == self.present

    @property
    def is_words(self) -> bool:
        return not self.nested and not self.number and self.present > 0

    @property
    def is_varied(self) -> bool:
        """Several words, or words most of which occur once: not a title such as Mr and Mrs."""
        return self.spaced > 0.2 or self.distinct > 0.5 * self.present

    @property
    def is_partly_labelled(self) -> bool:
        """Few different values, and empty cells beside them."""
        return not self.nested and self.present < self.rows and 2 <= self.distinct <= 0.5 * self.present


def decide(
    sample: Mapping[str, Sequence[object]], columns: Columns, where: str, need_label: bool = True, whole: bool = False
) -> tuple[Columns, list[Finding]]:
    """Find what the user has not said: the label if there is one, and either the text with its augmented versions, or features.

    Args:
        sample: the first cells of every column.
        need_label: a missing column of labels is an error.
        whole: the sample is the whole table, so that a column of one value can be left out.

    Returns:
        The columns that exist and are used, and what was found without being told.

    Raises:
        InputError: a column does not exist (NoColumn), or the meaning of the columns is ambiguous.
    """
    _refuse_contradictions(columns, where)
    given = [columns.text] if columns.text is not None else list(columns.features or ())
    for name in [
        *given,
        *(columns.augmented or ()),
        *columns.kept,
        *([columns.label] if need_label and columns.label is not None else []),
    ]:
        _refuse_unknown(name, sample, where)
    found: list[str] = []
    looks = {name: _look(cells) for name, cells in sample.items()}
    label = _label(looks, columns, where, need_label, found)
    rest = {name: each for name, each in looks.items() if name != label}
    for name in given:
        if name in rest and rest[name].nested:
            raise InputError(f"{where}: column {name!r} holds lists or objects, not numbers or texts. Choose another column.")
    if label is not None and label in (columns.augmented or ()):
        raise InputError(f"{where}: --augmented names {label!r}, the column of labels: a strong view must not show the label.")
    kept = Columns(label=label, unlabeled=columns.unlabeled, kept=columns.kept)
    if columns.features is not None:
        return replace(kept, features=columns.features), _note(where, found)
    left_out = _left_out(rest, whole)
    text = columns.text or _text(rest, left_out, where)
    if text is not None:
        augmented = _augmented(rest) if columns.augmented is None else columns.augmented
        if text in augmented:
            raise InputError(f"{where}: column {text!r} is given as the text and as an augmented version of it.")
        if columns.text is None:
            found.append(f"text: column {text!r}")
            others = [name for name in rest if name not in (text, *augmented)]
            found += [f"left out: {_quoted(others)}"] if others else []
        if columns.augmented is None and augmented and need_label:
            found.append(f"strong views come from: {_quoted(augmented)}")
        return replace(kept, text=text, augmented=augmented or columns.augmented), _note(where, found)
    if columns.augmented:
        raise InputError(f"{where}: --augmented names versions of a text, but no column of texts was found. Give --text COLUMN.")
    features = tuple(name for name in rest if name not in left_out)
    if not features:
        reasons = "; ".join(f"{name!r} ({reason})" for name, reason in left_out.items())
        raise InputError(f"{where} has no column to learn from{': ' if reasons else ''}{reasons}. Name them with --features.")
    found.append(f"features: {_quoted(features)}")
    if left_out:
        found.append("left out: " + ", ".join(f"{name!r} ({reason})" for name, reason in left_out.items()))
    return replace(kept, features=features), _note(where, found)


def decide_readings(
    sample: Mapping[str, Sequence[object]], columns: Columns, where: str, need_label: bool = True, whole: bool = False
) -> tuple[Columns, list[Finding]]:
    """Find the label and the values of a table with one row per reading. Arguments and errors as in `decide`."""
    if columns.text is not None or columns.augmented:
        raise InputError(f"{where}: --text and --augmented are for texts; with --series, a row holds numbers.")
    _refuse_contradictions(columns, where)
    keys = [name for name in (columns.series, columns.time) if name is not None]
    label = [columns.label] if need_label and columns.label is not None else []
    for name in [*keys, *(columns.features or ()), *label]:
        _refuse_unknown(name, sample, where)
    for name in keys:
        if [*keys, columns.label, *(columns.features or ())].count(name) > 1:
            raise InputError(f"{where}: column {name!r} is named for two purposes. Name a different column for each.")
    rest, found = {name: _look(cells) for name, cells in sample.items() if name not in keys}, list[str]()
    plane = {"x", "y"} <= {name.lower() for name in rest}  # then y is a coordinate, not the label
    candidates = {name: looks for name, looks in rest.items() if not plane or name.lower() != "y" or name == columns.label}
    chosen = _label(candidates, columns, where, need_label, found)
    features = columns.features
    if features is None:
        values = {name: looks for name, looks in rest.items() if name != chosen}
        left_out = _left_out(values, whole) | {name: "not numbers" for name, looks in values.items() if not looks.number}
        features = tuple(name for name in values if name not in left_out)
        found += [f"values: {_quoted(features)}"] if features else []
        found += ["left out: " + ", ".join(f"{name!r} ({why})" for name, why in left_out.items())] if left_out else []
    if not features:
        raise InputError(f"{where} has no column of numbers beside {_quoted(keys)}. Name the values with --features.")
    return replace(columns, label=chosen, features=features), _note(where, found)


def _refuse_unknown(name: str, sample: Mapping[str, Sequence[object]], where: str) -> None:
    if name not in sample:
        missing = f"{where} has no column {name!r}"
        raise NoColumn(f"{missing}. {nearest(name, sample)}", name, f"{missing}: it has {_quoted(list(sample))}")


def choice(names: Sequence[str]) -> str:
    """List names to choose from: "'title', 'body' or 'tag'"."""
    return _quoted(names) if not 1 < len(names) <= SHOWN else f"{_quoted(names[:-1])} or {names[-1]!r}"


def _refuse_contradictions(columns: Columns, where: str) -> None:
    if columns.text is not None and columns.features is not None:
        raise InputError(f"{where}: give --text to learn from texts or --features to learn from columns, not both.")
    if columns.augmented and columns.features is not None:
        raise InputError(f"{where}: --augmented names versions of a text; it cannot be combined with --features.")
    for option, names in (("--features", columns.features or ()), ("--augmented", columns.augmented or ())):
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{where}: {option} names {name!r} twice.")
    used = [columns.text] if columns.text is not None else list(columns.features or ())
    if columns.label is not None and columns.label in used:
        raise InputError(f"{where}: column {columns.label!r} is given as the label and as an input.")
    if columns.features == ():
        raise InputError(f"{where}: --features names no column.")


def _note(where: str, found: Sequence[str]) -> list[Finding]:
    return [Finding("note", f"{where}: {'; '.join(found)}.")] if found else []


def _quoted(names: Sequence[str]) -> str:
    return quoted(names, SHOWN, "columns")


def _label(looks: Mapping[str, _Looks], columns: Columns, where: str, need_label: bool, found: list[str]) -> str | None:
    """Find the column of labels; None: there is none."""
    if columns.label is not None:
        return columns.label if columns.label in looks else None
    used = {columns.text, *(columns.features or ())}
    named = [name for name in looks if name.lower() in LABEL_NAMES and name not in used]
    if len(named) > 1:  # beside a label, y is the other coordinate of x
        named = [name for name in named if name.lower() != "y"]
    if not named and columns.features is None and (need_label or columns.text is None):
        named = _tag_of_texts(looks, columns.text)
    if len(named) == 1:
        found.append(f"label: column {named[0]!r}")
        return named[0]
    if not need_label and (not named or used != {None}):
        return None
    raise InputError(
        f"{where}: cannot tell which column holds the labels ({choice(named or list(looks))}). Choose one with --label."
    )


def _tag_of_texts(looks: Mapping[str, _Looks], text: str | None) -> list[str]:
    """Find the labels in a table of two columns: one of texts, and one with empty cells and few different values."""
    plain = {name: each for name, each in looks.items() if not AUGMENTED.fullmatch(name)}
    tags = [name for name, each in plain.items() if each.is_partly_labelled and name != text]
    texts = [name for name, each in plain.items() if each.is_words and each.is_varied and not each.is_partly_labelled]
    return tags if len(plain) == 2 and len(tags) == 1 and (text is not None or len(texts) == 1) else []


def _augmented(names: Iterable[str]) -> tuple[str, ...]:
    """List the columns of augmented texts by their numbers."""
    return tuple(sorted(filter(AUGMENTED.fullmatch, names), key=lambda name: int(name.partition("_")[2])))


def _look(cells: Sequence[object]) -> _Looks:
    try:
        texts = [text for text in map(as_text, cells) if not is_missing(text)]
    except TypeError:
        return _Looks(len(cells), True, False, False, 0, 0, 0.0, 0.0)
    numbers = [number for text in texts if (number := parse_number(text)) is not None]
    mostly = bool(texts) and len(numbers) >= 0.95 * len(texts)
    count = max(len(texts), 1)
    return _Looks(
        rows=len(cells),
        nested=False,
        number=mostly,
        whole=mostly and all(number.is_integer() for number in numbers),
        distinct=len(set(texts)),
        present=len(texts),
        spaced=sum(" " in text.strip() for text in texts) / count,
        long=sum(len(text) > LONG_TEXT and " " in text.strip() for text in texts) / count,
    )


def _left_out(rest: Mapping[str, _Looks], whole: bool) -> dict[str, str]:
    """Give the columns that are not features, and the reason."""
    reasons: dict[str, str] = {}
    for name, looks in rest.items():
        if looks.nested:
            reasons[name] = "lists or objects"
        elif whole and looks.distinct <= 1 and looks.present in (0, looks.rows):
            reasons[name] = "always the same" if looks.present else "empty"
        elif looks.all_differ and looks.whole and IDENTIFIER.fullmatch(WORD_START.sub("_", name).lower()):
            reasons[name] = "all values differ, a row number"
        elif looks.all_differ and looks.is_words:
            reasons[name] = "all values differ"
    return reasons


def _text(rest: Mapping[str, _Looks], left_out: Mapping[str, str], where: str) -> str | None:
    """Find the column of texts; None: there is none."""
    words = {name: looks for name, looks in rest.items() if looks.is_words and not AUGMENTED.fullmatch(name)}
    chosen = (
        [name for name in words if name.lower() in TEXT_NAMES]
        or [name for name, looks in words.items() if name.lower() in MAYBE_TEXT_NAMES and looks.is_varied]
        or [name for name, looks in words.items() if looks.long > 0.5 and looks.distinct > 0.5 * looks.present]
    )
    exact = [name for name in chosen if name.lower() == "text"]
    chosen = exact if len(exact) == 1 else chosen
    if len(chosen) > 1:
        raise InputError(f"{where}: cannot tell which column holds the texts ({choice(chosen)}). Choose one with --text.")
    if not chosen:
        return None
    numbers = [name for name, looks in rest.items() if looks.number and name not in left_out]
    if len(numbers) >= 2 and chosen[0].lower() not in TEXT_NAMES:
        held = f"texts in column {chosen[0]!r} and numbers in {_quoted(numbers)}"
        raise InputError(f"{where} has {held}. Choose the texts with --text, or the numbers with --features.")
    return chosen[0]
