"""Every example runs, and does what it says."""

import os
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.distributed.launching import free_port
from softmatch.methods import Problem, build
from softmatch.training.job import train
from tests.forked import Forked

EXAMPLES = Path(__file__).parents[2] / "examples"
FRAMEWORKS = ("accelerate_loop", "accumulate", "fsdp_loop", "hf_trainer", "lightning_loop", "ray_train")
"""Run by test_frameworks.py."""


def test_no_example_is_left_out_or_too_long() -> None:
    paths = {path.name: path for path in EXAMPLES.glob("*.py")}
    exported = {"onnx_images.py", "onnx_texts.py"}  # run by tests/inference/test_export_encoders.py
    frameworks = {f"{name}.py" for name in FRAMEWORKS}
    assert set(paths) == {
        "classifier.py",
        "my_weighting.py",
        "own_listener.py",
        "own_loop.py",
        "own_modality.py",
        "own_translator.py",
        "plain_loop.py",
        *exported,
        *frameworks,
    }
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 100 for path in paths.values())


def test_own_loop_learns_the_moons(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    error = runpy.run_path(str(EXAMPLES / "own_loop.py"))["main"](steps=600)
    assert "4 labels, 600 steps" in capsys.readouterr().out
    assert error < 0.5  # it ran and learned something; accuracy is measured in benchmarks/


def test_plain_loop_learns_digits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    error = runpy.run_path(str(EXAMPLES / "plain_loop.py"))["main"](steps=120)
    assert f"40 labels, 120 steps, 1 process(es): {100 * error:.1f} % of 1,797 wrong" in capsys.readouterr().out
    assert error < 0.6  # guessing is wrong nine times in ten


@pytest.mark.parametrize("name", ["own_loop", "plain_loop"])
def test_a_loop_runs_under_ddp_in_two_processes(name: str, tmp_path: Path) -> None:
    """own_loop has batch normalisation, plain_loop has none: there both processes end with the same network."""
    code = f"import runpy; print(runpy.run_path({str(EXAMPLES / name)!r} + '.py')['main'](steps=3))"
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [{**os.environ, **meeting, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [Forked(["-c", code], tmp_path, environment) for environment in ranks]
    outputs = [process.communicate(timeout=600)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert "labels, 3 steps" in outputs[0][0]
    assert len(outputs[1]) == 1  # the first process alone reports
    assert name == "own_loop" or outputs[0][-1] == outputs[1][-1]


def test_classifier_fits_predicts_and_comes_back_from_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    error = runpy.run_path(str(EXAMPLES / "classifier.py"))["main"](steps=40)
    assert f"40 labels: {100 * error:.1f} % of the test digits wrong" in capsys.readouterr().out
    assert error < 0.6


def test_my_weighting_is_the_margin_and_trains(tmp_path: Path) -> None:
    name = f"{EXAMPLES / 'my_weighting.py'}:Margin"
    method = build(name, Problem(3), {"power": 2})
    weights = method.weighting(torch.tensor([[0.7, 0.2, 0.1]]))  # type: ignore[operator, union-attr]  # a Match
    assert float(weights) == pytest.approx(0.25)
    result = train("digits", method=name, out=tmp_path / "run", steps=10, baseline=False, threads=1, unlabeled_batch=16)
    assert result.quantity is not None


def test_own_listener_writes_the_errors(tmp_path: Path) -> None:
    listener = runpy.run_path(str(EXAMPLES / "own_listener.py"))["ErrorTable"](tmp_path / "errors.csv")
    settings: dict[str, Any] = {"steps": 4, "evaluate_every": 2, "threads": 1, "labeled_batch": 8, "unlabeled_batch": 8}
    result = train("digits", out=tmp_path / "run", listeners=[listener], baseline=False, **settings)
    rows = (tmp_path / "errors.csv").read_text().splitlines()
    assert rows[0] == "run,network,step,error"
    assert [row.rpartition(",")[0] for row in rows[1:]] == ["run,softmatch,2", "run,softmatch,4", "run,final,4"]
    assert float(rows[-1].rpartition(",")[2]) == result.test_error


def test_own_modality_trains_and_predicts_with_its_own_views(tmp_path: Path) -> None:
    errors = runpy.run_path(str(EXAMPLES / "own_modality.py"))["main"](tmp_path, steps=10)
    assert set(errors) == {"softmatch", "labels alone"}
    rows = (tmp_path / "new.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("name,label,confidence,p_early,p_normal,p_wide")
    assert len(rows) == 1501
