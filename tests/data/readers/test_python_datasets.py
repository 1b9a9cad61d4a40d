"""Datasets of the library `datasets`, of torch, and frames of polars as sources."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import polars
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import softmatch
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Columns
from softmatch.errors import InputError

QUICK: dict[str, Any] = {"steps": 3, "labeled_batch": 4, "unlabeled_batch": 8, "evaluation": "none", "baseline": False}


class Pairs(Dataset[Any]):
    """A map-style dataset of the user's own."""

    def __init__(self, pairs: list[Any], classes: list[str] | None = None) -> None:
        self.pairs = pairs
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, position: int) -> Any:
        return self.pairs[position]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([(torch.zeros(2), 0)])


def picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (9, 9, 3), dtype=np.uint8))


def two_clouds(count: int = 40) -> tuple[torch.Tensor, list[int]]:
    """Points around (−2, −2) and (2, 2), of which a third has labels."""
    truth = [position % 2 for position in range(count)]
    points = torch.randn(count, 2, generator=torch.Generator().manual_seed(0)) * 0.3 + torch.tensor(truth)[:, None] * 4 - 2
    return points, [label if position < count // 3 else -1 for position, label in enumerate(truth)]


def hub_images(**columns: Any) -> datasets.Dataset:
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    made = datasets.Dataset.from_dict({"image": [picture(k) for k in range(4)], "label": [0, 1, -1, None]}, features=kinds)
    for name, cells in columns.items():
        made = made.add_column(name, cells)
    return made


def test_a_dataset_of_images_keeps_the_names_of_its_classes() -> None:
    opened = open_source(hub_images())
    records = opened.read()
    assert opened.kind == "image"
    assert records.labels == ["cat", "dog", None, None]


def test_a_dataset_of_images_in_files_of_the_user(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "one.png")
    files = datasets.Dataset.from_dict({"image": [str(tmp_path / "one.png")] * 2, "label": ["a", "b"]})
    assert open_source(files.cast_column("image", datasets.Image())).read().inputs == [tmp_path / "one.png"] * 2


def test_a_dataset_of_texts_and_numbers() -> None:
    texts = datasets.Dataset.from_dict({"text": ["one two", "three four", "five"], "label": [0, -1, 1]})
    opened = open_source(texts)
    assert (opened.kind, opened.read().labels) == ("text", ["0", None, "1"])
    numbers = open_source(datasets.Dataset.from_dict({"a": [0.5, 1.5], "b": [2, 3], "kind": ["x", None]}), Columns(label="kind"))
    assert (numbers.kind, numbers.read().labels) == ("table", ["x", None])


def test_the_test_split_of_a_dict_is_the_test_set() -> None:
    part = datasets.Dataset.from_dict({"a": [0.5, 1.5], "label": [0, 1]})
    opened = open_source(datasets.DatasetDict(train=part, test=part.select([1])))
    assert opened.test is not None
    assert opened.test.read().labels == ["1"]


def test_pairs_of_torch() -> None:
    points, labels = two_clouds()
    opened = open_source(TensorDataset(points, torch.tensor(labels)))
    assert opened.read().labels == [None if label < 0 else str(label) for label in labels]
    assert np.array_equal(np.asarray(opened.read().inputs), points.numpy())
    assert any("random transforms" in finding.text for finding in opened.findings)
    pictures = Pairs([(picture(0), 1), (picture(1), None), (picture(2), -1), (picture(3), 0)], ["cat", "dog"])
    found = open_source(Subset(pictures, [0, 1, 2])).read()
    assert (found.kind, found.labels) == ("image", ["dog", None, None])
    assert open_source(Pairs([("a text", "x"), ("another", None)])).read().labels == ["x", None]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Pairs([({"x": 1}, 0)]), "its items are dict. Give tensors"),
        (Pairs([(torch.zeros(2), 0), ("text", 1)]), "several types (Tensor, str)"),
        (Pairs([torch.zeros(2)]), "item 0 is of type Tensor. Each item must be a pair"),
        (TensorDataset(torch.zeros(3, 2)), "item 0 is a tuple of 1. Each item must be a pair"),
        (Pairs([(torch.zeros(2), torch.tensor([0.0, 1.0]))]), "argmax"),
        (Pairs([]), "there are no items"),
        (Pairs([(Path("notes.doc"), 0)]), "notes.doc is not called like an image"),
        (Subset(Pairs([(torch.zeros(2), 0)]), [5]), "item 0: IndexError"),
        (Stream(), "is a stream"),
        (DataLoader(TensorDataset(torch.zeros(3, 2))), "loader.dataset"),
        (hub_images().to_iterable_dataset(), "from_list(list(dataset)"),
        (hub_images(category=list("abcd")), "('label' or 'category')"),
        (hub_images().remove_columns("label"), "cannot tell which column holds the labels"),
        (polars.DataFrame({"a": [1.0]}).lazy(), "frame.collect()"),
    ],
)
def test_what_cannot_be_read_is_explained(source: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        open_source(source)
    assert said in str(refused.value)


def test_training_and_predicting(tmp_path: Path) -> None:
    points, labels = two_clouds()
    frame = polars.DataFrame(
        {"a": points[:, 0].numpy(), "b": points[:, 1].numpy(), "label": [k if k >= 0 else None for k in labels]}
    )
    rows = datasets.Dataset.from_dict({name: frame[name].to_list() for name in frame.columns})
    pairs = TensorDataset(points, torch.tensor(labels))
    for name, source in {"polars": frame, "rows": rows, "pairs": pairs}.items():
        result = softmatch.train(source, out=tmp_path / name, **QUICK)
        assert result.labels == 13
        assert softmatch.predict(result.run, source).known == 13
        fitted = softmatch.Classifier(steps=3).fit(source)
        assert list(fitted.classes_) == ["0", "1"]
        assert len(fitted.predict(source)) == len(points)
    beside = softmatch.Classifier(steps=3).fit(frame.drop("label"), frame["label"])
    assert beside.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(InputError, match="the dataset contains its labels"):
        softmatch.Classifier().fit(pairs, labels)
