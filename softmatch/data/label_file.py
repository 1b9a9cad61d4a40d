"""Labels that come back from a labeller: a table or an export of Label Studio, merged with the labels of the source."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from softmatch.data.cells import as_text
from softmatch.data.fingerprint import sample_digest, text_digest
from softmatch.data.readers.csv_files import TextLines
from softmatch.data.readers.labels import clean_label
from softmatch.data.readers.table_source import is_table, read_table
from softmatch.data.records import Finding, Records, about
from softmatch.errors import InputError, nearest
from softmatch.formatting import quoted

Prefer = Literal["new", "old"]
NAME_COLUMNS = ("name", "id", "row")
RANDOM, CHOSEN, GROUP = PURPOSES = ("random", "chosen", "group")
"""Reasons why a sample was labelled: drawn at random to measure the error, chosen by a model, or part of a group of similar ones.
No reason counts as random."""
ROWS = 65536
MOST_NAMES = 20_000
"""Names among which a similar one is looked for."""
UPLOADED = re.compile(r"^[0-9a-f]{8}-")
"""Letters and digits that Label Studio puts before the name of an uploaded file."""


class Given(NamedTuple):
    """A label of a label file.

    Attributes:
        place: file and row, for messages.
        name: of the sample; "" where only the content is known.
        purpose: one of `PURPOSES` or "".
        digest: of the content of the sample, see `sample_digest`; "" where it is not known.
        is_address: the name is the path or the address of an image in an export, which ends with the name of the sample.
    """

    place: str
    name: str
    label: str
    purpose: str = ""
    digest: str = ""
    is_address: bool = False


@dataclass
class Located:
    """Labels of a file by the position of their sample, what is wrong with the others, and how many names did not fit."""

    by_position: dict[int, list[Given]] = field(default_factory=lambda: defaultdict(list))
    problems: list[Finding] = field(default_factory=list)
    moved: int = 0


def read_label_file(path: Path, unlabeled: str | None = None) -> list[Given]:
    """Read the labels of a file; rows without one are left out.

    Args:
        unlabeled: a word that means "no label", in addition to an empty cell.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path} with labels. Check --labels-from.")
    if not is_table(path) or isinstance(reader := read_table(path), TextLines):
        raise InputError(
            f"{path}: labels are read from a .csv, .tsv, .jsonl or .parquet file, or an export of Label Studio (.json)."
        )
    names: dict[str, str] = {name.strip().casefold(): name for name in reader.names}
    rows: Iterator[tuple[str, dict[str, Any]]]
    if {"annotations", "data"} <= names.keys():
        rows = chain.from_iterable(_task(row, place) for place, row in _rows(reader, path, ("annotations", "data")))
    else:
        column = next((names[name] for name in NAME_COLUMNS if name in names), None)
        if column is None or "label" not in names:
            missing = "'label'" if column is not None else "'name' (or 'id' or 'row')"
            raise InputError(f"{path} has no column {missing}: it has {quoted(list(reader.names), 8)}. Rename its columns.")
        wanted: dict[str, str] = {"name": column, **{key: names[key] for key in ("label", "purpose", "digest") if key in names}}
        rows = ((place, {key: row[name] for key, name in wanted.items()}) for place, row in _rows(reader, path, wanted.values()))
    word, found = clean_label(unlabeled), list[Given]()
    for place, cells in rows:
        label = _clean(cells, place)
        if label is not None and label != word:
            name, purpose, digest = (_text(cells.get(key), place, key) for key in ("name", "purpose", "digest"))
            if purpose.casefold() not in ("", *PURPOSES):
                raise InputError(
                    f"{place}: the purpose is {purpose!r}. Write {', '.join(PURPOSES[:-1])} or {PURPOSES[-1]}, or nothing."
                )
            if not name and not digest:
                raise InputError(f"{place}: the label {label!r} has no sample. Fill in the name.")
            found.append(Given(place, name, label, purpose.casefold(), digest.casefold(), "address" in cells))
    return found


def locate(given: Sequence[Given], names: Sequence[str], digest_of: Callable[[int], str], where: str) -> Located:
    """Find the sample of each label: by its content where that is given, else by its name.

    Args:
        digest_of: gives the digest of the content of a sample by its position.
    """
    index = {name: position for position, name in enumerate(names)}
    known = cache(digest_of)
    places: dict[str, list[int]] = {}
    found, unknown, changed = Located(), list[Given](), list[str]()
    for each in given:
        position = _by_address(each.name, index) if each.is_address else index.get(each.name)
        if each.digest and (position is None or known(position) != each.digest):
            if not places:
                for other in range(len(names)):
                    places.setdefault(known(other), []).append(other)
            copies = places.get(each.digest, [])
            if not copies:
                changed.append(f"{each.place}: {each.name!r}")
                continue
            position = next((copy for copy in copies if copy not in found.by_position), copies[0])
            found.moved += bool(each.name)
        if position is None:
            unknown.append(each)
        else:
            found.by_position[position].append(each)
    if unknown:
        text, rows = _count(len(unknown), "label is", "labels are"), [f"{each.place}: {each.name!r}" for each in unknown]
        found.problems += about("stop", f"{text} of samples that {where} does not have", rows, _advice(unknown[0].name, names))
    text = f"{_count(len(changed), 'label has a digest', 'labels have digests')} that no sample of {where} has"
    advice = "If the content was changed, remove the digest where the label is still right, else remove the row."
    found.problems += about("stop", text, changed, advice)
    return found


def add_labels(
    records: Records, where: str, path: Path, prefer: Prefer | None = None, unlabeled: str | None = None
) -> tuple[Records, list[Finding]]:
    """Merge the labels of a file with those of the records. What stops training is among the findings.

    Args:
        prefer: which label counts where the two differ; None: a contradiction stops.
    """
    given = read_label_file(path, unlabeled)
    found = locate(given, records.names, lambda position: sample_digest(records, position), where)
    labels, own = list(records.labels), {label for label in records.labels if label is not None}
    chosen = list(records.chosen) or [False] * len(records)
    twice, disputed, added = list[str](), list[str](), 0
    for position, rows in found.by_position.items():
        last, before = rows[-1], labels[position]
        if other := next((row for row in rows if row.label != last.label), None):
            twice.append(
                f"{last.place}: {records.names[position]!r} is {last.label!r} here and {other.label!r} in {_row(other.place)}"
            )
        elif before is None:
            labels[position], added = last.label, added + 1
        elif before != last.label:
            disputed.append(f"{last.place}: {records.names[position]!r} is {last.label!r} here and {before!r} in {where}")
            labels[position] = last.label if prefer == "new" else before
        purposes = {row.purpose for row in rows}
        chosen[position] = chosen[position] or (RANDOM not in purposes and bool(purposes & {CHOSEN, GROUP}))
    findings = found.problems + about(
        "stop", _count(len(twice), "sample is", "samples are") + " labelled twice differently", twice, "Keep one label."
    )
    if disputed:
        count, keep = _count(len(disputed), "label contradicts", "labels contradict"), "new" if prefer == "new" else "old"
        advice = "Correct one of them, or choose with --prefer new or --prefer old."
        text = f"{count} the source; the {keep} {'one is' if len(disputed) == 1 else 'ones are'} used"
        findings += about("note", text, disputed) if prefer else about("stop", f"{count} the source", disputed, advice)
    new = {each.label: each for each in given if each.label not in own}
    if own and prefer != "new":
        findings += _typing_errors(new, own)
    if not given:
        findings.append(Finding("warning", f"{path} has no labels yet: its column label is empty."))
        return records, findings
    findings.append(Finding("note", _summary(path, given, added, found.moved, sorted(new) if own else [])))
    return replace(records, labels=labels, chosen=chosen if any(chosen) else ()), findings


def _summary(path: Path, given: Sequence[Given], added: int, moved: int, new: Sequence[str]) -> str:
    text = f"labels of {path}: {len(given):,}, of which {added:,} {'is' if added == 1 else 'are'} of samples without a label"
    if moved:
        text += f"; {moved:,} {'was' if moved == 1 else 'were'} found by content, under another name"
    counts = [(purpose, sum(each.purpose == purpose for each in given)) for purpose in PURPOSES]
    if any(count for _, count in counts):
        text += "; purpose: " + ", ".join(f"{count:,} {purpose}" for purpose, count in counts if count)
    return f"{text}; new {'class' if len(new) == 1 else 'classes'}: {quoted(new)}." if new else f"{text}."


def _typing_errors(new: Mapping[str, Given], own: set[str]) -> list[Finding]:
    """Refuse new classes whose names are close to those of the source. Codes, such as 1 and 10, are different classes."""
    found = []
    for label, first in new.items():
        advice = nearest(label, own) if sum(sign.isalpha() for sign in label) > 2 else ""
        if advice.startswith("Did you mean"):
            text = f"{first.place}: the source has no class {label!r}. {advice} Correct it, or give --prefer new if it is a"
            found.append(Finding("stop", f"{text} new class."))
    return found


def _rows(reader: Any, path: Path, wanted: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the place and the cells of each row."""
    number, wanted = 0, list(wanted)
    for piece in reader.pieces(wanted, ROWS):
        for cells in zip(*(piece[name] for name in wanted), strict=True):
            number += 1
            yield f"{path}, row {number}", dict(zip(wanted, cells, strict=True))


def _task(task: Mapping[str, Any], place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the labels of a task of Label Studio: name, label, purpose and digest."""
    data, annotations = task["data"], task["annotations"] or []
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise InputError(f"{place} is not a task of Label Studio: data must be an object, annotations a list.")
    sample = {key: data[key] for key in ("name", "purpose", "digest") if data.get(key) is not None}
    if "name" not in sample and "digest" not in sample:
        texts = [value for value in data.values() if isinstance(value, str)]
        if len(texts) != 1 and not (texts := [data[key] for key in ("image", "text") if isinstance(data.get(key), str)][:1]):
            raise InputError(f"{place}: cannot tell which sample it is. Its data need a name, a text or the path of an image.")
        sample |= {"name": texts[0], "address": True} if "image" in data else {"digest": text_digest(texts[0])}
    for annotation in annotations:
        results = [] if not isinstance(annotation, dict) or annotation.get("was_cancelled") else annotation.get("result") or []
        for result in results:
            choices = result.get("value", {}).get("choices") if isinstance(result, dict) else None
            if isinstance(choices, list) and len(choices) > 1:
                raise InputError(
                    f"{place} has {len(choices)} choices: {quoted(list(map(str, choices)))}. A sample has one class."
                )
            if choices:
                yield place, {**sample, "label": choices[0]}


def _clean(cells: Mapping[str, Any], place: str) -> str | None:
    try:
        return clean_label(cells["label"])
    except TypeError as error:
        raise InputError(f"{place}: the label is {error}. A label is a text or a number.") from error


def _text(value: object, place: str, column: str) -> str:
    try:
        return as_text(value).strip()
    except TypeError as error:
        raise InputError(f"{place}: the {column} is {error}, not a text.") from error


def _by_address(name: str, index: Mapping[str, int]) -> int | None:
    """Find a sample by a path or an address that ends with its name."""
    address = urlsplit(name) if "?" in name or "://" in name else None
    path = name if address is None else unquote(parse_qs(address.query).get("d", [address.path])[0])
    parts = path.replace("\\", "/").split("/")
    ends = ["/".join(parts[start:]) for start in range(len(parts))]
    return next((index[end] for end in [*ends, UPLOADED.sub("", parts[-1])] if end in index), None)


def _advice(name: str, names: Sequence[str]) -> str:
    advice = nearest(name, names) if len(names) <= MOST_NAMES else ""
    if advice.startswith("Did you mean") and not name.isdigit():
        return advice
    return f"Its samples are called {quoted(names[:1])} to {quoted(names[-1:])}: use the names that `softmatch suggest` writes."


def _count(number: int, one: str, more: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def _row(place: str) -> str:
    return place.rpartition(", ")[2]
