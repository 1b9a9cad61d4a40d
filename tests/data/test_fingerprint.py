"""The fingerprint of data: the same for the same, another for every change that a trained model would trip over."""

from __future__ import annotations

import pytest
import torch

from softmatch.data.fingerprint import fingerprint

NAMES = ["a.png", 'b "2", é.png', "\udcff.png", "d.png", "e.png"]
LABELS = torch.tensor([0, 1, -1, 1, -1])
LABELED = torch.tensor([0, 1, 3])


def test_it_is_the_same_on_every_machine_and_for_every_type_of_number() -> None:
    expected = "74bdf938dfe9336ca6a720703d80dab3bb54aa1e6935becfdd83e2af7b143800"
    assert fingerprint(NAMES, LABELS, LABELED) == expected
    assert fingerprint(tuple(NAMES), LABELS.to(torch.int32), LABELED.to(torch.int32)) == expected


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["z.png", *NAMES[1:]], LABELS),
        (NAMES, torch.tensor([1, 1, -1, 1, -1])),
        (NAMES, torch.tensor([0, 1, 1, -1, -1])),
        ([*NAMES, "f.png"], torch.tensor([0, 1, -1, 1, -1, -1])),
        ([*NAMES[:2], *NAMES[3:]], torch.tensor([0, 1, 1, -1])),
        (["a.png,", *NAMES[1:]], LABELS),
        ((), LABELS),
    ],
)
def test_changes_show(names: list[str], labels: torch.Tensor) -> None:
    assert fingerprint(names, labels, LABELED) != fingerprint(NAMES, LABELS, LABELED)


def test_names_cannot_run_into_each_other() -> None:
    labels, both = torch.tensor([0, 1]), torch.tensor([0, 1])
    found = {fingerprint(names, labels, both) for names in (["a", "b"], ["ab", ""], ["a,b", ""], ['a","b', ""], ["", "ab"])}
    assert len(found) == 5


def test_labels_that_come_later_do_not_show() -> None:
    later = torch.tensor([0, 1, 0, 1, 1])
    assert fingerprint(NAMES, later, LABELED) == fingerprint(NAMES, LABELS, LABELED)


def test_sources_without_names_are_told_apart_by_numbers() -> None:
    known = fingerprint((), LABELS, LABELED)
    assert known == fingerprint((), torch.tensor([0, 1, 0, 1, 0]), LABELED)
    assert known != fingerprint((), torch.tensor([0, 1, -1, 1]), LABELED)
    assert known != fingerprint((), torch.tensor([1, 1, -1, 1, -1]), LABELED)
    assert len(known) == 64
    assert fingerprint((), LABELS, torch.arange(0)) != known
