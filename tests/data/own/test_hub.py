"""Datasets of the hub, from small local copies in the form of its repositories."""

from __future__ import annotations

import io
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from softmatch.data.own import open_source
from softmatch.data.own.hub import open_hub
from softmatch.data.own.reading import Reading, read_own
from softmatch.data.records import Columns
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


def test_images(tmp_path: Path) -> None:
    cells = []
    for level in (0, 200, 10, 210):
        buffer = io.BytesIO()
        Image.fromarray(np.full((9, 9, 3), level, np.uint8)).save(buffer, "PNG")
        cells.append({"bytes": buffer.getvalue(), "path": None})
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])})
    rows = datasets.Dataset.from_dict({"img": cells, "label": [0, 1, 0, 1]}, features=features)
    (tmp_path / "shades").mkdir()
    rows.to_parquet(tmp_path / "shades" / "train.parquet")
    examples = read_own(tmp_path / "shades", Reading()).examples
    assert examples.items.shape == (4, 3, 9, 9)
    assert examples.classes == ("dark", "light")
    assert [int(item[0, 0, 0]) for item in examples.items] == [0, 200, 10, 210]


def test_a_wrong_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'label'"):
        open_hub(str(_texts(tmp_path / "reviews")), Columns(label="labels"))


def test_what_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="nobody/nothing cannot be had"):
        open_hub("nobody/nothing", Columns())
