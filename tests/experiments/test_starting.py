"""Processes of runs: they speak into their log, hear what they are told, and do not outlive whoever started them."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import cast

import pytest

from softmatch import __version__
from softmatch.experiments.child import HEADING
from softmatch.experiments.places import Ended
from softmatch.experiments.starting import SERVER_LOST, Forked, Started, execute, start, wait
from tests.experiments.tiny import wait_for

LONG = [
    "train",
    "two-moons",
    "--network",
    "mlp-8",
    "--steps",
    "100000",
    "--checkpoint-every",
    "50000",
    "--threads",
    "1",
    "--no-baseline",
]


@pytest.mark.parametrize("fork", [False, True], ids=["started", "forked"])
def test_output_goes_to_the_log(fork: bool, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    main = sys.modules["__main__"]
    process = start(["--version"], log, {"RANK": "0"}, fork=fork)
    assert wait(process) == Ended(0)
    assert isinstance(process, Forked if fork else Started)
    heading, *lines = log.read_text().splitlines()
    assert heading.startswith(HEADING)
    assert lines == [__version__]
    quiet = start(["--nonsense"], log, {"RANK": "1", "WORLD_SIZE": "1"}, tmp_path / "nowhere", fork)
    assert wait(quiet) == Ended(2)
    assert log.read_text().startswith(f"{heading}\n{__version__}\nsoftmatch: ")  # errors alone, and no heading
    assert sys.modules["__main__"] is main


def test_a_fork_is_in_the_folder_and_environment_it_is_given(tmp_path: Path) -> None:
    folder, log = tmp_path / "work", tmp_path / "run.log"
    folder.mkdir()
    (folder / "own.py").write_text("import os\nraise ValueError(os.environ['MINE'])\n")
    ended = execute(["train", "two-moons", "--method", "own.py:x", "--out", "run"], log, {"MINE": "own word"}, folder)
    assert ended == Ended(2)
    assert log.read_text().endswith("softmatch: own.py cannot be run: ValueError: own word\n")


def test_a_machine_without_the_store_says_so(tmp_path: Path) -> None:
    ended = execute(["train"], tmp_path / "nowhere" / "run.log", {}, tmp_path)
    assert ended.code == 2
    assert f"has no folder {tmp_path / 'nowhere'}: the store must be in a folder that all machines share" in ended.message


def test_a_started_process_ends_when_its_line_is_cut(tmp_path: Path) -> None:
    process = start(LONG, tmp_path / "run.log", fork=False)
    assert isinstance(process, Started)
    stdin = process._process.stdin
    assert stdin is not None
    stdin.close()  # as by the end of whoever holds it
    assert wait(process).code in (75, -signal.SIGTERM)  # it may not have come as far as to hear signals


def test_a_fork_saves_when_it_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    process = start([*LONG, "--out", "run"], tmp_path / "run.log")
    wait_for(lambda: "run folder" in (tmp_path / "run.log").read_text())
    assert process.poll() is None
    process.stop()
    assert wait(process) == Ended(75)
    assert "stopped by SIGTERM" in (tmp_path / "run.log").read_text()


class _Unseen:
    """What multiprocessing has of a process whose fork server has ended."""

    exitcode = SERVER_LOST

    def __init__(self, pid: int) -> None:
        self.pid = pid


def test_a_fork_whose_server_is_gone_is_waited_for() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        fork = Forked(cast(ForkServerProcess, _Unseen(process.pid)))
        assert fork.poll() is None  # it is at work still
        fork.stop()
        assert process.wait() == -signal.SIGTERM
    assert fork.poll() == Ended(1, "its end was not seen: its fork server has ended")
    fork.kill()  # of which there is nothing left


def test_kill_does_not_wait(tmp_path: Path) -> None:
    process = start(LONG, tmp_path / "run.log")
    process.kill()
    assert wait(process) == Ended(-signal.SIGKILL)
    assert multiprocessing.active_children() == []
