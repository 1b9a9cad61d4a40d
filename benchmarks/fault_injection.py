"""Train a run in a process of its own while faults strike it, resume it until it finishes, and compare the files it leaves.

Processes are forked, because importing torch takes longer than a run: the process that uses this trains nothing itself, and
`warm_up` imports what training needs.
"""

import importlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from signal import SIGINT, SIGKILL
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import torch
import yaml

from softmatch.errors import FAILED, INTERRUPTED, STOPPED
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint
from softmatch.training.loop import Trainer

LONGEST = 300.0
"""Seconds after which a process counts as one that never ends."""


class Case(NamedTuple):
    """A run to disturb: a source, the settings of `softmatch train`, and the number of its processes."""

    name: str
    source: str
    settings: Mapping[str, Any] = {}
    processes: int = 1  # more are started as commands of their own: their steps are not counted


@dataclass(frozen=True)
class Strike:
    """What happens to one process, and when: after a number of seconds, or at a count of steps or of flushes to disk."""

    signal: int | None = None
    file_size: int | None = None  # bytes beyond which its files cannot grow from then on, as on a full disk
    seconds: float | None = None
    count: int | None = None
    of: Literal["steps", "writes"] = "steps"
    patience: float | None = None  # seconds after which a process that is still alive is killed


class Ended(NamedTuple):
    """How a process ended: exit code (negative: the signal that ended it), output, counts and duration."""

    code: int
    said: str
    steps: int
    writes: int
    seconds: float

    @property
    def stopped_at(self) -> str:
        """The step at which a signal stopped it, as printed; empty if none did."""
        found = re.search(r"stopped by SIG\w+ at step ([\d,]+) of", self.said)
        return found.group(1) if found and self.code == STOPPED else ""


Damage = Callable[[Random, Path], str | None]
"""Damages the files of a run; returns what the next process must say about it, or None if there was nothing to damage."""


class Fault(NamedTuple):
    """What goes wrong: a strike at the process, and damage to its files before the next process resumes."""

    strike: Callable[[Random, Ended], Strike]
    damage: Damage | None = None


@dataclass
class Tally:
    """Results for one kind of fault, counted as `MEANINGS` of faults.py says; problems describe each one."""

    runs: int = 0
    faults: int = 0
    lost: int = 0
    mismatches: int = 0
    unclean: int = 0
    problems: list[str] = field(default_factory=list)

    def report(self, count: Literal["lost", "mismatches", "unclean"], problem: str) -> None:
        setattr(self, count, getattr(self, count) + 1)
        self.problems.append(problem)
        print(f"  PROBLEM {problem}", file=sys.stderr, flush=True)


def warm_up() -> None:
    """Import what training imports when it begins, once for all processes."""
    for name in ("sklearn.datasets", "torch._dynamo", "softmatch.cli.running"):
        importlib.import_module(name)
    _ = importlib.import_module("softmatch.report").PAGE.compiled
    torch.set_num_threads(1)


def attempt(case: Case, out: Path, strike: Strike | None = None) -> Ended:
    """Run `softmatch train --resume auto` in a process of its own."""
    settings = out.with_suffix(".yaml")
    settings.write_text(yaml.safe_dump({"source": case.source, **case.settings}), encoding="utf-8")
    command = ["train", "--config", str(settings), "--out", str(out), "--resume", "auto", "--processes", str(case.processes)]
    context: Any = multiprocessing.get_context("forkserver" if torch.cuda.is_available() else "fork")  # GPUs cannot be forked
    hearing, speaking = context.Pipe(duplex=False)  # `file_size` would strike a file, too
    counts = context.Array("q", 2, lock=False)
    process = context.Process(target=_train, args=(command, strike, speaking, counts))
    started = time.perf_counter()
    process.start()
    speaking.close()
    if strike and strike.seconds is not None and strike.signal:
        process.join(strike.seconds)
        if process.is_alive():
            os.kill(process.pid, strike.signal)
    process.join(strike.patience if strike and strike.patience is not None else LONGEST)
    seconds, stuck = time.perf_counter() - started, process.is_alive() and not (strike and strike.patience is not None)
    process.kill()
    process.join()
    return Ended(process.exitcode, _hear(hearing) + stuck * " It did not end.", counts[0], counts[1], seconds)


def _hear(hearing: Connection) -> str:
    """Return the output on one line. Does not wait for the end of the pipe: children of a killed process may hold it open."""
    os.set_blocking(hearing.fileno(), False)
    said = b""
    with hearing, suppress(BlockingIOError):
        while part := os.read(hearing.fileno(), 2**16):
            said += part
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", said.decode(errors="replace")).split())


def _train(command: list[str], strike: Strike | None, speaking: Connection, counts: Any) -> None:
    """Do what the command line does, up to the exit code. Runs in the new process."""
    for number in (1, 2):
        os.dup2(speaking.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ["COLUMNS"] = "2000"
    sys.argv = ["softmatch", *command]
    warnings.resetwarnings()  # in a test, they are errors
    warnings.filterwarnings("ignore", message="Cyclopts application invoked without tokens")  # it is, in a test
    torch.set_num_threads(1)
    signal.signal(SIGINT, signal.default_int_handler)  # shells let background processes ignore it,
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup this
    _count(strike, counts)
    from softmatch.__main__ import main  # its import handles signals already

    sys.exit(main())


def _count(strike: Strike | None, counts: Any) -> None:
    """Count steps and writes, and strike when it is time."""
    advance, flush = Trainer.advance, os.fsync

    def count(what: int, of: str) -> None:
        counts[what] += 1
        if strike and (strike.count, strike.of) == (counts[what], of):
            if strike.file_size is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (strike.file_size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            if strike.signal is not None:
                os.kill(os.getpid(), strike.signal)

    def counted_advance(trainer: Trainer) -> None:
        advance(trainer)
        count(0, "steps")

    def counted_flush(file: int) -> None:
        count(1, "writes")
        flush(file)

    Trainer.advance = counted_advance  # type: ignore[assignment, method-assign]  # in this process only
    os.fsync = counted_flush  # type: ignore[assignment]  # likewise


def content(out: Path) -> dict[str, bytes]:
    """Return what a run has left, by file name, without what depends on time and place: of checkpoints, the newest."""
    found = {}
    for path in (path for folder in out.rglob("checkpoints") for path in list_checkpoints(folder)[-1:]):
        tensors = sorted(load_checkpoint(path).tensors.items())
        about = [(name, str(value.dtype), tuple(value.shape), value.numpy().tobytes()) for name, value in tensors]
        found[str(path.relative_to(out))] = repr(about).encode()
    for path in out.rglob("*"):
        if path.is_file() and "checkpoints" not in path.parts and path.name not in (".lock", "outcome.safetensors"):
            inside = b"" if path.name == "report.html" else path.read_bytes()  # a report says how long the run took
            if path.name in ("result.json", "config.yaml"):
                kept = {key: value for key, value in yaml.safe_load(inside).items() if "seconds" not in key and key != "out"}
                inside = json.dumps(kept).encode()
            found[str(path.relative_to(out))] = inside
    return found


class Endurance:
    """Disturbs runs in a folder and compares each with the same run undisturbed, which is trained once; deletes sound runs."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder, self.chance = folder, chance
        self._references: dict[str, tuple[Ended, dict[str, bytes]]] = {}

    def reference(self, case: Case) -> tuple[Ended, dict[str, bytes]]:
        """Return how the run ends by itself, and what it leaves."""
        if case.name not in self._references:
            ended = attempt(case, out := self.folder / "reference")
            assert ended.code == 0, f"{case.name} fails without any fault: {ended}"
            self._references[case.name] = ended, content(out)
            shutil.rmtree(out)
        return self._references[case.name]

    def endure(self, case: Case, fault: Fault, tally: Tally, times: int | None = None) -> list[Ended]:
        """Strike one run `times` times (by default 1 to 3), then let it finish. Returns all ends."""
        reference, expected = self.reference(case)
        out, must_say, ends, before = self.folder / f"run-{uuid4().hex}", "", list[Ended](), len(tally.problems)
        tally.runs += 1
        for left in reversed(range((times or self.chance.randint(1, 3)) + 1)):
            strike = fault.strike(self.chance, reference) if left else None
            ended = attempt(case, out, strike)
            ends.append(ended)
            tally.faults += strike is not None and ended.code != 0
            if problem := _improper(ended, strike, must_say):
                tally.report("unclean", f"{case.name}, {strike}: {problem}: {ended.said[-2000:]}")
            if ended.code == 0:
                break
            must_say = f"after step {ended.stopped_at} of" if ended.stopped_at else ""
            if left and fault.damage is not None and (said := fault.damage(self.chance, out)) is not None:
                tally.faults += 1
                must_say = said
        done = sum(each.steps for each in ends)
        if ends[-1].code != 0:
            tally.report("lost", f"{case.name} does not finish: {ends[-1]}")
        elif wrong := {name for name, _ in expected.items() ^ content(out).items()}:
            tally.report("mismatches", f"{case.name}: {sorted(wrong)} of {out} differ")
        elif fault.damage is None and done != reference.steps and all(e.code in (0, STOPPED) or not e.steps for e in ends):
            tally.report("unclean", f"{case.name}: {done} steps instead of {reference.steps}, although each was to be saved")
        if len(tally.problems) == before:
            shutil.rmtree(out)
        return ends


def _improper(ended: Ended, strike: Strike | None, must_say: str) -> str:
    """Say what is wrong with the way a process ended; empty if nothing is."""
    codes = {0}  # in case it was quicker
    if strike is not None:
        codes |= {-(strike.signal or 0), -SIGKILL if strike.patience is not None else 0}
        clean: dict[int | None, set[int]] = {None: {FAILED}, SIGKILL: set(), SIGINT: {STOPPED, INTERRUPTED}}
        codes |= clean.get(strike.signal, {STOPPED})
    if ended.steps and must_say not in ended.said:
        return f"it did not say {must_say!r}"
    if "Traceback" in ended.said and ended.code != -SIGKILL:  # a killed process says nothing; its orphans may
        return "a traceback"
    if ended.code not in codes:
        return f"exit code {ended.code}"
    if strike and strike.signal and strike.count and strike.of == "steps" and ended.code == 0 and ended.steps > strike.count:
        return "it ignored the signal"
    if ended.code == FAILED and "--resume" not in ended.said:
        return "it does not say how to resume"
    if ended.code == STOPPED and not ended.stopped_at and "softmatch: interrupted" not in ended.said:
        return "it does not say where it stopped"
    return ""
