"""The list of run folders: result, state and order, from the folders alone; and the verdict of a run."""

import os
from pathlib import Path

import pytest

from softmatch.runs.folder import RunFolder
from softmatch.runs.listing import list_runs
from softmatch.runs.verdict import judge
from tests.refusals import refused


def make(path: Path, result: str | None = None, step: int | None = None, time: int = 0) -> RunFolder:
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("source: /data/photos\nmethod: fixmatch\nsteps: 2000\nlabels: null\n")
    if result is not None:
        (path / "result.json").write_text(result)
        (path / "report.html").touch()
    if step is not None:
        (path / "checkpoints").mkdir()
        (path / "checkpoints" / f"step-{step:09}.safetensors").touch()
    for file in path.iterdir():
        os.utime(file, (time, time))
    return RunFolder(path)


def test_states_and_results_newest_first(tmp_path: Path) -> None:
    make(tmp_path / "a", '{"test_error": 0.1, "supervised_test_error": 0.25, "labels": 40}', time=10)
    make(tmp_path / "b", step=1200, time=30)
    make(tmp_path / "c", "{", time=20)  # damaged
    running = make(tmp_path / "d", time=40)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.yaml").write_text("just words")
    with running.locked():
        found = list_runs(tmp_path)
    assert {run.run.name: run.state for run in found} == {
        "d": "running",
        "b": "stopped at step 1,200 of 2,000",
        "c": "stopped at step 0 of 2,000",
        "a": "finished",
    }
    assert [run.run.name for run in found][1:] == ["b", "c", "a"]
    first = found[-1]
    assert (first.source, first.method, first.labels, first.error, first.baseline) == ("/data/photos", "fixmatch", 40, 0.1, 0.25)
    assert [run.run for run in list_runs(tmp_path / "b")] == [tmp_path / "b"]
    refused("there is no folder", list_runs, tmp_path / "none")


@pytest.mark.parametrize(
    ("difference", "interval", "kind", "sentence"),
    [
        (-0.078, (-0.102, -0.056), "helped", "The unlabelled data helped: −7.8 points (95 % interval −10.2 to −5.6)."),
        (0.02, (0.01, 0.03), "hurt", "The unlabelled data hurt: +2.0 points (95 % interval +1.0 to +3.0)."),
        (-0.01, (-0.02, 0.0), "open", "No clear difference: −1.0 points (95 % interval −2.0 to 0.0) contains zero."),
        (0.0002, (-0.1, 0.1), "open", "No clear difference: +0.02 points (95 % interval −10.0 to +10.0) contains zero."),
        (0.0, None, "open", "The difference is 0.0 points. Without an interval it cannot be judged."),
    ],
)
def test_verdicts(difference: float, interval: tuple[float, float] | None, kind: str, sentence: str) -> None:
    assert judge(difference, interval) == (sentence, kind)
