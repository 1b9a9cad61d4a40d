"""Series from a file: every method trains on them; the model predicts, comes back from its folder, and leaves for ONNX."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import softmatch
from softmatch.inference.export import export
from softmatch.runs.model import load_model

TINY = {"network": "series-8", "labeled_batch": 6, "unlabeled_batch": 12}
METHODS = ("softmatch", "flexmatch", "freematch", "mixmatch", "vat", "mean_teacher", "comatch", "simmatch", "cgmatch")


def waves(number: int, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]:
    """Two channels of 32 values; slow, middle and fast waves with random phases."""
    drawn = np.random.default_rng(seed)
    kinds, phase = np.arange(number) % 3, drawn.uniform(0, 2 * np.pi, (number, 1, 1))
    turns = (2 + 3 * kinds)[:, None, None] * np.array([1.0, 0.5])[:, None]
    series = np.sin(2 * np.pi * turns * np.arange(32) / 32 + phase) + 0.1 * drawn.normal(size=(number, 2, 32))
    return series.astype(np.float32), np.array(["slow", "middle", "fast"])[kinds]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("waves") / "waves.npz"
    (x, y), (x_test, y_test) = waves(90), waves(60, 1)
    np.savez(path, x=x, y=np.where(np.arange(90) < 15, y, ""), x_test=x_test, y_test=y_test)
    return path


def test_a_run_and_what_comes_after_it(source: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = softmatch.train(source, out=run, steps=80, threads=1, **TINY)
    assert result.test_error < 0.3  # guessing: 0.67
    assert json.loads((run / "model" / "model.json").read_text())["preparation"]["layout"] == "ct"
    x, y = waves(30, 2)
    model = load_model(run)
    assert model.shape == (2, 32)
    np.savez(tmp_path / "new.npz", x=x, y=y)
    found = softmatch.predict(run, tmp_path / "new.npz")
    assert found.known == 30
    assert found.error is not None
    assert found.error < 0.4
    exported = export(run, "onnx")
    assert exported.difference < 1e-5
    assert "series of 32 values in 2 channels" in exported.describe()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains(name: str, source: Path, tmp_path: Path) -> None:
    result = softmatch.train(source, method=name, out=tmp_path / "run", steps=2, baseline=False, threads=1, **TINY)
    assert result.steps == 2


def test_the_classifier_takes_series() -> None:
    x, y = waves(60)
    known = np.where(np.arange(60) < 12, y, "")
    fitted = softmatch.Classifier(steps=60, **TINY).fit(x, known)
    assert np.mean(fitted.predict(x) == y) > 0.6
    flat = softmatch.Classifier(steps=3, settings={"arrays": "series"}, **TINY).fit(x[:, 0], known)
    assert flat.predict_proba(x[:, 0]).shape == (60, 3)
