"""Tests of the learning curve: its statistics, a curve of a real run, and what is refused."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import softmatch
from softmatch import InputError, learning_curve
from softmatch.cli.app import main
from softmatch.runs.folder import RunFolder
from softmatch.training.learning_curve import Trained, extrapolate
from softmatch.training.loop import Record
from softmatch.training.task import Task
from tests import forked
from tests.forked import Forked


def trainings(errors: dict[int, float], tested: int, times: int = 4) -> list[Trained]:
    """Trainings with exactly these errors."""
    each = enumerate(errors.items(), 1)
    return [Trained(parts, labels, round(error * tested), tested) for parts, (labels, error) in each for _ in range(times)]


def test_a_power_law_is_continued() -> None:
    errors = {n: 2.0 * n**-0.5 for n in (100, 200, 300, 400)}
    points, exponent, (low, high) = extrapolate(trainings(errors, 100_000), [800, 1600], 100_000)
    assert exponent == pytest.approx(0.5, abs=0.01)
    assert low <= 0.5 <= high
    assert [p.error for p in points] == pytest.approx([2.0 * 800**-0.5, 0.05], rel=0.02)
    assert all(p.interval[0] < p.error < p.interval[1] for p in points)


def test_few_tested_samples_give_a_wide_interval() -> None:
    errors = {10: 0.3, 20: 0.2, 30: 0.15, 40: 0.15}
    wide, narrow = (extrapolate(trainings(errors, tested), [80], tested)[0][0].interval for tested in (40, 4000))
    assert wide[1] - wide[0] > 4 * (narrow[1] - narrow[0])


def test_a_rising_error_is_not_continued() -> None:
    points, exponent, (low, high) = extrapolate(trainings({10: 0.1, 20: 0.15, 30: 0.2}, 1000), [60], 1000)
    assert exponent == 0.0
    assert low < high < 0
    assert 0.1 < points[0].error < 0.2


def test_few_samples_leave_the_usual_slope() -> None:
    """With 12 tested samples, a rise from 3 to 4 wrong ones is chance: the prediction is not above what was measured."""
    points, exponent, (low, high) = extrapolate(trainings({10: 3 / 12, 20: 3 / 12, 30: 4 / 12}, 12, 1), [60], 12)
    assert low < 0 < high
    assert 0 < exponent < 0.5
    assert points[0].error < 3 / 12


def test_no_error_at_all() -> None:
    (point,), _, _ = extrapolate(trainings({10: 0.0, 20: 0.0, 30: 0.0}, 40), [60], 40)
    assert 0 < point.error < 0.05
    assert point.interval[1] < 0.5


def test_the_spread_between_trainings_counts() -> None:
    same = [Trained(1, 10, 300, 1000)] * 4 + [Trained(2, 20, 200, 1000)] * 4
    apart = [Trained(1, 10, w, 1000) for w in (150, 250, 350, 450)] + [Trained(2, 20, w, 1000) for w in (100, 150, 250, 300)]
    widths = [np.ptp(extrapolate(found, [40], 1000)[0][0].interval) for found in (same, apart)]
    assert widths[1] > 2 * widths[0]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as arrays, four labels of each class."""
    digits, generator = load_digits(), np.random.default_rng(0)
    labels = np.full(600, -1)
    for label in range(10):
        labels[generator.permutation(np.flatnonzero(digits.target[:600] == label))[:4]] = label
    path = tmp_path_factory.mktemp("curve") / "digits.npz"
    np.savez(path, X=digits.data[:600].astype("float32"), y=labels)
    return path


@pytest.fixture(scope="module")
def run(table: Path) -> Path:
    return softmatch.train(table, out=table.parent / "run", steps=20, evaluation="crossfit", folds=2, threads=1).run


class Watched:
    """Listener that remembers which networks were trained."""

    def __init__(self) -> None:
        self.roles = set[str]()

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None:
        self.roles.add(role)

    def note(self, text: str) -> None: ...


def command(*words: object) -> list[str]:
    return ["-m", "softmatch", *map(str, words)]


def test_a_curve_that_is_killed_goes_on(table: Path, run: Path) -> None:
    """The command is killed after some trainings, and repeated: those are not trained again, nor is the run."""
    asked = command(
        "curve", table, "--out", run, *["--steps", "20", "--evaluation", "crossfit", "--folds", "2", "--threads", "1"]
    )
    process = Forked(asked, run)
    third = run / "curve" / "3" / "outcome.safetensors"
    while process.poll() is None and not third.exists():
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert third.exists()
    assert not (run / "curve.json").exists()
    watched = Watched()
    curve = learning_curve(run, watcher=watched)
    assert {"1/12 with 10", "2/12 with 10", "3/12 with 10"}.isdisjoint(watched.roles)
    assert "12/12 with 30" in watched.roles
    assert [point.trainings for point in curve.measured] == [4, 4, 4, 1]
    assert not (run / "curve").exists()
    found = json.loads((run / "curve.json").read_text())
    assert found["verdict"] == curve.verdict
    assert len(found["predicted"]) == 2
    page = (run / "report.html").read_text()
    assert "Would more labels help?" in page
    assert "predicted" in page
    assert curve.verdict in curve.describe()


def test_the_curve_has_its_own_test_samples(table: Path) -> None:
    """With hidden labels, all trainings are measured on the same held-out samples, and the parts left out stay unlabelled."""
    digits = load_digits()
    source = (digits.data[:500].astype("float32"), digits.target[:500])
    result = softmatch.train(source, labels=40, out=table.parent / "hidden", steps=10, threads=1)
    curve = learning_curve(result.run, source)
    assert [point.labels for point in curve.measured] == [10, 20, 30, 40]
    assert f"{result.test_samples} held-out" in curve.tested


def test_what_is_refused(run: Path, table: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a finished run"):
        learning_curve(tmp_path)
    moved = tmp_path / "other.npz"
    found = np.load(table)
    labels = found["y"].copy()
    labels[np.flatnonzero(labels >= 0)[0]] = -1
    np.savez(moved, X=found["X"], y=labels)
    with pytest.raises(InputError, match="have changed"):
        learning_curve(run, moved)
    options = ["--out", tmp_path / "unmeasured", *["--steps", "2", "--evaluation", "none", "--threads", "1"]]
    asked = forked.run(command("curve", table, *options), tmp_path)  # which trains first
    assert asked.returncode == 2
    assert "was not measured" in asked.stderr
    assert "Traceback" not in asked.stderr
    assert (tmp_path / "unmeasured" / "result.json").is_file()


def test_options_that_do_not_go_together(run: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", str(run), "--steps", "3"]) == 2
    assert "keeps its own settings: leave out --steps" in capsys.readouterr().err
    assert main(["curve", str(table), str(table)]) == 2
    assert "is not a run folder" in capsys.readouterr().err
