"""A source and a few words about it become a job with all its settings."""

from pathlib import Path

import numpy as np
import pytest

from softmatch.errors import InputError
from softmatch.training.opening import open_job
from tests.own.sources import blobs, texts
from tests.prepared import prepare


def test_a_named_source_keeps_its_settings() -> None:
    job = open_job("digits", {"labels": 20})
    assert (job.source, job.name, job.config.labels, job.config.unlabeled_batch) == ("digits", "digits", 20, 96)


def test_own_data_get_settings_by_size_and_the_user_wins(tmp_path: Path) -> None:
    job = open_job(str(blobs(tmp_path / "my data.csv")), {"steps": 7, "views": {"swap": 0.5}})
    assert job.source == str(tmp_path / "my data.csv")
    assert job.name == "my-data"
    assert (job.config.network, job.config.steps) == ("mlp-64", 7)
    assert job.config.views == {"weak_noise": 0.1, "strong_noise": 0.5, "swap": 0.5}


def test_paths_are_kept_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs(tmp_path / "a.csv")
    blobs(tmp_path / "b.csv", 10, 0, seed=1)
    monkeypatch.chdir(tmp_path)
    job = open_job("a.csv", {"test": "b.csv"})
    assert job.source == str(tmp_path / "a.csv")
    assert job.config.test == tmp_path / "b.csv"


def test_a_run_can_be_prepared_again_from_its_settings(tmp_path: Path) -> None:
    job = open_job(str(texts(tmp_path / "t.csv")), {"steps": 5})
    task = prepare(job.source, job.config)
    assert job.config.precision == "auto"
    assert task.config == job.config.model_copy(update={"precision": "float32"})
    assert task.examples.names == job.examples.names
    assert len(task.evaluation.folds) == 5


def test_arrays_are_a_source() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    job = open_job((x, [0, 1] * 10 + [-1] * 20))
    assert job.examples.classes == ("0", "1")
    assert job.config.network == "mlp-64"


def test_all_labelled_trains_supervised_unless_told_otherwise(tmp_path: Path) -> None:
    path = str(blobs(tmp_path / "t.csv", 40, 0))
    assert open_job(path).config.method == "supervised"
    assert open_job(path, {"method": "fixmatch"}).config.method == "fixmatch"
    assert open_job(path, {"labels": 10}).config.method == "softmatch"


def test_what_is_there_already_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    with pytest.raises(InputError, match="never overwritten"):
        open_job(str(tmp_path / "not there.csv"), {"out": tmp_path / "run"})


OPTIONS: list[dict[str, object]] = [
    {"label": "x"},
    {"encoder": "x"},
    {"image_size": 32},
    {"test": "x.csv"},
    {"tune": "all"},
    {"evaluation": "none"},
    {"folds": 3},
]


@pytest.mark.parametrize("option", OPTIONS)
def test_options_for_own_data_are_refused_elsewhere(option: dict[str, object]) -> None:
    with pytest.raises(InputError, match="is for data of your own"):
        open_job("digits", option)


def test_a_wrong_value_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="steps"):
        open_job(str(tmp_path / "not there"), {"steps": 0})
