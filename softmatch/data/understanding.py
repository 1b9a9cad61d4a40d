"""From the records of a source to Examples: labels become classes, inputs become items by a preparation fitted to them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from softmatch.data.cells import parse_number
from softmatch.data.checks import advise_encoder, check_classes, check_copies, check_leaks, check_lost, check_versions
from softmatch.data.examples import UNLABELED, Examples, Kind
from softmatch.data.fingerprint import digests, group
from softmatch.data.label_file import Prefer, add_labels, read_label_file
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations import Preparation, Prepared
from softmatch.data.preparations.encoder_features import (
    EncoderPreparation,
    fit_image_encoder,
    fit_sound_encoder,
    fit_text_encoder,
)
from softmatch.data.preparations.images import ImagePreparation, fit_images
from softmatch.data.preparations.numeric_arrays import fit_array
from softmatch.data.preparations.sounds import SoundPreparation, fit_sounds
from softmatch.data.preparations.table import fit_table
from softmatch.data.preparations.text_preparations import MOST_TOKENS, TfidfPreparation, fit_tfidf, fit_tokens
from softmatch.data.readers.columns import NoColumn
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns, Finding, InputKind, Opened, Progress, Records, select_inputs
from softmatch.data.shards.shard_source import OpenedShards
from softmatch.data.shards.streamed import Streamed
from softmatch.encoders.encoder_folder import find_encoder, read_image_settings
from softmatch.errors import InputError
from softmatch.formatting import quoted


@dataclass(frozen=True)
class Reading:
    """Instructions of the user for reading a source.

    Attributes:
        test: a further source of the same form, to measure the error on.
        max_tokens: most that an encoder reads of a text; None: 128 where it is trained, else its own limit.
        arrays: what an array of numbers holds; None: by its shape and levels; "any": as it is, for views of the user's own.
        half: an encoder multiplies in bf16 where the device has units for it.
    """

    columns: Columns = field(default_factory=Columns)
    test: Any = None
    image_size: int | None = None
    encoder: str | None = None
    tune: str = "head"
    device: str = "auto"
    max_tokens: int | None = None
    labels_from: Path | None = None
    prefer: Prefer | None = None
    arrays: Literal["series", "vectors", "images", "any"] | None = None
    half: bool = True


@dataclass(frozen=True)
class Understood:
    """Examples that were made of a source, and what was noticed."""

    where: str
    examples: Examples
    findings: tuple[Finding, ...]


def read_own(where: Any, reading: Reading, progress: Progress | None = None) -> Understood:
    """Read a source of the user's own."""
    opened = open_source(where, reading.columns, need_label=reading.labels_from is None or reading.columns.label is not None)
    refuse_unused(opened.kind, reading)
    records, noticed = with_label_file(opened, reading)
    tests = opened.test if reading.test is None else _open_test(reading.test, opened.columns)
    stop([*opened.findings, *noticed])
    tested = None if tests is None else (tests.where, tests.read())
    found = understand(opened.where, records, tested, reading, opened.columns.text, progress)
    return replace(found, findings=(*opened.findings, *noticed, *(tests.findings if tests is not None else ()), *found.findings))


def with_label_file(opened: Opened, reading: Reading) -> tuple[Records, list[Finding]]:
    """Read a source and merge the labels of a further file, if there is one; with what was noticed about them."""
    if reading.labels_from is None:
        return opened.read(), []
    if isinstance(opened, OpenedShards):  # of all those samples, only these become records
        records = opened.read({given.name for given in read_label_file(reading.labels_from, reading.columns.unlabeled)})
        stop(opened.findings)
    else:
        records = opened.read()
    records, findings = add_labels(records, opened.where, reading.labels_from, reading.prefer, reading.columns.unlabeled)
    return records, [*findings, *check_label_column(opened, reading.columns)]


def check_label_column(opened: Opened, asked: Columns) -> list[Finding]:
    """Warn where a column of labels that was not recognised would be learned from."""
    is_table = opened.kind == "table" or opened.columns.series is not None
    if not is_table or opened.columns.label is not None or asked.features is not None:
        return []
    advice = "If there is one, name it with --label-column; it is a feature now."
    return [Finding("warning", f"{opened.where}: no label column was found. {advice}")]


def _open_test(where: Any, columns: Columns) -> Opened:
    """Open a further source, whose columns have the names of the training data."""
    try:
        return open_source(where, replace(columns, augmented=()))
    except NoColumn as error:
        raise InputError(f"{error.plain}. The columns of the test data must have the names of the training data.") from error


def understand(
    where: str,
    records: Records,
    tests: tuple[str, Records] | None,
    reading: Reading,
    column: str | None = None,
    progress: Progress | None = None,
    classes: Sequence[str] | None = None,
) -> Understood:
    """Make Examples of records, and report what is noticed about them.

    Args:
        tests: name and records of the data to measure the error on.
        column: of the texts, to find them again in another table.
        classes: where their order is known; by default they are sorted.
    """
    every = Counter(label for label in records.labels if label is not None)
    total = len(records) if records.pool is None else len(records.pool)
    stop(check_classes(where, every, total, reading.columns.unlabeled))
    findings = check_versions(records)
    records = _with_all_versions(records)
    made = fit_preparation(records, reading, column, progress)
    kept, items = made.kept, made.items
    counts = Counter(label for k in kept if (label := records.labels[k]) is not None)
    findings += [
        *made.findings,
        *check_classes(where, counts, total - len(records) + len(kept), reading.columns.unlabeled),
        *check_lost(every, counts),
    ]
    stop(findings)
    number = {name: position for position, name in enumerate(classes or sorted(counts, key=natural))}
    labels = torch.tensor([UNLABELED if (label := records.labels[k]) is None else number[label] for k in kept])
    contents = made.contents
    if contents is None:
        contents = digests(records.kind, select_inputs(records.inputs, kept), items)
    examples = Examples(
        items,
        labels,
        tuple(number),
        kind_of(made.preparation),
        statistics=_statistics(records.kind, reading),
        names=[records.names[k] for k in kept],
        preparation=made.preparation,
        groups=group(records.kind, contents),
        augmented=prepare_augmented(records, made.preparation),
        chosen=torch.tensor([records.chosen[k] for k in kept]) if records.chosen else None,
        refit=partial(_refit, records, made.preparation) if isinstance(made.preparation, TfidfPreparation) else None,
        recordings=_recordings(records, kept),
        streamed=None if records.pool is None else _stream(records, made),
    )
    findings += check_copies(examples, contents)
    findings += [] if reading.encoder is not None else advise_encoder(records.kind, examples)
    if tests is not None:
        test, test_contents, found = _test_examples(*tests, examples, number)
        examples = replace(examples, test=test)
        findings += [*found, *check_leaks(contents, test.names, test_contents)]
    return Understood(where, examples, tuple(findings))


def _stream(records: Records, made: Prepared) -> Streamed:
    """Give all images of the shards, to be decoded as the examples are."""
    if not isinstance(made.preparation, ImagePreparation):
        raise InputError("shards are streamed as images, so their encoder must be trained: give --tune all or --tune lora.")
    assert records.pool is not None
    side, channels = made.preparation.height, made.preparation.channels
    return Streamed(ImageFiles(records.pool, side, side, channels, upright=True), torch.tensor(records.places)[list(made.kept)])


def _with_all_versions(records: Records) -> Records:
    """Use the text itself where it has no augmented version."""
    filled = [
        [version if version.strip() else str(text) for version, text in zip(column, records.inputs, strict=True)]
        for column in records.augmented
    ]
    return replace(records, augmented=filled)


def _refit(records: Records, fitted: TfidfPreparation, positions: Tensor) -> tuple[Tensor, Tensor | None]:
    """Prepare all texts and their versions again, with the words of the texts at these positions only."""
    texts: Sequence[str] = records.inputs  # type: ignore[assignment]  # as the preparation says
    again = fit_tfidf([texts[k] for k in positions.tolist()], *fitted.columns, exactly=len(fitted.components))
    return again(texts), prepare_augmented(records, again)


def prepare_augmented(records: Records, preparation: Preparation) -> Tensor | None:
    """Prepare each column of augmented texts like the texts, (n, A, …); None where there are none."""
    made: Tensor | None = None
    for number, column in enumerate(_with_all_versions(records).augmented):
        items = preparation(column)
        if made is None:
            made = items.new_empty((len(items), len(records.augmented), *items.shape[1:]))
        made[:, number] = items
    return made


def _recordings(records: Records, kept: Sequence[int]) -> list[Path]:
    if records.kind != "sound":
        return []
    paths: Sequence[Path] = records.inputs  # type: ignore[assignment]  # as the kind says
    return [paths[k] for k in kept]


def natural(name: str) -> tuple[Any, ...]:
    """Sort key: numbers by their value and before words, so 2 before 10 before "cat"."""
    number = parse_number(name)
    if number is None or math.isnan(number):  # which is neither before nor after any other
        return (1, name.casefold(), name)
    return (0, number, name)


def stop(findings: Sequence[Finding]) -> None:
    """Raise InputError with everything that makes training impossible, if there is anything."""
    reasons = [finding.text for finding in findings if finding.level == "stop"]
    if reasons:
        raise InputError("\n".join(dict.fromkeys(reasons)))


def refuse_unused(kind: InputKind, reading: Reading) -> None:
    """Raise InputError for an instruction that this kind of source has no use for."""
    if reading.tune != "head" and reading.encoder is None:
        raise InputError(f"--tune {reading.tune} trains a pretrained encoder: give one with --encoder, or leave it out.")
    if reading.encoder is not None and kind not in ("image", "text", "sound"):
        raise InputError("--encoder is for texts, images and recordings; this source has none of them.")
    if reading.tune != "head" and kind == "sound":
        raise InputError(f"--tune {reading.tune}: an encoder of recordings stays as it is. Leave it out.")
    if reading.max_tokens is not None and (kind != "text" or reading.encoder is None):
        raise InputError("--max-tokens is for texts that a pretrained encoder reads: give one with --encoder, or leave it out.")
    if reading.columns.augmented and kind != "text":
        raise InputError("--augmented names versions of texts; this source has none.")
    if reading.image_size is not None and kind != "image":
        raise InputError("--image-size is for image files; this source has none.")
    if reading.arrays is not None and kind != "array":
        option = "--views with code of your own" if reading.arrays == "any" else f"--arrays {reading.arrays}"
        raise InputError(f"{option} is for arrays of numbers (.npz, .npy); this source has none.")
    if kind == "image" and (reading.columns.text is not None or reading.columns.features is not None):
        raise InputError("--text and --features are for tables; this source has images.")


def kind_of(preparation: Preparation) -> Kind:
    """Kind of the items that a preparation makes."""
    settings = preparation.settings()
    if settings["kind"] == "tokens":
        return "text"
    if settings["kind"] == "image":
        return "image"
    if settings.get("layout") == "any":
        return "array"
    return {2: "series", 3: "image"}.get(len(settings.get("shape", ())), "vector")  # type: ignore[return-value]  # a Kind


def fit_preparation(records: Records, reading: Reading, column: str | None = None, progress: Progress | None = None) -> Prepared:
    """Fit a preparation to all inputs, and make items of them. Labels are not used."""
    refuse_unused(records.kind, reading)
    everything: Sequence[int] = range(len(records))
    preparation: Preparation
    if records.kind == "image":
        paths: Sequence[Path] = records.inputs  # type: ignore[assignment]  # as the kind says
        if reading.encoder is None or reading.tune != "head":
            return fit_images(paths, _side(reading), progress=progress, names=records.names)
        return fit_image_encoder(reading.encoder, paths, progress, records.names, reading.device, reading.half)
    if records.kind == "sound":
        recordings: Sequence[Path] = records.inputs  # type: ignore[assignment]  # as the kind says
        if reading.encoder is None:
            return fit_sounds(recordings, progress, records.names)
        return fit_sound_encoder(reading.encoder, recordings, records.names, progress, reading.device, reading.half)
    if records.kind == "text":
        texts: Sequence[str] = records.inputs  # type: ignore[assignment]  # as the kind says
        name = column or "text"
        if reading.encoder is None:
            preparation = fit_tfidf(texts, name)
        elif reading.tune != "head":
            preparation = fit_tokens([texts, *records.augmented], name, reading.encoder, reading.max_tokens or MOST_TOKENS)
        else:
            preparation = fit_text_encoder(reading.encoder, name, progress, reading.device, reading.max_tokens, reading.half)
        return Prepared(preparation, preparation(texts), everything, [])
    if records.kind == "table":
        preparation, findings = fit_table(records.inputs, records.names)
    else:
        preparation, findings = fit_array(np.asarray(records.inputs), reading.arrays, records.grid)
    return Prepared(preparation, preparation(records.inputs), everything, findings)


def _side(reading: Reading) -> int | None:
    """Side that images are resized to: as the user says, else the one that an encoder was trained on."""
    if reading.image_size is not None or reading.encoder is None:
        return reading.image_size
    return read_image_settings(find_encoder(reading.encoder)).side


def _statistics(kind: InputKind, reading: Reading) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and standard deviation of an encoder that is to be trained on images."""
    if reading.encoder is None or reading.tune == "head" or kind != "image":
        return None
    settings = read_image_settings(find_encoder(reading.encoder))
    return settings.mean, settings.std


def _test_examples(
    where: str, records: Records, examples: Examples, number: dict[str, int]
) -> tuple[Examples, list[bytes], list[Finding]]:
    """Prepare the test data like the training data, with a digest of each. Samples without a label are left out."""
    findings = list[Finding]()
    known = [position for position, label in enumerate(records.labels) if label is not None]
    if not known:
        raise InputError(f"{where}: none of the test samples has a label.")
    if len(known) < len(records):
        text = f"{where}: {len(records) - len(known):,} test samples without a label are not used."
        findings.append(Finding("warning", text))
    strange = Counter(label for label in records.labels if label is not None and label not in number)
    if strange:
        name, count = strange.most_common(1)[0]
        raise InputError(
            f"{where}: class {name!r} ({count:,} test samples) has no labelled training sample. Label some of it, or "
            f"remove it from the test data. Classes to learn: {quoted(list(number), 10)}."
        )
    preparation, inputs, contents = examples.preparation, select_inputs(records.inputs, known), None
    assert preparation is not None
    items: Tensor | ImageFiles
    if isinstance(examples.items, ImageFiles):
        items = replace(examples.items, paths=inputs)  # type: ignore[arg-type]  # files, as before
    elif records.kind in ("image", "sound") and isinstance(preparation, (ImagePreparation, EncoderPreparation, SoundPreparation)):
        made = preparation.read(inputs, [records.names[position] for position in known])  # type: ignore[arg-type]  # as the kind says
        items, contents, findings = made.items, made.contents, [*findings, *made.findings]
        known = [known[position] for position in made.kept]
        stop(findings)
    else:
        items = preparation(inputs)
    labels = torch.tensor([number[str(records.labels[position])] for position in known])
    names = [records.names[position] for position in known]
    found = Examples(items, labels, examples.classes, examples.kind, names=names, recordings=_recordings(records, known))
    return found, digests(records.kind, inputs, items) if contents is None else contents, findings
