"""Listeners hear a run from start to end; whatever they do, the run is the same and ends in time."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softmatch
from softmatch import Classifier, InputError, Listener, TrackedRun
from softmatch.cli.app import main
from softmatch.errors import STOPPED
from softmatch.training import tracking
from softmatch.training.trackers import find_listeners
from tests.cli.test_train import stop_after

FAST: dict[str, Any] = {
    "network": "mlp-8",
    "steps": 6,
    "evaluate_every": 2,
    "threads": 1,
    "labeled_batch": 8,
    "unlabeled_batch": 8,
}
OWN = """
import softmatch, pathlib, os
class Notes(softmatch.Listener):
    def say(self, text):
        with pathlib.Path(__file__).with_suffix(".txt").open("a") as file:
            file.write(text + "\\n")
    def start(self, run):
        self.say(f"start {run.group} {os.environ.get('RANK', '0')}")
    def record(self, record):
        self.say(f"{record['role']} {record['step']}")
    def end(self, result):
        self.say(f"end {result and result['steps']}")
"""
COURSE = [f"{role} {step}" for role in ("baseline", "softmatch") for step in (2, 4, 6)]


class Hears(Listener):
    """Remembers all calls; raises or hangs in one of the methods."""

    def __init__(self, fails_in: str = "", hangs_in: str = "", times: int = 99) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.fails_in, self.hangs_in, self.times, self.release = fails_in, hangs_in, times, threading.Event()

    def hear(self, method: str, argument: Any) -> None:
        self.calls.append((method, argument))
        if method == self.hangs_in:
            self.release.wait()
        if method == self.fails_in and self.times:
            self.times -= 1
            raise ConnectionError("the server is gone\nfor good")

    def start(self, run: TrackedRun) -> None:
        self.hear("start", run)

    def record(self, record: dict[str, Any]) -> None:
        self.hear("record", record)

    def end(self, result: dict[str, Any] | None) -> None:
        self.hear("end", result)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]


def run(out: Path, *listeners: Listener) -> softmatch.Result:
    return softmatch.train("two-moons", out=out, listeners=listeners, **FAST)


@pytest.fixture(scope="module")
def untracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("untracked") / "run").run


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.txt"


def test_a_listener_hears_settings_records_and_result(tmp_path: Path, untracked: Path) -> None:
    hears = Hears()
    run(tmp_path / "run", hears)
    (_, begun), *records, (_, result) = hears.calls
    assert hears.methods == ["start", *["record"] * 6, "end"]
    known = "run", "two-moons", tmp_path / "run", None, False
    assert (begun.name, begun.source, begun.folder, begun.group, begun.resumed) == known
    assert begun.settings["steps"] == 6
    assert [f"{record['role']} {record['step']}" for _, record in records] == COURSE
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    for name in ("metrics.jsonl", "model/model.safetensors"):  # being heard changes nothing
        assert (tmp_path / "run" / name).read_bytes() == (untracked / name).read_bytes()
    written = [json.loads(line) for line in (untracked / "metrics.jsonl").read_text().splitlines()]
    assert [record["test_error"] for _, record in records[3:]] == pytest.approx(
        [line["test_error"] for line in written], rel=1e-5
    )


@pytest.mark.parametrize("method", ["start", "record", "end"])
def test_a_listener_that_fails_is_reported_once_and_disturbs_nobody(
    method: str, tmp_path: Path, untracked: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fails, other = Hears(fails_in=method), Hears()
    run(tmp_path / "run", fails, other)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (untracked / "metrics.jsonl").read_bytes()
    said = [record.getMessage() for record in caplog.records if record.name == "softmatch"]
    assert said == [f"softmatch: Hears failed in {method}: ConnectionError: the server is gone. Training is not affected."]
    assert len(fails.calls) == {"start": 1, "record": 1 + tracking.MOST_FAILURES, "end": 8}[method]
    assert len(other.calls) == 8


def test_a_listener_that_recovers_is_called_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fails = Hears(fails_in="record", times=2)
    run(tmp_path / "run", fails)
    assert fails.methods == ["start", *["record"] * 6, "end"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("method", ["start", "record", "end"])
def test_a_listener_that_hangs_delays_nothing(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracking, "LONGEST_CALL", 0.3)
    hangs = Hears(hangs_in=method)
    assert run(tmp_path / "run", hangs).test_error is not None  # while it hangs
    assert hangs.methods[-1] == method
    assert [record.getMessage() for record in caplog.records] == [
        "softmatch: Hears does not answer, and is left alone. Training is not affected."
    ]
    hangs.release.set()


def test_waiting_for_a_slow_listener_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "LONGEST_END", 0.2)
    monkeypatch.setattr(tracking, "MOST_RECORDS", 1)
    hangs = Hears(hangs_in="record")
    run(tmp_path / "run", hangs)
    hangs.release.set()
    assert hangs.methods.count("record") < 6  # those that did not fit into the queue are left out


def test_a_run_that_fails_ends_with_none(tmp_path: Path) -> None:
    class Breaks:
        def understood(self, task: Any, run: Any) -> None: ...
        def note(self, text: str) -> None: ...
        def record(self, role: str, record: Any, steps: int) -> None:
            raise RuntimeError("broken")

    hears = Hears()
    with pytest.raises(RuntimeError, match="broken"):
        softmatch.train("two-moons", out=tmp_path / "run", listeners=[hears], watcher=Breaks(), **FAST)
    assert [hears.methods, hears.calls[-1]] == [["start", "end"], ("end", None)]


def test_a_classifier_has_listeners(caplog: pytest.LogCaptureFixture) -> None:
    hears, fails = Hears(), Hears(fails_in="start")
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    y = np.where(np.arange(40) < 10, (x[:, 0] > 0).astype(int), -1)
    fitted = Classifier(steps=4, labeled_batch=4, unlabeled_batch=8, listeners=[hears, fails]).fit(x, y)
    assert hears.methods == ["start", *["record"] * len(fitted.history_), "end"]
    assert hears.calls[0][1].folder is None
    assert hears.calls[-1][1] == {"method": "softmatch", "network": fitted.network_, "steps": 4}
    assert len(caplog.records) == 1
    with pytest.raises(InputError, match="no tracker 'tensorbord'"):
        Classifier(listeners=["tensorbord"]).fit(x, y)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorbord", "there is no tracker 'tensorbord'. Did you mean 'tensorboard'?"),
        ("photos/", "there is no tracker 'photos/'. Known: mlflow, tensorboard, trackio, wandb."),
        ("own.py:Nots", "own.py has no 'Nots'. Did you mean 'Notes'?"),
        ("own.py:os", "own.py:os is not a listener: it has no method start."),
    ],
)
def test_a_wrong_name_is_explained_before_anything_is_read(
    name: str, message: str, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(own.parent)
    assert main(["train", "no-such-source", "--track", name]) == 2
    assert message in capsys.readouterr().err


def test_an_object_without_the_methods_is_refused() -> None:
    with pytest.raises(InputError, match=r"int is not a listener: it has no method start\. Inherit from softmatch\.Listener\."):
        find_listeners([3])  # type: ignore[list-item]  # the mistake
    assert list(find_listeners([Hears(), Hears()])) == ["Hears", "Hears 2"]


SHORT = [f"--{key.replace('_', '-')}={value}" for key, value in FAST.items()]


def test_own_listeners_on_the_command_line_and_only_in_the_first_process(own: Path) -> None:
    listener = f"{own.with_suffix('.py')}:Notes"
    arguments = ["train", "two-moons", *SHORT, "--out", str(own.parent / "run"), "--quiet", "--processes=2"]
    assert main([*arguments, "--track", listener, listener, "--track-group", "mine"]) == 0
    assert own.read_text().splitlines() == ["start mine 0", *COURSE, "end 6"]


def test_a_stopped_run_says_how_to_resume_with_its_listeners(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listener, out = f"{own.with_suffix('.py')}:Notes", own.parent / "run"
    stop_after(5, monkeypatch)
    assert main(["train", "two-moons", *SHORT, "--out", str(out), "--no-baseline", "--track", listener]) == STOPPED
    assert capsys.readouterr().err.rstrip().endswith(f"softmatch train --resume {out} --track {listener}")
    assert main(["train", "--resume", str(out), "--track", listener]) == 0
    assert own.read_text().splitlines() == ["start None 0", *COURSE[3:5], "end None", "start None 0", COURSE[5], "end 6"]


def test_the_runs_of_a_comparison_are_a_group(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own.parent)
    methods = ["--methods=supervised,softmatch", "--seeds=1", "--parallel-runs=1"]
    assert main(["compare", "two-moons", *methods, *SHORT, "--name=two", "--quiet", "--track", "own.py:Notes"]) == 0
    assert [line for line in own.read_text().splitlines() if line.startswith("start")] == ["start two 0"] * 2
