"""Copies are found by what the user gave."""

from pathlib import Path

import pytest
import torch

from softmatch.data.fingerprint import digests, fingerprint, group


def test_equal_vectors_are_in_one_group() -> None:
    items = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [-0.0, 1.0], [0.0, 1.0]])
    assert group("array", digests("array", items.numpy(), items)).tolist() == [0, 1, 0, 3, 3]


def test_texts_are_compared_as_texts_whatever_is_made_of_them() -> None:
    inputs = ["not good but bad", "not bad but good", "  not good\nbut bad "]
    items = torch.zeros(3, 4)  # a preparation may not tell them apart
    assert group("text", digests("text", inputs, items)).tolist() == [0, 1, 0]


def test_files_are_compared_by_their_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, content in zip(paths, (b"x" * 100_000, b"y", b"x" * 100_000), strict=True):
        path.write_bytes(content)
    assert group("image", digests("image", paths, torch.zeros(3, 1))).tolist() == [0, 1, 0]


def test_equal_rows_of_a_table_of_categories_are_different_samples() -> None:
    few = torch.arange(40)[:, None] % 4
    assert group("table", digests("table", {}, few.float())).tolist() == list(range(40))
    many = torch.arange(40)[:, None].float()
    many[39] = many[0]
    assert group("table", digests("table", {}, many)).tolist() == [*range(39), 0]


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
