"""Runs that end before their time go on as if nothing had happened; what must not go on is refused before anything is run."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
import torch

import softmatch
from benchmarks.fault_injection import Case, Damage, Endurance, Fault, Strike, Tally, warm_up
from softmatch.config import read_file
from softmatch.errors import InputError, TrainingError
from softmatch.runs import folder as runs
from softmatch.runs.folder import RunFolder, refuse_used
from softmatch.training import arithmetic
from softmatch.training.checkpoint import list_checkpoints
from softmatch.training.fit import Record
from softmatch.training.task import Task
from tests.own.sources import blobs

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # its copies use one

TINY: dict[str, Any] = {
    "steps": 8,
    "evaluate_every": 3,
    "checkpoint_every": 2,
    "labeled_batch": 8,
    "unlabeled_batch": 8,
    "device": "cpu",
    "threads": 1,
    "baseline": False,
}
DIGITS: dict[str, Any] = {**TINY, "labels": 20, "network": "mlp"}
LOW = {"threshold": 0.2}
FAMILIES: dict[str, dict[str, Any]] = {
    "softmatch": {},
    "flexmatch": LOW,
    "temporal_ensembling": {},
    "mixmatch": {},
    "comatch": {**LOW, "memory": 2, "graph_threshold": 0.1},
    "meta_pseudo_labels": {**LOW, "finetune": 0.3},
    "semireward": {"warmup": 2, "every": 2, "base_options": LOW},
    "crest+softmatch": {"generations": 3},
    "influence": {"every": 2, "base_options": LOW},
    "adamatch": {},
    "darp+freematch": {"warmup": 0.0, "every": 3},
    "supervised": {},
}
"""A method of each family, with options that let all of it set in within the first steps."""
SOFTMATCH = Case("softmatch", "digits", {**DIGITS, "method": "softmatch", "method_options": {}})


@pytest.fixture(scope="module")
def endurance(tmp_path_factory: pytest.TempPathFactory) -> Endurance:
    warm_up()
    return Endurance(tmp_path_factory.mktemp("endurance"), Random(0))


def killed_at(*steps: int) -> Fault:
    """The first process is killed after the first of these numbers of its steps, the next after the second …"""
    left = list(steps)
    return Fault(lambda chance, reference: Strike(SIGKILL, count=left.pop(0)))


def assert_endured(tally: Tally, faults: int) -> None:
    assert tally.problems == []
    assert (tally.runs, tally.faults, tally.lost, tally.mismatches, tally.unclean) == (1, faults, 0, 0, 0)


@pytest.mark.parametrize("method", FAMILIES)
def test_a_killed_run_of_every_family_ends_as_if_nothing_had_happened(endurance: Endurance, method: str) -> None:
    case, tally = Case(method, "digits", {**DIGITS, "method": method, "method_options": FAMILIES[method]}), Tally()
    at = Random(method).randint(5, 8)  # the checkpoint of step 2 is whole then; later ones may be on their way
    ends = endurance.endure(case, killed_at(at), tally, 1)
    assert_endured(tally, 1)
    assert ends[0].steps == at
    assert ends[1].steps <= 6, "it did not begin anew"


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "fp16", "clip": 1.0, "optimizer": "adamw", "lr": 1.0},  # so high that the scale of the loss must change
        {"precision": "bf16", "network": "wrn-10-1", "averages": "paper"},
    ],
    ids=["fp16 and adamw", "bf16 and batch normalisation"],
)
def test_other_ways_to_train_are_resumed_as_exactly(endurance: Endurance, settings: dict[str, Any]) -> None:
    tally = Tally()
    endurance.endure(Case(str(settings), "digits", {**DIGITS, **settings}), killed_at(5), tally, 1)
    assert_endured(tally, 1)


def test_a_cross_fit_with_twins_is_killed_in_each_of_its_parts(endurance: Endurance, tmp_path: Path) -> None:
    source = blobs(tmp_path / "table.csv", labeled=20, unlabeled=20)
    few = {"steps": 5, "baseline": True, "evaluation": "crossfit", "folds": 2}
    case, tally = Case("cross-fit", str(source), {**TINY, **few}), Tally()
    ends = endurance.endure(case, killed_at(3, 7, 12), tally, 3)
    assert_endured(tally, 3)
    assert [end.steps for end in ends[:3]] == [3, 7, 12]
    assert ends[3].steps <= 10, "of 25; what was trained before the last but one checkpoint is not trained again"


def _newest(way: Callable[[bytearray], bytes]) -> Damage:
    def damage(chance: Random, out: Path) -> str:
        newest = list_checkpoints(out / "checkpoints")[-1]
        newest.write_bytes(way(bytearray(newest.read_bytes())))
        return f"checkpoint {newest} is damaged"

    return damage


def _flipped(content: bytearray) -> bytes:
    content[len(content) // 2] ^= 1
    return content


def _torn_metrics(chance: Random, out: Path) -> str:
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')
    return "resuming after step 5"


def _cut_metrics(chance: Random, out: Path) -> str:
    (out / "metrics.jsonl").write_bytes((out / "metrics.jsonl").read_bytes()[:20])
    (out / ".result.json.0123abcd").write_bytes(b"half of")  # left behind
    return "resuming after step 5"


@pytest.mark.parametrize(
    ("damage", "done"),
    [(_newest(lambda content: content[:-1]), 4), (_newest(_flipped), 4), (_torn_metrics, 3), (_cut_metrics, 3)],
    ids=["cut", "changed", "torn metrics", "cut metrics"],
)
def test_damaged_files_are_told_of_and_the_ones_before_are_used(endurance: Endurance, damage: Damage, done: int) -> None:
    fault, tally = Fault(lambda chance, reference: Strike(SIGTERM, count=5), damage), Tally()
    ends = endurance.endure(SOFTMATCH, fault, tally, 1)
    assert_endured(tally, 2)
    assert ends[1].steps == done


def test_a_full_disk_ends_a_run_that_goes_on_when_there_is_room(endurance: Endurance) -> None:
    fault, tally = Fault(lambda chance, reference: Strike(file_size=5000, count=5)), Tally()
    full, done = endurance.endure(SOFTMATCH, fault, tally, 1)
    assert_endured(tally, 1)
    assert full.code == 1
    assert "File too large" in full.said
    assert "The files of the run so far are kept" in full.said
    assert done.steps < 8


FULL = OSError(28, "No space left on device")


class Broken(Exception):  # noqa: N818  # what the run is
    """Ends a run."""


class Breaks:
    """A watcher that ends the run with its first record."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error or Broken()

    def understood(self, task: Task, run: RunFolder) -> None: ...

    def note(self, text: str) -> None: ...

    def record(self, role: str, record: Record, steps: int) -> None:
        raise self.error


def broken(source: Any, out: Path | None, **settings: Any) -> None:
    with pytest.raises(Broken):
        softmatch.train(source, out=out, watcher=Breaks(), **{**TINY, **settings})


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended at its third step, after the checkpoint of its second."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("begun") / "run"
    broken("two-moons", folder)
    return folder


@pytest.fixture
def run(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "run"))


def refused(match: str, folder: Path, **given: Any) -> None:
    """Nothing in the folder has changed either."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=match):
        softmatch.train(resume=folder, **given)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_other_settings_are_refused(run: Path) -> None:
    refused("steps is 8 in .*, not 9", run, steps=9)
    refused("method is 'softmatch' in .*, not 'fixmatch'", run, method="fixmatch")
    refused("unknown setting 'stepps'", run, stepps=8)


def test_what_decides_nothing_may_differ_and_a_finished_run_is_refused(run: Path, tmp_path: Path) -> None:
    result = softmatch.train(resume=run, checkpoint_every=5, steps=8)
    assert result.run == run
    whole = softmatch.train("two-moons", out=tmp_path / "whole", **TINY)
    assert (run / "model" / "model.safetensors").read_bytes() == (whole.run / "model" / "model.safetensors").read_bytes()
    assert (run / "metrics.jsonl").read_bytes() == (whole.run / "metrics.jsonl").read_bytes()
    refused("is finished", run)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    refused("no config.yaml", tmp_path)
    (tmp_path / "config.yaml").write_text("steps: 3\n")
    refused("needs a source", tmp_path)
    (tmp_path / "config.yaml").write_text("source: [digits]\nsteps: 3\n")
    refused("needs a source", tmp_path)


def test_code_that_a_run_folder_names_is_not_run(run: Path, tmp_path: Path) -> None:
    canary, code = tmp_path / "canary", tmp_path / "mine.py"
    code.write_text(f"open({str(canary)!r}, 'w')\n")
    written = (run / "config.yaml").read_text()
    for key, old, new in (
        ("method", "method: softmatch", f"method: {code}:Mine"),
        ("method", "method: softmatch", f"method: saw+{code}:Mine"),
        ("method", "method_options: {}", f"method_options: {{base: '{code}:Mine'}}"),
        ("network", "network: auto", f"network: {code}:Mine"),
    ):
        assert old in written
        (run / "config.yaml").write_text(written.replace(old, new))
        refused(f"code of your own, {code}:Mine, which is run only if you name it: add --{key}", run)
    assert not canary.exists()


def test_code_of_ones_own_is_run_when_it_is_named_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from softmatch import Weighting\n\n\nclass Root(Weighting):\n"
        "    def forward(self, probs, pseudo_labels=None):\n        return probs.max(-1).values.sqrt()\n"
    )
    method = f"{tmp_path}/mine.py:Root"
    broken("two-moons", tmp_path / "run", method=method)
    refused("add --method", tmp_path / "run")
    assert softmatch.train(resume=tmp_path / "run", method=method).method == method


def test_a_folder_with_a_link_in_it_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run / "model").symlink_to(tmp_path / "elsewhere")
    refused("model is a link", run)
    with pytest.raises(InputError, match="model is a link"):
        softmatch.train("two-moons", out=run, resume="auto", **TINY)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_data_that_have_changed_are_refused(tmp_path: Path) -> None:
    source = blobs(tmp_path / "table.csv")
    broken(source, tmp_path / "run", evaluation="none")
    text = source.read_text()
    source.write_text(text.replace("left", "right", 1))
    refused("have changed since", tmp_path / "run")
    source.write_text(text + "1.0,2.0,\n")
    refused("have changed since", tmp_path / "run")
    first = text.splitlines()[1]
    source.write_text(text.replace(first, f"9{first}"))
    refused("have changed since", tmp_path / "run")


def test_a_label_file_may_move_but_not_change(tmp_path: Path) -> None:
    source, given = blobs(tmp_path / "table.csv", labeled=20), tmp_path / "more.csv"
    text = "name,label,purpose\n31,left,random\n32,right,chosen\n"
    given.write_text(text)
    broken(source, tmp_path / "run", evaluation="none", labels_from=given)
    for changed in (text.replace("31,left", "31,right"), text + "33,left,\n", text.replace("chosen", "random")):
        given.write_text(changed)
        refused(f"the data or the labels of {given} of", tmp_path / "run")
    given.unlink()
    (tmp_path / "moved.csv").write_text(text)
    refused("there is no file", tmp_path / "run")
    softmatch.train(resume=tmp_path / "run", labels_from=tmp_path / "moved.csv")


def test_a_run_that_is_being_trained_is_left_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LONGEST_WAIT", 0.0)
    with RunFolder(run).locked():
        refused("is being trained by another process", run)
    softmatch.train(resume=run)


def test_an_unfinished_run_is_found_by_its_source_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    broken("two-moons", None, resume="auto")
    (begun,) = (tmp_path / "runs").iterdir()
    broken("two-moons", None, resume="auto", seed=1)
    broken("two-moons", None, resume="auto", lr=0.02)
    assert len(list((tmp_path / "runs").iterdir())) == 3, "other settings are another run"
    assert softmatch.train("two-moons", resume="auto", **TINY).run.resolve() == begun
    broken("two-moons", None, resume="auto")
    assert len(list((tmp_path / "runs").iterdir())) == 4, "one that is finished does not go on"


def test_a_folder_with_another_run_is_never_overwritten(run: Path) -> None:
    before = sorted(run.rglob("*"))
    with pytest.raises(InputError, match="unfinished run with other settings: seed is 0 there, not 1"):
        softmatch.train("two-moons", out=run, resume="auto", **{**TINY, "seed": 1})
    with pytest.raises(InputError, match="never overwritten"):
        softmatch.train("two-moons", out=run, **TINY)
    assert sorted(run.rglob("*")) == before


def test_a_folder_in_which_a_run_was_killed_before_it_began_is_free(tmp_path: Path) -> None:
    for name in (".lock", ".config.yaml.0123abcd"):
        (tmp_path / name).touch()
    refuse_used(tmp_path)
    (tmp_path / ".hidden").touch()
    with pytest.raises(InputError, match="never overwritten"):
        refuse_used(tmp_path)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_killed_sprint_ends_as_if_nothing_had_happened(endurance: Endurance, precision: str) -> None:
    """Muon's momentum, the whitened stem and the averaged teacher are part of the state."""
    sprint = {"network": "shallow-4", "optimizer": "muon", "schedule": "triangular", "teacher": "average", "lr": 0.1}
    settings, tally = {**DIGITS, **sprint, "precision": precision, "method": "softmatch", "method_options": {}}, Tally()
    endurance.endure(Case(f"sprint in {precision}", "digits", settings), killed_at(6), tally, 1)
    assert_endured(tally, 1)


def test_a_run_keeps_the_precision_that_it_has_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**DIGITS, "recipe": "sprint", "network": "shallow-1", "out": tmp_path / "run"}
    monkeypatch.setattr(arithmetic, "has_bf16_units", lambda device: True)
    monkeypatch.setattr(arithmetic, "SMALLEST_SIDE", 8)
    with pytest.raises(TrainingError, match="No space left"):
        softmatch.train("digits", watcher=Breaks(FULL), **given)
    assert read_file(tmp_path / "run" / "config.yaml")["precision"] == "bf16"
    monkeypatch.setattr(arithmetic, "has_bf16_units", lambda device: False)  # as on another machine
    with pytest.raises(InputError, match=r"precision is 'bf16' in .*, not 'float32'"):
        softmatch.train(resume=tmp_path / "run", precision="float32")
    softmatch.train("digits", resume="auto", **given)
    assert read_file(tmp_path / "run" / "config.yaml")["precision"] == "bf16"
    softmatch.train("digits", **{**given, "out": tmp_path / "whole", "precision": "bf16"})
    resumed, whole = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("run", "whole"))
    assert resumed == whole
    softmatch.train("digits", **{**given, "out": tmp_path / "exact"})
    assert (tmp_path / "exact" / "model" / "model.safetensors").read_bytes() != whole, "float32, without the units"


def test_a_run_of_some_minutes_is_resumed_with_its_steps(tmp_path: Path) -> None:
    given = {**DIGITS, "minutes": 0.03, "out": tmp_path / "run", "steps": None, "evaluate_every": None}
    with pytest.raises(TrainingError, match="No space left"):
        softmatch.train("digits", watcher=Breaks(FULL), **given)
    planned = read_file(tmp_path / "run" / "config.yaml")
    assert planned["minutes"] is None
    result = softmatch.train("digits", resume="auto", **{**given, "minutes": 0.06})
    assert result.steps == planned["steps"]
    with pytest.raises(InputError, match="minutes and steps exclude each other"):
        softmatch.train("digits", minutes=1, steps=10)
