"""Recordings in a folder: checked, trained on, predicted, suggested, exported, and taken by the classifier."""

import base64
import csv
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import soundfile

import softmatch
from softmatch.errors import InputError
from softmatch.inference.export import export
from softmatch.inference.suggest import cold_start, suggest
from softmatch.report.run_contents import read
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from tests.recordings import tone, two_birds, write_sound

TINY = {"network": "series-8", "labeled_batch": 8, "unlabeled_batch": 12, "threads": 1}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_birds(tmp_path_factory.mktemp("birds") / "calls", 5, 30)


@pytest.fixture(scope="module")
def run(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    test = two_birds(folder / "test", 8, 0, seed=1)
    result = softmatch.train(source, test=test, out=folder / "run", steps=80, baseline=False, **TINY)
    assert result.test_error <= 0.25  # guessing: 0.5
    return folder / "run"


def test_predictions_of_a_folder_and_of_one_file(run: Path, tmp_path: Path) -> None:
    found = softmatch.predict(run, two_birds(tmp_path / "new", 8, 0, seed=2))
    assert found.known == 16
    assert found.error is not None
    assert found.error <= 0.3
    one = write_sound(tmp_path / "one.flac", tone(900, 0.3))
    single = softmatch.predict(run, one)
    assert single.samples == 1
    assert single.file is None


def test_the_report_plays_what_the_network_hears(run: Path) -> None:
    samples = read(RunFolder(run)).pictures["samples"]
    with BytesIO(base64.b64decode(samples[0]["sound"])) as file:
        wave, rate = soundfile.read(file)
    assert (len(wave), rate) == (2400, 8000)
    assert 0.2 < np.abs(wave).max() < 0.5
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "media-src data:" in page
    assert "Recordings to listen to" in page
    assert page.count('src="data:audio/wav;base64,') == len(samples)


def test_silent_classes_and_mixed_files_do_not_stop_a_run(tmp_path: Path) -> None:
    folder = two_birds(tmp_path / "calls", 4, 4)
    for number in range(4):
        write_sound(folder / "silence" / f"{number}.flac", np.zeros(2400))
    write_sound(folder / "unlabeled" / "hour.ogg", np.tile(tone(500, 1.0), 60))
    write_sound(folder / "unlabeled" / "one.wav", np.array([0.5]), 44_100)
    few = {**TINY, "folds": 2, "steps": 3, "evaluation": "crossfit"}
    result = softmatch.train(folder, out=tmp_path / "run", baseline=False, **few)
    assert result.test_error is not None
    assert softmatch.predict(tmp_path / "run", folder).known == 12


def test_a_bad_recording_has_a_row_with_the_reason(run: Path, tmp_path: Path) -> None:
    folder = two_birds(tmp_path / "new", 2, 0)
    (folder / "rising" / "bad.wav").write_text("no sound")
    found = softmatch.predict(run, folder)
    assert found.file is not None
    with found.file.open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert "bad.wav cannot be read" in rows["rising/bad.wav"]["problem"]
    assert not rows["rising/bad.wav"]["label"]
    assert sum(bool(row["label"]) for row in rows.values()) == 4


def test_what_comes_after_a_run(run: Path, source: Path, tmp_path: Path) -> None:
    assert load_model(run).predict([str(next(source.rglob("*.wav")))])[0] in ("rising", "falling")
    exported = export(run, "onnx")
    assert exported.difference < 1e-5
    assert "the spectrogram that the preparation makes" in exported.describe()
    assert suggest(run, 4, out=tmp_path / "more.csv")
    assert cold_start(source, 4, out=tmp_path / "first.csv")
    for name in ("more", "first"):
        assert len((tmp_path / f"{name}.csv").read_text().splitlines()) == 5


def test_images_are_refused_by_a_model_of_recordings(run: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 8)))
    with pytest.raises(InputError, match=r"arrays of numbers; the model of .* was trained on recordings \(spectrograms of"):
        softmatch.predict(run, tmp_path / "x.npz")


def test_the_classifier_takes_a_folder_and_files(source: Path) -> None:
    fitted = softmatch.Classifier(steps=3, network="series-8").fit(source)
    files = sorted(source.rglob("*.wav"))[:3]
    assert fitted.predict_proba([str(path) for path in files]).shape == (3, 2)
    with pytest.raises(InputError, match="fitted to sound files"):
        fitted.predict(np.zeros((2, 100)))


def test_the_library_that_is_missing_is_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"pip install 'softmatch\[audio\]'"):
        softmatch.train(source, steps=2, out=tmp_path / "run", **TINY)
