"""Datasets of the hub, from small local copies in the form of its repositories."""

import gc
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import EpsImagePlugin, Image

from softmatch.data.pictures import EncodedImage
from softmatch.data.preparations.images import ImagePreparation, fit_images
from softmatch.data.readers import hub_repositories
from softmatch.data.readers.hub_repositories import open_hub
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def _texts(folder: Path) -> Path:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    for split, labels in {"train": [0, 1, 0, 1], "unsupervised": [-1, -1], "test": [1, 0]}.items():
        rows = {"text": [f"a sentence of {split} that is number {i}" for i in range(len(labels))], "label": labels}
        target = folder / "data" / f"{split}-00000-of-00001.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict(rows, features=features).to_parquet(target)
    return folder


def test_texts_with_unlabelled_and_test_splits(tmp_path: Path) -> None:
    opened = open_source(_texts(tmp_path / "reviews"))
    assert opened.kind == "text"
    assert list(opened.read().labels) == ["neg", "pos", "neg", "pos", None, None]
    examples = read_own(tmp_path / "reviews", Reading()).examples
    assert examples.classes == ("neg", "pos")
    assert examples.test is not None
    assert examples.test.labels.tolist() == [1, 0]


def _encoded(level: int, kind: str = "PNG", side: int = 9) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), level, np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def _images(folder: Path, cells: Sequence[Any], labels: Sequence[int], **further: Sequence[Any]) -> Path:
    """A folder as the hub has it; `further` are more columns of images. The hub's own library would read files that are named."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    names = ["img", *further]
    about = {name: {"_type": "Image"} for name in names} | {"label": {"names": ["dark", "light"], "_type": "ClassLabel"}}
    fields = [*(pa.field(name, image) for name in names), pa.field("label", pa.int64())]
    schema = pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": about}})})
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"img": cells, **further, "label": labels}, schema=schema), folder / "train.parquet")
    return folder


def _stored(*levels: int) -> list[dict[str, Any]]:
    return [{"bytes": _encoded(level), "path": None} for level in levels]


def test_images(tmp_path: Path) -> None:
    where = _images(tmp_path / "shades", _stored(0, 200, 10, 210), [0, 1, 0, -1])
    examples = read_own(where, Reading()).examples
    assert examples.items.shape == (4, 3, 9, 9)
    assert examples.classes == ("dark", "light")
    assert examples.labels.tolist() == [0, 1, 0, -1]
    assert isinstance(examples.items, torch.Tensor)
    assert examples.items[:, 0, 0, 0].tolist() == [0, 200, 10, 210]


def test_images_that_cannot_be_read_are_left_out_and_named(tmp_path: Path) -> None:
    cells = _stored(0, 200, 10, 210, 20, 220)
    cells[2:2] = [{"bytes": b"nonsense", "path": None}, None, {"bytes": b"", "path": None}, {"bytes": None, "path": None}]
    where = _images(tmp_path / "shades", cells, [0, 1] * 5)
    understood = read_own(where, Reading())
    assert understood.examples.names == ["1", "2", "7", "8", "9", "10"]
    assert understood.examples.labels.tolist() == [0, 1] * 3
    (warning,) = [finding for finding in understood.findings if finding.level == "warning"]
    assert warning.text.startswith(f"4 of 10 images cannot be read: '{where}, row 3' (not an image that Pillow knows); ")
    assert [place.removeprefix(f"{where}, ") for place in warning.places] == [
        "row 3: not an image that Pillow knows",
        "row 4: the row has no image",
        "row 5: it is empty",
        "row 6: the row has no image",
    ]


def test_only_common_formats_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow would start a program for EPS."""
    started: list[Any] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **named: started.append(given))
    odd = [{"bytes": _encoded(5, kind), "path": f"photo.{kind.lower()}"} for kind in ("EPS", "TGA")]
    where = _images(tmp_path / "shades", [*_stored(0, 200, 10, 210), *odd], [0, 1] * 3, mask=[odd[0]] * 6)
    understood = read_own(where, Reading())
    assert len(understood.examples) == 4
    table = open_source(where, Columns(features=("label",)), need_label=False)
    assert (table.kind, list(table.read().inputs)) == ("table", ["label"])
    with pytest.raises(InputError, match="'mask' holds images or sounds, not labels"):
        open_source(where, Columns(label="mask"))
    assert started == []


def test_a_row_names_no_file_outside_of_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(_encoded(77))
    folder = tmp_path / "shades"
    paths = [
        str(tmp_path / "secret.png"),
        "../secret.png",
        "link.bin",
        "https://example.org/1.png",
        "\0/etc/passwd",
        "inside.bin",
    ]
    _images(folder, [*_stored(0, 200, 10, 210), *({"bytes": None, "path": path} for path in paths)], [0, 1] * 5)
    (folder / "inside.bin").write_bytes(_encoded(88))
    (folder / "link.bin").symlink_to(tmp_path / "secret.png")
    records = open_hub(str(folder), Columns()).read()
    with pytest.raises(InputError, match=rf"shades, row 5 cannot be read: '{paths[0]}' is not a file of"):
        ImagePreparation(3, 8, 8)(records.inputs[4:5])  # type: ignore[index]  # a list, as the kind says
    _, items, kept, (warning,), _ = ImagePreparation(3, 8, 8).read(records.inputs, records.names)
    assert isinstance(items, torch.Tensor)
    assert kept == [0, 1, 2, 3, 9]
    assert items[-1, 0, 0, 0] == 88
    assert [place.split(":")[0] for place in warning.places] == [f"{folder}, row {row}" for row in (5, 6, 7, 8, 9)]


def _opened_by_pillow() -> int:
    gc.collect()
    return sum(issubclass(type(each), Image.Image) for each in gc.get_objects())


def test_pixels_are_not_kept_after_they_were_used(tmp_path: Path) -> None:
    cells = [{"bytes": _encoded(level, "JPEG", 100), "path": None} for level in range(20)]
    before = _opened_by_pillow()
    records = open_hub(str(_images(tmp_path / "shades", cells, [0, 1] * 10)), Columns()).read()
    made = fit_images(records.inputs, 8)  # type: ignore[arg-type]  # as the kind says
    assert (len(made.items), len(made.kept)) == (20, 20)
    assert _opened_by_pillow() == before
    assert [each.content for each in records.inputs if isinstance(each, EncodedImage)] == [cell["bytes"] for cell in cells]


def test_images_too_many_to_hold_are_to_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = str(_images(tmp_path / "shades", _stored(0, 200, 10, 210), [0, 1, 0, 1]))
    monkeypatch.setattr(hub_repositories, "LIMIT", 3 * len(_encoded(0)))
    with pytest.raises(InputError, match=r"shades: its images take more than .* Export them to a folder of files"):
        open_hub(where, Columns()).read()
    assert sum(len(piece) for piece in open_hub(where, Columns()).stream(2)) == 4  # for prediction, however many they are


def test_a_wrong_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'label'"):
        open_hub(str(_texts(tmp_path / "reviews")), Columns(label="labels"))


def test_what_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="nobody/nothing cannot be loaded"):
        open_hub("nobody/nothing", Columns())
