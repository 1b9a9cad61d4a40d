"""Texts that are drawn from a dataset: so many of each class to train on, and so many to validate on instead of the test set."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import torch

from softmatch.data.records import Finding, Records
from softmatch.data.sources.open_texts import TextData
from softmatch.errors import InputError
from softmatch.seeds import stream


def draw(data: TextData, train_per_class: int | None, validation_per_class: int | None, seed: int) -> TextData:
    """The same data with a training set and a test set of these sizes; None: they stay as they are.

    Validation texts are drawn first: from the table that is for them, where there is one, else out of the training set. What
    is kept stays in its order. Texts without a label are of no class, and stay.

    Raises:
        InputError: where a class has too few texts.
    """
    train, test, findings = data.train, data.test, list(data.findings)
    if validation_per_class is not None:
        if data.validation is not None:
            test, origin = data.validation, "of the validation set"
            chosen = _choose(data, test, validation_per_class, seed, "validation")
        else:
            test, origin = train, "taken out of the training set"
            chosen = _choose(data, train, validation_per_class, seed, "validation", and_train=train_per_class or 1)
            taken = set(chosen)
            train = train.select([row for row in range(len(train)) if row not in taken])
        test = replace(test.select(chosen), augmented=())
        findings.append(
            Finding(
                "note",
                f"{data.name}: the error is measured on {len(test):,} texts {origin}, {validation_per_class:,} of each class; "
                "the test set is not used.",
            )
        )
    elif test is None:
        raise InputError(
            f"{data.name}: there is no table test.* beside train.* to measure the error on. Give one, or --validation-per-class "
            "N, which takes N texts of each class out of the training set for it."
        )
    if train_per_class is not None:
        chosen = _choose(data, train, train_per_class, seed, "train")
        unlabeled = [row for row, label in enumerate(train.labels) if label is None]
        train = train.select(sorted([*chosen, *unlabeled]))
    return replace(data, train=train, test=test, validation=None, findings=tuple(findings))


def _choose(data: TextData, records: Records, number: int, seed: int, part: str, and_train: int = 0) -> list[int]:
    """Rows of so many texts of each class, in order.

    Args:
        and_train: so many more of each class must be there, to train on.
    """
    members = defaultdict[str, list[int]](list)
    for row, label in enumerate(records.labels):
        if label is not None:
            members[label].append(row)
    generator, chosen = stream(seed, f"{part} texts"), list[int]()
    for name in data.classes:
        rows = members[name]
        if len(rows) < number + and_train:
            raise InputError(_too_few(data.name, name, len(rows), number, and_train, part))
        chosen += [rows[k] for k in torch.randperm(len(rows), generator=generator)[:number].tolist()]
    return sorted(chosen)


def _too_few(source: str, name: str, there: int, number: int, and_train: int, part: str) -> str:
    has = f"{source}: class {name!r} has {there:,} texts"
    if part == "train":
        return f"{has} to train on, {number:,} of each class are asked for: lower --train-per-class."
    if not and_train:
        return f"{has} to validate on, {number:,} of each class are asked for: lower --validation-per-class."
    if there <= number:
        return f"{has}; {number:,} of each class to validate on would leave none to train on: lower --validation-per-class."
    wanted = f"{number:,} of each class to validate on and {and_train:,} to train on are asked for"
    return f"{has}, {wanted}: lower --validation-per-class or --train-per-class."
