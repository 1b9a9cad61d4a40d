"""The list of run folders: result, state and order, from the folders alone."""

import os
from pathlib import Path

from softmatch.runs.folder import RunFolder
from softmatch.runs.listing import list_runs
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


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    refused("there is no folder", list_runs, tmp_path / "none")
