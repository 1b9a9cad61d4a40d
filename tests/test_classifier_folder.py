"""A classifier as a folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from torch import nn

from softmatch.classifier import Classifier
from softmatch.runs.model import load_model
from tests import forked
from tests.refusals import refused

GENERATOR = np.random.default_rng(0)
IMAGES = np.concatenate([GENERATOR.integers(low, low + 90, (10, 8, 8)) for low in (0, 160)]).astype(np.uint8)
NAMES = np.array(["dark"] * 10 + ["light"] * 10)
Y: npt.NDArray[Any] = np.where(np.arange(20) % 5 == 0, NAMES, "")

LOAD = """
import sys, numpy as np, torch
from softmatch.classifier import Classifier
torch.set_num_threads(1)
np.save(sys.argv[3], Classifier.load(sys.argv[1]).predict_proba(np.load(sys.argv[2])))
"""


def fitted(**options: Any) -> Classifier:
    settings = {"steps": 4, "network": "small-conv-4", "labeled_batch": 8, "unlabeled_batch": 16, **options}
    return Classifier(**settings).fit(IMAGES, Y)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    torch.set_num_threads(1)
    return fitted(settings={"weight_decay": 0.0}, views={"flip": False}, random_state=3)


@pytest.fixture
def saved(classifier: Classifier, tmp_path: Path) -> Path:
    classifier.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_another_process_predicts_the_same_bit_for_bit(classifier: Classifier, saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    arguments = [str(saved), *(str(tmp_path / name) for name in ("images.npy", "probs.npy"))]
    done = forked.run(["-c", LOAD, *arguments], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (np.load(tmp_path / "probs.npy") == classifier.predict_proba(IMAGES)).all()


def test_a_loaded_classifier_is_as_it_was(classifier: Classifier, saved: Path, tmp_path: Path) -> None:
    loaded = Classifier.load(str(saved))
    assert loaded.get_params() == classifier.get_params()
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert loaded.predict(IMAGES).tolist() == classifier.predict(IMAGES).tolist()
    assert (loaded.method_, loaded.network_, loaded.n_iter_) == ("softmatch", "small-conv-4", 4)
    assert loaded.config_ == classifier.config_
    assert not hasattr(loaded, "transduction_")
    loaded.save(tmp_path / "again")
    assert (Classifier.load(tmp_path / "again").predict_proba(IMAGES) == classifier.predict_proba(IMAGES)).all()
    assert (loaded.fit(IMAGES, Y).predict_proba(IMAGES) == classifier.predict_proba(IMAGES)).all()
    model = load_model(saved)
    assert model.classes == ("dark", "light")
    assert model.samples is not None


@pytest.mark.parametrize("classes", [[5, 7], [False, True], [1.0, 2.0], ["ja", "nein ✓"]])
def test_classes_keep_their_type_and_frames_their_names(tmp_path: Path, classes: list[Any]) -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0] * 6, "b": ["x", "y"] * 6})
    classifier = Classifier(steps=4).fit(frame, np.array(classes * 6))
    classifier.save(tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved")
    assert loaded.classes_.tolist() == classes
    assert loaded.classes_.dtype == np.array(classes).dtype
    assert (loaded.predict_proba(frame) == classifier.predict_proba(frame)).all()
    assert loaded.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a"]])


def test_a_network_of_ones_own_is_given_again(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    classifier = fitted(network=network)
    classifier.save(tmp_path / "saved")
    refused("has a network of your own", Classifier.load, tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved", network=network)
    assert (loaded.predict_proba(IMAGES) == classifier.predict_proba(IMAGES)).all()
    assert loaded.network is network


def test_nothing_is_overwritten_and_nothing_half_written(
    classifier: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    refused("never overwritten", classifier.save, tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("softmatch.files.tensors.os.fsync", full)
    refused(r"cannot be saved in .*: No space left on device", classifier.save, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 9}, "has format 9; this version reads 1"),
        ({"dtype": "|O"}, "cannot have classes of type object"),
        ({"classes": ["a", ["b"]]}, "cannot be read: ValueError"),
        ({"config": {"steps": -1}}, "cannot be read: ValidationError"),
        ({"parameters": None}, "cannot be read: TypeError"),
    ],
)
def test_a_damaged_folder_is_reported(saved: Path, change: dict[str, Any], words: str) -> None:
    path = saved / "classifier.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(words, Classifier.load, saved)
    path.unlink()
    refused(r"has no classifier\.json", Classifier.load, saved)
