"""Whole runs in several real processes: stopped by a signal, killed, on two machines, and as good as in one process."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from softmatch import train
from softmatch.distributed.launching import free_port
from softmatch.training.checkpoint import list_checkpoints
from tests.forked import Forked

STEPS = 120
SETTINGS = {"labels": 40, "steps": STEPS, "evaluate_every": 40, "checkpoint_every": 10, "network": "mlp-16", "lr": 0.01}
BATCHES = {"labeled_batch": 7, "unlabeled_batch": 13}
"""Of which no share is like another in two or three processes."""


def options(**more: object) -> list[str]:
    """As the command line has them; no thread is shared by processes that have two cores together."""
    settings = {**SETTINGS, **BATCHES, "threads": 1, **more}
    return [word for key, value in settings.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def wait_for_step(run: Path, step: int, process: Forked) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if any(int(path.stem.removeprefix("step-")) >= step for path in list_checkpoints(run / "checkpoints")):
            return
        time.sleep(0.01)
    pytest.fail(f"no checkpoint of step {step}: {process.communicate()}")


def start(command: list[str], folder: Path) -> Forked:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "RANK", "WORLD_SIZE"))}
    return Forked(command, folder, environment)


def workers(agent: Forked) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()]


def same_as_in_one_process(run: Path, reference: Path) -> None:
    expected, found = (load_file(folder / "model" / "model.safetensors") for folder in (reference, run))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-6, rtol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    records = [[json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] for folder in (reference, run)]
    assert [record["step"] for record in records[1]] == [40, 80, 120]
    for one, other in zip(*records, strict=True):
        assert one["test_error"] == other["test_error"]
        assert one["samples"] == other["samples"]
        assert one["loss"] == pytest.approx(other["loss"], abs=2e-5)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="workers are found by Linux's /proc")
def test_stopped_killed_and_moved_to_other_machines(tmp_path: Path) -> None:
    """Two processes are stopped by SIGTERM; two torchrun agents, as on two machines, go on, and survive the death of a worker."""
    train("digits", out=tmp_path / "one", baseline=False, threads=1, **SETTINGS, **BATCHES)
    run = tmp_path / "run"
    command = ["train", "digits", *options(), "--no-baseline", "--out", str(run), "--resume", "auto"]
    launcher = start(["-m", "softmatch", *command, "--processes", "2"], tmp_path)
    wait_for_step(run, 10, launcher)
    launcher.send_signal(signal.SIGTERM)
    _, error = launcher.communicate(timeout=60)
    assert launcher.returncode == 75, error
    assert "stopped by SIGTERM at step" in error
    assert f"softmatch train --resume {run}" in error
    assert "Traceback" not in error
    stopped = int(list_checkpoints(run / "checkpoints")[-1].stem.removeprefix("step-"))
    assert f"at step {stopped} of" in error  # of the very step

    meeting = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"]
    meeting += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", "run", "--local-addr", "127.0.0.1"]
    agents = [start(["-m", "torch.distributed.run", *meeting, "-m", "softmatch", *command], tmp_path) for _ in range(2)]
    wait_for_step(run, stopped + 10, agents[0])
    os.kill(workers(agents[1])[0], signal.SIGKILL)
    said = [agent.communicate(timeout=120) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], said
    assert sum(out.count("resuming after step") for out, _ in said) >= 2
    same_as_in_one_process(run, tmp_path / "one")
    assert json.loads((run / "result.json").read_text())["processes"] == 2
