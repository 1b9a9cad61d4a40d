"""Processes that are started together: what they are told, how they end, and that none is left. With real, small processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from softmatch.distributed import launching
from softmatch.distributed.launching import launch, neighbours, usable_cpus

TINY = """
import json, os, signal, sys, time
from pathlib import Path

rank, what = int(os.environ["RANK"]), sys.argv[1 + int(os.environ["RANK"])]
word, _, value = what.partition("=")
heard = []
signal.alarm(50)  # whatever goes wrong

def note(number, frame):
    heard.append(signal.Signals(number).name)
    Path(f"heard{rank}-{len(heard)}").touch()

def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.01)

def wait_for_all():
    Path(f"ready{rank}").touch()
    for other in range(int(os.environ["WORLD_SIZE"])):
        wait_for(f"ready{other}")

if word == "tell":
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    told = {name: os.environ[name] for name in names} | {"arguments": sys.argv[1:], "input": sys.stdin.read()}
    Path(f"told{rank}").write_text(json.dumps(told))
    print(f"output of {rank}")
    print(f"error of {rank}", file=sys.stderr)
elif word == "exit":  # "code", or "code@rank": a moment after the process of that rank has gone
    code, _, after = value.partition("@")
    if after:
        wait_for(f"left{after}")
        time.sleep(0.3)
        print(f"reason of {rank}", file=sys.stderr)
    Path(f"left{rank}").touch()
    sys.exit(int(code))
elif word == "die":
    wait_for_all()
    os.kill(os.getpid(), int(value))
elif word == "stay":
    for name in value.split(",") if value else ():
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    Path(f"pid{rank}").write_text(str(os.getpid()))
    wait_for_all()
    time.sleep(60)
elif word == "hear":  # as many signals as are said, then those that come too many
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP"):
        if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
            signal.signal(getattr(signal, name), note)
    wait_for_all()
    if rank == 0:
        Path("all-ready").touch()
    while len(heard) < int(value):
        time.sleep(0.01)
    time.sleep(0.2)
    Path(f"heard{rank}").write_text(json.dumps(heard))
    if rank == 0:
        wait_for("heard1")  # which may be ended with the first
    sys.exit(75)
elif word == "ask":  # the launcher, for signals; each is heard by all before the next is sent
    numbers = [getattr(signal, name) for name in value.split(",")]
    audible = {number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}
    for number in audible:
        signal.signal(number, note)
    wait_for_all()
    sent = 0
    for number in numbers:
        os.kill(os.getppid(), number)
        if number in audible:
            sent += 1
            wait_for(f"heard0-{sent}")
            wait_for(f"heard1-{sent}")
    Path(f"heard{rank}").write_text(json.dumps(heard))
    sys.exit(75)
"""
LAUNCHER = """
import sys
from softmatch.distributed.launching import launch
assert "torch" not in sys.modules, "it must be quick"
sys.exit(launch(2, sys.argv[1:], "tiny"))
"""


@pytest.fixture(autouse=True)
def _tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.py").write_text(TINY)


def run(*what: str) -> int:
    return launch(len(what), what, "tiny")


def test_processes_are_told_what_torchrun_would_tell_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(launching, "usable_cpus", lambda: 7)
    assert run("tell", "tell", "tell") == 0
    told = [json.loads(Path(f"told{rank}").read_text()) for rank in range(3)]
    assert [(each["RANK"], each["LOCAL_RANK"]) for each in told] == [("0", "0"), ("1", "1"), ("2", "2")]
    assert {(each["WORLD_SIZE"], each["LOCAL_WORLD_SIZE"], each["OMP_NUM_THREADS"]) for each in told} == {("3", "3", "2")}
    assert {each["MASTER_ADDR"] for each in told} == {"127.0.0.1"}
    (port,) = {int(each["MASTER_PORT"]) for each in told}
    assert 1024 <= port < 65536
    assert all(each["arguments"] == ["tell"] * 3 for each in told)
    out, err = capfd.readouterr()
    assert out == "output of 0\n", "what all would say is said once"
    assert sorted(err.splitlines()) == ["error of 0", "error of 1", "error of 2"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert run("tell") == 0
    assert json.loads(Path("told0").read_text())["OMP_NUM_THREADS"] == "5"


def test_neighbours_are_those_that_were_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_cpus() >= 1
    assert neighbours() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert neighbours() == 3


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (("exit=0", "exit=0"), 0),
        (("exit=0", "exit=3@0"), 3),
        (("exit=4@1", "exit=3"), 3),
        (("exit=75@1", "exit=75"), 75),
        (("exit=75", "stay"), 75),
        (("exit=0@1", "exit=75"), 75),
        (("exit=1@1", "exit=75"), 1),
    ],
)
def test_the_code_is_that_of_the_first_failure(what: tuple[str, ...], code: int) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert run(*what) == code
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_killed_process_ends_the_others_and_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("stay", "stay", "die=9") == 137
    assert capfd.readouterr().err == "softmatch: process 3 of 3 (rank 2) ended with signal 9 (killed); all are ended.\n"
    assert not any(alive(int(Path(f"pid{rank}").read_text())) for rank in (0, 1))


def test_a_process_that_does_not_end_when_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "GRACE", 0.2)
    assert run("die=11", "stay=SIGTERM") == 139
    assert not alive(int(Path("pid1").read_text()))


def test_the_first_may_say_what_is_wrong_with_all(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("exit=2@1", "exit=2") == 2
    assert capfd.readouterr().err == "reason of 0\n"


def test_once_the_first_has_said_what_is_wrong_the_others_need_not(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("exit=2", "stay") == 2
    assert capfd.readouterr().err == ""


def test_a_failure_of_one_ends_those_that_do_not_notice(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launching, "SETTLE", 0.2)
    assert run("stay", "exit=3") == 3
    assert capfd.readouterr().err == "softmatch: process 2 of 2 (rank 1) ended with code 3; all are ended.\n"
    assert not alive(int(Path("pid0").read_text()))


def test_signals_are_passed_on_to_all_and_an_ignored_one_is_not() -> None:
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert run("hear=4", "ask=SIGUSR1,SIGHUP,SIGINT,SIGTERM,SIGINT") == 75
    finally:
        signal.signal(signal.SIGHUP, handler)
    for rank in (0, 1):
        assert json.loads(Path(f"heard{rank}").read_text()) == ["SIGUSR1", "SIGINT", "SIGTERM", "SIGINT"]


@contextmanager
def launcher(*what: str) -> Iterator[subprocess.Popen[str]]:
    """In a group of its own, as a shell starts a command."""
    command = [sys.executable, "-c", LAUNCHER, *what]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_an_interruption_at_the_terminal_reaches_each_process_once() -> None:
    with launcher("hear=1", "hear=1") as process:
        wait_for(Path("all-ready"))
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (75, "")
    assert [json.loads(Path(f"heard{rank}").read_text()) for rank in (0, 1)] == [["SIGINT"], ["SIGINT"]]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends processes with their parent")
def test_no_process_survives_a_killed_launcher() -> None:
    with launcher("stay=SIGTERM", "stay=SIGTERM,SIGINT") as process:
        wait_for(Path("ready0"), Path("ready1"))
        pids = [int(Path(f"pid{rank}").read_text()) for rank in (0, 1)]
        assert all(map(alive, pids))
        process.kill()
        deadline = time.monotonic() + 30
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(alive, pids))


def wait_for(*paths: Path) -> None:
    deadline = time.monotonic() + 30
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """A process that has ended but that nobody has asked about is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
