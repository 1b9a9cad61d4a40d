"""One network of a run: what is kept of it, and that it ends the same wherever its training was interrupted."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from softmatch.config import make_config
from softmatch.errors import InputError, Stopped
from softmatch.runs.folder import RunFolder
from softmatch.training import task as tasks
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint
from softmatch.training.fit import Curve, Fit, Fitted, Record, error_figures, fit
from softmatch.training.setup import build_method
from softmatch.training.stop import Stop, Stopping
from softmatch.training.task import Task
from tests.prepared import prepare

SETTINGS: dict[str, Any] = {
    "steps": 5,
    "evaluate_every": 2,
    "checkpoint_every": 3,
    "labeled_batch": 4,
    "unlabeled_batch": 4,
    "device": "cpu",
    "threads": 1,
}


class StopsAt(Stop):
    """As if a signal had come before it was asked about for the n-th time; 0: never."""

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.left = number
        self.asked = 0

    def check(self) -> None:
        self.asked += 1
        self.left -= 1
        if self.left == 0:
            raise Stopping


class Hears:
    """A watcher that remembers what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.records: list[int] = []

    def understood(self, task: Task, run: RunFolder) -> None:
        pass

    def record(self, role: str, record: Record, steps: int) -> None:
        self.records.append(record["step"])

    def note(self, text: str) -> None:
        self.notes.append(text)


def task_of(**settings: Any) -> Task:
    return prepare("two-moons", make_config({**SETTINGS, **settings}))


def trained(task: Task, folder: Path, stop: Stop | None = None, hears: Hears | None = None, keep: bool = True) -> Fitted:
    to = Fit(RunFolder(folder), task.config.method, hears, stop or StopsAt(), keep)
    with torch.random.fork_rng():
        return fit(task, build_method(task, task.config.method), to)


def left_by(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "model/model.safetensors", "boundary.json")}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Path, Fitted]:
    torch.set_num_threads(1)
    task, folder = task_of(), tmp_path_factory.mktemp("fitting")
    return task, folder, trained(task, folder)


@pytest.mark.parametrize(
    "settings",
    [{}, {"method": "crest+softmatch", "method_options": {"generations": 2}, "evaluate_every": 4}],
    ids=["softmatch", "crest, which predicts all samples between two steps"],
)
def test_a_signal_at_any_moment_changes_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    task, never, undisturbed = task_of(**settings), StopsAt(), Hears()
    whole = trained(task, tmp_path / "whole", never, undisturbed)
    assert never.asked >= 5 + len(undisturbed.records), "after each step, and while it predicts"
    for number in range(1, never.asked + 1):
        folder, hears = tmp_path / str(number), Hears()
        with pytest.raises(Stopped, match=rf"at step \d of 5 \({re.escape(task.config.method)}\)"):
            trained(task, folder, StopsAt(number), hears)
        fitted = trained(task, folder, hears=hears)
        assert left_by(folder) == left_by(tmp_path / "whole")
        assert torch.equal(fitted.probs, whole.probs)
        assert hears.records == undisturbed.records, "each record is made once"


def test_what_is_trained_already_is_not_trained_again(done: tuple[Task, Path, Fitted]) -> None:
    task, folder, fitted = done
    (folder / "metrics.jsonl").unlink()
    never = StopsAt()
    again = trained(task, folder, never)
    assert never.asked == 0
    assert torch.equal(again.probs, fitted.probs)
    assert again.judged == fitted.judged
    assert again.record["test_error"] == fitted.record["test_error"]
    assert (folder / "metrics.jsonl").read_bytes() == fitted.lines


def test_a_damaged_outcome_is_told_of_and_made_again(done: tuple[Task, Path, Fitted]) -> None:
    task, folder, fitted = done
    before, outcome, hears = left_by(folder), RunFolder(folder).outcome, Hears()
    outcome.write_bytes(outcome.read_bytes()[:-1])
    never = StopsAt()
    again = trained(task, folder, never, hears)
    assert never.asked == 0, "the last checkpoint is of the last step"
    assert torch.equal(again.probs, fitted.probs)
    assert left_by(folder) == before
    assert [f"{outcome} is damaged" in hears.notes[0], "resuming after step 5" in hears.notes[1]] == [True, True]


def test_checkpoints_that_are_all_damaged_let_training_begin_anew(tmp_path: Path, done: tuple[Task, Path, Fitted]) -> None:
    task, hears = done[0], Hears()
    with pytest.raises(Stopped):
        trained(task, tmp_path, StopsAt(6))
    saved = list_checkpoints(tmp_path / "checkpoints")
    for path in saved:
        path.write_bytes(b"")
    trained(task, tmp_path, hears=hears)
    told = [f"checkpoint {path} is damaged: it is empty." for path in reversed(saved)]
    assert [note.startswith(text) for note, text in zip(hears.notes, told, strict=True)] == [True] * len(saved)
    assert hears.records == [2, 4, 5]
    assert left_by(tmp_path) == left_by(done[1])


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        trained(task_of(), tmp_path, StopsAt(4))
    with pytest.raises(InputError, match=r"the checkpoint of step 3 in .* does not fit this run"):
        trained(task_of(method="flexmatch"), tmp_path)


def test_a_network_that_is_not_kept_leaves_its_figures(tmp_path: Path) -> None:
    fitted = trained(task_of(), tmp_path, keep=False)
    assert list(fitted.wrong) == [2, 4, 5]
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.jsonl", "outcome.safetensors"}


def test_a_checkpoint_has_everything(done: tuple[Task, Path, Fitted]) -> None:
    _, folder, fitted = done
    newest = load_checkpoint(list_checkpoints(folder / "checkpoints")[-1])
    assert newest.step == 5
    read = Fitted.read(newest.tensors, newest.notes)
    assert read.lines == fitted.lines == (folder / "metrics.jsonl").read_bytes()
    assert read.best == min(json.loads(line)["test_error"] for line in read.lines.splitlines())
    parts = {name.split(".")[0] for name in newest.tensors}
    assert parts == {"network", "average", "method", "optimizer", "rng", "meter", "probs", "records"}


def test_steps_keep_their_order_on_the_way_through_a_file() -> None:
    fitted = Fitted(
        torch.ones(1, 2),
        {"step": 10, "curve": [1]},
        {"quality": None},
        1.5,
        {2: torch.ones(1), 10: torch.zeros(1)},
        bytearray(b"a\n"),
        0.5,
    )
    tensors = dict(sorted(fitted.tensors().items()))  # 10 comes before 2
    read = Fitted.read(tensors, fitted.notes())
    assert list(read.wrong) == [2, 10]
    assert read.lines == b"a\n"
    assert replace(read, probs=fitted.probs, wrong=fitted.wrong) == replace(fitted, record={"step": 10})


def test_errors_of_each_class_and_of_all_folds() -> None:
    wrong, labels = torch.tensor([True, False, False, True]), torch.tensor([0, 0, 2, 2])
    assert error_figures(wrong, labels, 3) == {"test_error": 0.5, "test_samples": 4, "test_class_errors": [0.5, None, 0.5]}
    curve = Curve()
    curve.add(Fitted(torch.zeros(0), wrong={3: wrong}), labels)
    curve.add(Fitted(torch.zeros(0), wrong={3: torch.tensor([True])}), torch.tensor([1]))
    pooled = {"test_error": 0.6, "test_samples": 5, "test_class_errors": [0.5, 1.0, 0.5], "test_error_of": "the folds"}
    assert curve.figures(3, 3) == pooled
    assert curve.figures(4, 3) == {}


def test_a_large_test_set_is_predicted_once_and_the_curve_rests_on_some_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "CURVE_SAMPLES", 300)
    task = task_of()
    assert len(task.test[1]) == 1000
    assert task.curve is not None
    assert len(task.curve.unique()) == 300
    fitted = trained(task, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [record.get("test_error_of") for record in records] == ["300 test samples", "300 test samples", None]
    wrong = fitted.probs.argmax(-1) != task.test[1]
    assert records[-1]["test_error"] == float(wrong.double().mean())
    saved = load_checkpoint(list_checkpoints(tmp_path / "checkpoints")[-1])
    assert len(saved.tensors["probs"]) == 1000, "the last one"
    monkeypatch.setattr(tasks, "CURVE_SAMPLES", 500)
    assert task.curve is None, "half of it would save little"
