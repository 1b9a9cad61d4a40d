"""`softmatch train --on ray` and `--on slurm` with a real Ray cluster and with submitit's own processes."""

import os
import sys
from pathlib import Path

import pytest
import submitit

from softmatch.cli.app import main
from softmatch.experiments.executors import Where, on_slurm
from softmatch.experiments.executors.train_elsewhere import train_elsewhere
from tests.experiments.executors.test_on_slurm import RUNNING

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes end with their parents on Linux"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray and submitit leave pipes to the garbage collector
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # within Ray, as ray.train is imported
]
DYING = """
import os, signal, time
from pathlib import Path
from softmatch.weightings import Constant

class Dies(Constant):
    marker, steps = Path(__file__).with_name("died-before"), 0

    def update(self, seen):
        self.steps += 1
        if self.steps == 15 and os.environ["RANK"] == "1" and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getppid(), signal.SIGKILL)  # the worker of Ray, and with it this process
            time.sleep(600)
"""
SETTINGS = ["--steps", "20", "--checkpoint-every", "5", "--evaluate-every", "10", "--no-baseline", "--device", "cpu"]


@pytest.mark.usefixtures("ray_cluster")
def test_a_group_of_workers_that_loses_one_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(DYING)
    command = ["train", "two-moons", "--method", "own.py:Dies", *SETTINGS]
    assert main([*command, "--out", "lost", "--on", "ray", "--processes", "3"]) == 2
    assert "--processes 3: this Ray cluster has room for 2, with 1 CPU each" in capfd.readouterr().err
    assert main([*command, "--out", "lost", "--on", "ray", "--processes", "2", "--retries", "1"]) == 0
    assert main(["train", "two-moons", "--steps", "0", "--on", "ray", "--processes", "1"]) == 2  # wrong use is not retried
    assert (tmp_path / "died-before").exists()
    shown = capfd.readouterr()
    assert "resuming after step 10 of 20" in shown.out
    assert main([*command, "--out", "whole", "--processes", "2", "-q"]) == 0
    lost, whole = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("lost", "whole"))
    assert lost == whole
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_job_of_slurm_is_retried_and_its_output_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    really = submitit.AutoExecutor
    monkeypatch.setattr(submitit, "AutoExecutor", lambda folder, **options: really(folder, **{**options, "cluster": "local"}))
    for name, value in {"LATE": 0.0, "LOOK": 0.0, "HURRY": 0.0}.items():
        monkeypatch.setattr(on_slurm, name, value)
    (tmp_path / "bin").mkdir()
    for name, text in {"squeue": RUNNING, "srun": "exit 0"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(DYING.replace('"1"', '"0"').replace('environ["RANK"]', 'environ.get("RANK", "0")'))
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text().replace("os.getppid()", "os.getpid()"))
    where = Where(on="slurm", slurm={"time": "5"}, retries=1)
    arguments = ["train", "two-moons", "--method", "own.py:Dies", *SETTINGS, "--out", "run"]
    assert train_elsewhere(where, arguments) == 0
    assert "resuming after step 10 of 20" in capfd.readouterr().out
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "slurm", "--dry-run"], "--dry-run measures a step on this machine: leave out --on slurm"),
        (["--address", "head:6379"], "--address only works with --on ray, and --slurm with --on slurm"),
        (["--on", "ray", "--processes", "0"], "--processes 0: give 1 or more"),
        (["--on", "ray", "--slurm.time", "5"], "--slurm only works with --on slurm"),
    ],
    ids=["dry run", "here", "none", "slurm's"],
)
def test_what_cannot_be_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "two-moons", *words]) == 2
    assert message in capsys.readouterr().err
