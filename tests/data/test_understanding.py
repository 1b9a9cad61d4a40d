"""From a user's source to Examples, through every kind of source."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations.images import fit_images
from softmatch.data.records import Columns
from softmatch.data.understanding import Reading, Understood, natural, read_own
from softmatch.errors import InputError
from tests.own.sources import blobs, pictures, texts, write_csv
from tests.tiny_encoder import make_text_encoder


def _levels(found: Understood) -> dict[str, str]:
    return {finding.text: finding.level for finding in found.findings}


def test_a_table(tmp_path: Path) -> None:
    found = read_own(blobs(tmp_path / "t.csv"), Reading())
    examples = found.examples
    assert examples.classes == ("left", "right")
    assert examples.items.shape == (90, 2)
    assert examples.labels[:4].tolist() == [0, 1, 0, 1]
    assert int((examples.labels < 0).sum()) == 60
    assert examples.names[0] == "1"
    assert examples.groups is not None


def test_a_folder_of_images_with_an_unreadable_one(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos")
    (folder / "unlabeled" / "broken.png").write_bytes(b"not an image")
    found = read_own(str(folder), Reading())
    assert found.examples.kind == "image"
    assert found.examples.items.shape == (54, 3, 8, 8)
    assert "unlabeled/broken.png" not in found.examples.names
    assert any("broken.png" in text and level == "warning" for text, level in _levels(found).items())
    assert found.examples.labels[list(found.examples.names).index("dark/000.png")] == 0


def test_texts_become_vectors(tmp_path: Path) -> None:
    found = read_own(texts(tmp_path / "t.csv"), Reading())
    assert found.examples.kind == "vector"
    assert found.examples.classes == ("cards", "parcels")
    assert found.examples.preparation is not None
    assert found.examples.preparation.columns == ("message",)


def test_augmented_texts_become_versions_of_the_items(tmp_path: Path) -> None:
    rows = [("cheap parcel today", "a"), ("my card is lost", "b"), ("parcel cheap now", ""), ("lost my card again", "")]
    augmented = ["parcel cheap today", "", "cheap parcel now", "card lost again"]
    table = [(text, label, other, text) for (text, label), other in zip(rows, augmented, strict=True)]
    path = write_csv(tmp_path / "t.csv", table, ("text", "label", "aug_0", "aug_1"))
    found = read_own(path, Reading())
    warnings = [finding.text for finding in found.findings if finding.level == "warning"]
    assert warnings[0] == "aug_0: 1 of 4 texts has no version: the text itself is used."
    examples = found.examples
    assert examples.augmented is not None
    assert isinstance(examples.items, torch.Tensor)
    assert examples.augmented.shape == (4, 2, examples.items.shape[1])
    assert torch.equal(examples.augmented[:, 1], examples.items)  # the same texts
    assert torch.equal(examples.augmented[1, 0], examples.items[1])  # no version: the text itself
    assert examples.preparation is not None
    assert torch.equal(examples.augmented[3, 0], examples.preparation(["card lost again"])[0])
    assert read_own(path, Reading(Columns(augmented=()))).examples.augmented is None


def test_a_test_table_needs_no_augmented_texts(tmp_path: Path) -> None:
    rows = [("cheap parcel today", "a", "parcel"), ("my card is lost", "b", "card"), ("parcel cheap now", "", "now")]
    path = write_csv(tmp_path / "t.csv", rows, ("text", "label", "aug_0"))
    tests = write_csv(tmp_path / "test.csv", [("a card", "b"), ("the parcel", "a")], ("text", "label"))
    examples = read_own(path, Reading(test=tests)).examples
    assert examples.test is not None
    assert examples.test.augmented is None
    assert len(examples.test) == 2
    write_csv(tests, [("a card", "b")], ("ticket", "label"))
    with pytest.raises(InputError, match=r"no column 'text': it has 'ticket', 'label'. The columns of the test data must have"):
        read_own(path, Reading(test=tests))


def test_arrays_frames_and_files_give_the_same(tmp_path: Path) -> None:
    path = blobs(tmp_path / "t.csv")
    frame = pd.read_csv(path)
    x, y = frame[["width", "height"]].to_numpy(), [None if isinstance(v, float) else v for v in frame["label"]]
    by_file, by_frame = read_own(path, Reading()).examples, read_own(frame, Reading()).examples
    by_arrays = read_own((x, y), Reading()).examples
    np.savez(tmp_path / "t.npz", x=x, y=np.array(["" if v is None else v for v in y]))
    by_npz = read_own(tmp_path / "t.npz", Reading()).examples
    for one, other in ((by_frame, by_file), (by_arrays, by_npz), (by_file, by_npz)):
        assert other.classes == one.classes
        assert torch.equal(other.labels, one.labels)
    for one, other in ((by_frame, by_file), (by_arrays, by_npz)):
        assert torch.equal(torch.as_tensor(other.items), torch.as_tensor(one.items))


def test_numbers_as_labels_are_words_and_in_the_order_of_numbers() -> None:
    x = np.random.default_rng(0).normal(size=(8, 2))
    found = read_own((x, [10, 2, 10.0, "2", " 10 ", -1, -1, -1]), Reading())
    assert found.examples.classes == ("2", "10")
    assert found.examples.labels.tolist()[:5] == [1, 0, 1, 0, 1]


def test_classes_are_ordered_naturally() -> None:
    assert sorted(["cat", "10", "2", "Ant"], key=natural) == ["2", "10", "Ant", "cat"]
    assert sorted(["2", "nan", "1"], key=natural) == sorted(["nan", "2", "1"], key=natural) == ["1", "2", "nan"]


def test_test_data(tmp_path: Path) -> None:
    train, test = blobs(tmp_path / "a.csv"), blobs(tmp_path / "b.csv", 10, 4, seed=1)
    found = read_own(train, Reading(test=test))
    assert found.examples.test is not None
    assert len(found.examples.test) == 10
    assert any("4 test samples without a label" in text for text in _levels(found))


def test_test_samples_in_the_training_data_are_named(tmp_path: Path) -> None:
    path = blobs(tmp_path / "a.csv")
    found = read_own(path, Reading(test=path))
    assert any("30 of the 30 test samples are equal" in text and level == "warning" for text, level in _levels(found).items())


def test_a_class_of_the_test_data_alone_stops(tmp_path: Path) -> None:
    test = write_csv(tmp_path / "b.csv", [(1, 2, "left"), (3, 5, "middle")], ("width", "height", "label"))
    with pytest.raises(InputError, match=r"b\.csv: class 'middle' \(1 test samples\) has no labelled training sample"):
        read_own(blobs(tmp_path / "a.csv"), Reading(test=test))


def test_copies_are_noted_and_disputed_ones_are_warned_of() -> None:
    x = np.array([(1, 2), (1, 2), (3, 4), (3, 4), (5, 6), (7, 9)], np.float64)
    found = read_own((x, ["a", "b", "a", "", "b", ""]), Reading())
    assert any("2 samples are exact copies" in text for text in _levels(found))
    assert any("different labels, such as '1': a and b" in text and level == "warning" for text, level in _levels(found).items())
    assert found.examples.groups is not None
    assert found.examples.groups.tolist() == [0, 0, 2, 2, 4, 5]


def test_equal_rows_of_categories_are_not_copies(tmp_path: Path) -> None:
    rows = [("red" if i % 2 else "blue", "big" if i % 3 else "small", "ab"[i % 2] if i < 30 else "") for i in range(90)]
    found = read_own(write_csv(tmp_path / "t.csv", rows, ("colour", "size", "label")), Reading())
    assert found.examples.groups is not None
    assert found.examples.groups.tolist() == list(range(90))
    assert any("taken as different samples" in text for text in _levels(found))


def test_classes_are_those_that_can_be_read(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos")
    (folder / "rare").mkdir()
    (folder / "rare" / "x.png").write_bytes(b"broken")
    found = read_own(folder, Reading())
    assert found.examples.classes == ("dark", "light")
    assert any("none of the labelled samples of 'rare' could be read" in text for text in _levels(found))
    for path in (folder / "light").iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(InputError, match="every label is 'dark'"):
        read_own(folder, Reading())


def test_images_that_stay_in_files_are_read_and_their_leaks_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pictures(tmp_path / "photos")
    monkeypatch.setattr("softmatch.data.understanding.fit_images", partial(fit_images, limit_bytes=100))
    found = read_own(folder, Reading(test=folder))
    assert isinstance(found.examples.items, ImageFiles)
    assert found.examples.test is not None
    assert isinstance(found.examples.test.items, ImageFiles)
    assert any("24 of the 24 test samples are equal" in text for text in _levels(found))


@pytest.mark.parametrize(
    ("source", "reading", "message"),
    [
        (blobs, Reading(encoder="somewhere"), "texts, images and recordings"),
        (blobs, Reading(image_size=32), "image files"),
        (texts, Reading(tune="all"), "--encoder"),
        (pictures, Reading(Columns(text="x")), "tables"),
        (pictures, Reading(Columns(augmented=("aug_0",))), "--augmented names versions of texts"),
        (texts, Reading(max_tokens=16), "--max-tokens is for texts that a pretrained encoder reads"),
    ],
)
def test_what_a_source_has_no_use_for_is_refused(
    tmp_path: Path, source: Callable[[Path], Path], reading: Reading, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_own(source(tmp_path / "t.csv"), reading)


def _advice(found: Understood) -> list[str]:
    return [finding.text for finding in found.findings if "--encoder" in finding.text]


def test_an_encoder_is_suggested_once_for_texts_and_photos_that_have_none(tmp_path: Path) -> None:
    (said,) = _advice(read_own(texts(tmp_path / "t.csv"), Reading()))
    assert (
        "Add --encoder texts-small (92 MB, downloaded once): on AG News with 40 labels the error fell from 22.3 to 14.7 %" in said
    )
    encoder = make_text_encoder(tmp_path / "encoder")
    assert _advice(read_own(str(tmp_path / "t.csv"), Reading(encoder=str(encoder), device="cpu"))) == []
    folder = pictures(tmp_path / "photos")
    assert _advice(read_own(str(folder), Reading())) == []  # 8 pixels
    assert _advice(read_own(str(folder), Reading(image_size=32))) == []
    (said,) = _advice(read_own(str(folder), Reading(image_size=33)))
    assert "Add --encoder images (346 MB, downloaded once): with few labels" in said
    for path in folder.rglob("*.png"):
        Image.open(path).convert("L").save(path)
    assert _advice(read_own(str(folder), Reading(image_size=33))) == []  # grey
    assert _advice(read_own(blobs(tmp_path / "b.csv"), Reading())) == []
