"""Every example runs, and does what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from softmatch.methods import Problem, build
from softmatch.training.job import train

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_no_example_is_left_out_or_too_long() -> None:
    paths = {path.name: path for path in EXAMPLES.glob("*.py")}
    assert set(paths) == {"own_loop.py", "my_weighting.py"}
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 100 for path in paths.values())


def test_own_loop_learns_the_moons(capsys: pytest.CaptureFixture[str]) -> None:
    error = runpy.run_path(str(EXAMPLES / "own_loop.py"))["main"](steps=600)
    assert "4 labels, 600 steps" in capsys.readouterr().out
    assert error < 0.5  # it ran and learned something; accuracy is measured in benchmarks/


def test_my_weighting_is_the_margin_and_trains(tmp_path: Path) -> None:
    method = build(f"{EXAMPLES / 'my_weighting.py'}:Margin", Problem(3), {"power": 2})
    weights = method.weighting(torch.tensor([[0.7, 0.2, 0.1]]))  # type: ignore[operator, union-attr]  # a Match
    assert float(weights) == pytest.approx(0.25)
    name = f"{EXAMPLES / 'my_weighting.py'}:Margin"
    result = train("digits", method=name, out=tmp_path / "run", steps=10, twin=False, threads=1, unlabeled_batch=16)
    assert result.quantity is not None
