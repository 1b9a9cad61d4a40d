"""From a user's own source to Examples: labels become classes, and inputs become items by a preparation fitted to them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from softmatch.data.cells import parse_number
from softmatch.data.duplicates import digests, group
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.image_files import ImageFiles
from softmatch.data.own import open_source
from softmatch.data.own.checking import check_classes, check_copies, check_leaks, check_lost, check_versions
from softmatch.data.own.columns import NoColumn
from softmatch.data.preparations import Preparation
from softmatch.data.preparations.images import ImagePreparation, fit_images
from softmatch.data.records import Columns, Finding, InputKind, Opened, Records, select_inputs
from softmatch.errors import InputError
from softmatch.formatting import quoted

Progress = Callable[[int, int], None]
"""Told how many of how many inputs are prepared."""


@dataclass(frozen=True)
class Reading:
    """What the user says about the source.

    Attributes:
        test: a further source of the same form, to measure the error on.
        image_size: side that images are resized to; None: by their sizes.
        encoder, fine_tune: a pretrained encoder (folder or hub id), and whether it is to be trained too.
        device: for the encoder.
        max_tokens: most that an encoder reads of a text; None: 128 where it is trained, else its own.
    """

    columns: Columns = field(default_factory=Columns)
    test: Any = None
    image_size: int | None = None
    encoder: str | None = None
    fine_tune: bool = False
    device: str = "auto"
    max_tokens: int | None = None


@dataclass(frozen=True)
class Understood:
    """What was made of a source."""

    where: str
    examples: Examples
    findings: tuple[Finding, ...]


def read_own(where: Any, reading: Reading, progress: Progress | None = None) -> Understood:
    """Read everything.

    Raises:
        InputError: where the source cannot be read, or nothing can be learned from it: no labels, a single class. Everything
            else that is noticed is a finding.
    """
    opened = open_source(where, reading.columns)
    refuse_unused(opened.kind, reading)
    records = opened.read()
    tests = opened.test
    if reading.test is not None:
        tests = _open_test(reading.test, opened.columns)
    stop(opened.findings)
    found = understand(
        opened.where,
        records,
        None if tests is None else Tests(tests.where, tests.read()),
        reading,
        column=opened.columns.text,
        progress=progress,
    )
    return replace(found, findings=(*opened.findings, *(tests.findings if tests is not None else ()), *found.findings))


def _open_test(where: Any, columns: Columns) -> Opened:
    """A further source, whose columns are called as those of the training data."""
    try:
        return open_source(where, replace(columns, augmented=()))
    except NoColumn as error:
        raise InputError(f"{error.plain}. The columns of the test data must be called as those of the training data.") from error


@dataclass(frozen=True)
class Tests:
    """Records to measure the error on."""

    where: str
    records: Records


def understand(
    where: str,
    records: Records,
    tests: Tests | None,
    reading: Reading,
    column: str | None = None,
    progress: Progress | None = None,
    classes: Sequence[str] | None = None,
) -> Understood:
    """Examples of records that were read, and what is noticed about them.

    Args:
        column: of the texts, to find them again in another table.
        classes: where their order is known; by default they are sorted.
    """
    every = Counter(label for label in records.labels if label is not None)
    stop(check_classes(where, every, len(records), reading.columns.unlabeled))
    findings = check_versions(records)
    records = _with_all_versions(records)
    if progress is not None and records.augmented:
        progress = _Stages(progress, 1 + len(records.augmented))
    preparation, items, kept, found = fit_preparation(records, reading, column, progress)
    counts = Counter(label for k in kept if (label := records.labels[k]) is not None)
    findings += [*found, *check_classes(where, counts, len(kept), reading.columns.unlabeled), *check_lost(every, counts)]
    stop(findings)
    number = {name: position for position, name in enumerate(classes or sorted(counts, key=natural))}
    labels = torch.tensor([UNLABELED if (label := records.labels[k]) is None else number[label] for k in kept])
    examples = Examples(
        items,
        labels,
        tuple(number),
        kind_of(preparation),
        names=[records.names[k] for k in kept],
        preparation=preparation,
        augmented=prepare_augmented(records, preparation),
    )
    examples = _with_statistics(examples, reading)
    contents, test_contents = digests(records.kind, select_inputs(records.inputs, kept), items), list[bytes]()
    examples = replace(examples, groups=group(records.kind, contents))
    if tests is not None:
        test, test_contents, found = _test_examples(tests, examples, number)
        examples = replace(examples, test=test)
        findings += found
    findings += check_copies(examples, contents)
    findings += check_leaks(examples, contents, test_contents)
    return Understood(where, examples, tuple(findings))


class _Stages:
    """Progress of something that is done several times over, told as one."""

    def __init__(self, progress: Progress, number: int) -> None:
        self.progress, self.number, self.done = progress, number, 0

    def __call__(self, done: int, total: int) -> None:
        self.progress(min(self.done, self.number - 1) * total + done, self.number * total)
        self.done += done == total


def _with_all_versions(records: Records) -> Records:
    """Where a text has no augmented version, itself stands there."""
    if not records.augmented:
        return records
    texts: Sequence[str] = records.inputs  # type: ignore[assignment]  # nothing else has versions
    filled = [
        [version if version.strip() else text for version, text in zip(column, texts, strict=True)]
        for column in records.augmented
    ]
    return replace(records, augmented=filled)


def prepare_augmented(records: Records, preparation: Preparation) -> Tensor | None:
    """(n, A, …): each column of augmented texts prepared as the texts are; None where there are none."""
    made: Tensor | None = None
    for number, column in enumerate(_with_all_versions(records).augmented):
        items = preparation(column)
        if made is None:
            made = items.new_empty((len(items), len(records.augmented), *items.shape[1:]))
        made[:, number] = items
    return made


def natural(name: str) -> tuple[Any, ...]:
    """Numbers by their value, and before words: 2 before 10 before "cat"."""
    number = parse_number(name)
    if number is None or math.isnan(number):  # which is neither before nor after any other
        return (1, name.casefold(), name)
    return (0, number, name)


def stop(findings: Sequence[Finding]) -> None:
    """Raise InputError with all that makes training impossible, if there is any."""
    reasons = [finding.text for finding in findings if finding.level == "stop"]
    if reasons:
        raise InputError("\n".join(dict.fromkeys(reasons)))


def refuse_unused(kind: InputKind, reading: Reading) -> None:
    """Raise InputError for what the user says about a source that this kind of source has no use for."""
    if reading.fine_tune and reading.encoder is None:
        raise InputError("--fine-tune trains a pretrained encoder: give one with --encoder, or leave it out.")
    if reading.encoder is not None and kind not in ("image", "text"):
        raise InputError("--encoder is for texts and images; this source has neither.")
    if reading.max_tokens is not None and (kind != "text" or reading.encoder is None):
        raise InputError("--max-tokens is for texts that a pretrained encoder reads: give one with --encoder, or leave it out.")
    if reading.columns.augmented and kind != "text":
        raise InputError("--augmented names versions of texts; this source has none.")
    if reading.image_size is not None and kind != "image":
        raise InputError("--image-size is for files of images; this source has none.")
    if kind == "image" and (reading.columns.text is not None or reading.columns.features is not None):
        raise InputError("--text and --features are for tables; this source has images.")


def kind_of(preparation: Preparation) -> Literal["image", "vector", "text"]:
    """What the items are that a preparation makes."""
    settings = preparation.settings()
    if settings["kind"] == "array":
        return "image" if len(settings["shape"]) == 3 else "vector"
    if settings["kind"] == "tokens":
        return "text"
    return "image" if settings["kind"] == "image" else "vector"


def fit_preparation(
    records: Records, reading: Reading, column: str | None = None, progress: Progress | None = None
) -> tuple[Preparation, Tensor | ImageFiles, Sequence[int], list[Finding]]:
    """A preparation fitted to all inputs, the items, which inputs they are, and what was noticed. Labels are not used.

    Args:
        column: of the texts, to find them again in another table.
    """
    refuse_unused(records.kind, reading)
    everything: Sequence[int] = range(len(records))
    preparation: Preparation
    if records.kind == "image":
        paths: Sequence[Path] = records.inputs  # type: ignore[assignment]  # as the kind says
        if reading.encoder is None or reading.fine_tune:
            return fit_images(paths, _side(reading), progress=progress, names=records.names)
        from softmatch.data.preparations.encoder import fit_image_encoder

        return fit_image_encoder(reading.encoder, paths, progress, names=records.names, device=reading.device)
    if records.kind == "text":
        texts: Sequence[str] = records.inputs  # type: ignore[assignment]  # as the kind says
        preparation = _fit_text(texts, records.augmented, column or "text", reading, progress)
        return preparation, preparation(texts), everything, []
    if records.kind == "table":
        from softmatch.data.preparations.table import fit_table

        preparation, findings = fit_table(records.inputs, records.names)
        return preparation, preparation(records.inputs), everything, findings
    from softmatch.data.preparations.arrays import fit_array

    preparation, findings = fit_array(np.asarray(records.inputs))
    return preparation, preparation(records.inputs), everything, findings


def _fit_text(
    texts: Sequence[str], augmented: Sequence[Sequence[str]], column: str, reading: Reading, progress: Progress | None
) -> Preparation:
    if reading.encoder is None:
        from softmatch.data.preparations.tfidf import fit_tfidf

        return fit_tfidf(texts, column)
    if reading.fine_tune:
        from softmatch.data.preparations.tokens import MOST_TOKENS, fit_tokens

        return fit_tokens([texts, *augmented], column, reading.encoder, reading.max_tokens or MOST_TOKENS)
    from softmatch.data.preparations.encoder import fit_text_encoder

    return fit_text_encoder(reading.encoder, column, progress, reading.device, reading.max_tokens)


def _side(reading: Reading) -> int | None:
    """That images are resized to: as the user says, else the one that an encoder was trained on."""
    if reading.image_size is not None or reading.encoder is None:
        return reading.image_size
    from softmatch.networks.pretrained import encoder_statistics

    return encoder_statistics(reading.encoder)[2]


def _with_statistics(examples: Examples, reading: Reading) -> Examples:
    """Images for an encoder that is to be trained are normalised as it is used to."""
    if reading.encoder is None or not reading.fine_tune or examples.kind != "image":
        return examples
    from softmatch.networks.pretrained import encoder_statistics

    mean, std, _ = encoder_statistics(reading.encoder)
    return replace(examples, statistics=(tuple(mean), tuple(std)))


def _test_examples(tests: Tests, examples: Examples, number: dict[str, int]) -> tuple[Examples, list[bytes], list[Finding]]:
    """The test data, by the preparation of the training data, with a digest of each. Those without a label are left out."""
    records, findings = tests.records, list[Finding]()
    known = [position for position, label in enumerate(records.labels) if label is not None]
    if not known:
        raise InputError(f"{tests.where}: none of the test samples has a label.")
    if len(known) < len(records):
        number_without = f"{len(records) - len(known):,} test samples without a label"
        findings.append(Finding("warning", f"{tests.where}: {number_without} are not used."))
    strange = Counter(label for label in records.labels if label is not None and label not in number)
    if strange:
        name, count = strange.most_common(1)[0]
        raise InputError(
            f"{tests.where}: class {name!r} ({count:,} test samples) has no labelled training sample, so it cannot be learned. "
            f"Label some of it, or take it out of the test data. Classes to learn: {quoted(list(number), 10)}."
        )
    assert examples.preparation is not None
    inputs = select_inputs(records.inputs, known)
    items: Tensor | ImageFiles
    if isinstance(examples.items, ImageFiles):
        items = replace(examples.items, paths=[Path(str(path)) for path in inputs])
    elif isinstance(examples.preparation, ImagePreparation):
        items, kept, found = examples.preparation.read(inputs, [records.names[position] for position in known])
        known, findings = [known[position] for position in kept], [*findings, *found]
        inputs = select_inputs(records.inputs, known)
        stop(findings)
    else:
        items = examples.preparation(inputs)
    labels = torch.tensor([number[str(records.labels[position])] for position in known])
    names = [records.names[position] for position in known]
    contents = digests(records.kind, inputs, items)
    return Examples(items, labels, examples.classes, examples.kind, names=names), contents, findings
