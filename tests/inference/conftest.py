"""Small finished runs, made once: of the embedded digits, of a table of texts, of a table of numbers, of a folder of images."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits, load_wine

import softmatch
from softmatch.data.cells import unguarded
from tests.own.sources import write_csv

QUICK = {"baseline": False, "labeled_batch": 16, "unlabeled_batch": 32, "evaluation": "none", "device": "cpu"}
WORDS = {
    "animals": ("cat", "dog", "horse", "cow", "pet", "fur", "tail", "paw"),
    "food, drink": ("bread", "cheese", "apple", "soup", "eat", "cook", "taste", "dinner"),
    "travel": ("train", "plane", "ticket", "hotel", "trip", "road", "map", "city"),
}


def read_csv(path: Path) -> list[dict[str, str]]:
    """A table that was written, read back."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: unguarded(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("digits") / "run"
    settings = {key: value for key, value in QUICK.items() if key != "evaluation"}
    softmatch.train("digits", steps=60, labels=40, network="small-conv-4", evaluate_every=60, out=run, **settings)
    return run


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """texts.csv, of which 30 of 90 rows have a label, and run/."""
    torch.set_num_threads(1)
    folder, drawn = tmp_path_factory.mktemp("texts"), random.Random(0)
    rows = []
    for number in range(90):
        label = drawn.choice(list(WORDS))
        rows.append((" ".join(drawn.choices(WORDS[label], k=6)), label if number < 30 else ""))
    write_csv(folder / "texts.csv", rows, ["text", "label"])
    softmatch.train(str(folder / "texts.csv"), steps=80, out=folder / "run", **QUICK)
    return folder


@pytest.fixture(scope="session")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """wine.csv, of which every sixth row has a label, truth.csv with all of them, and run/."""
    torch.set_num_threads(1)
    folder, wine = tmp_path_factory.mktemp("table"), load_wine()
    header = [*(name.replace("/", "_") for name in wine.feature_names), "grade"]
    rows = [(*values, f"g{label}") for values, label in zip(wine.data.tolist(), wine.target.tolist(), strict=True)]
    write_csv(folder / "truth.csv", rows, header)
    write_csv(folder / "wine.csv", [row if k % 6 == 0 else (*row[:-1], "") for k, row in enumerate(rows)], header)
    softmatch.train(str(folder / "wine.csv"), label_column="grade", steps=80, out=folder / "run", **QUICK)
    return folder


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """images/, with names that are hard on a CSV, and run/."""
    torch.set_num_threads(1)
    folder, digits = tmp_path_factory.mktemp("images"), load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images[:80], digits.target[:80], strict=True)):
        place = folder / "images" / (f'=a "{label % 2}", b' if number < 30 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15.9).astype(np.uint8)).save(place / f'{number}, "q"\n😀.png')
    softmatch.train(str(folder / "images"), steps=3, network="small-conv-4", out=folder / "run", **QUICK)
    return folder
