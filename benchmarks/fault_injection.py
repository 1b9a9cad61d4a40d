"""Train a run in a process of its own while things go wrong, again and again until it ends by itself, and compare what it leaves.

Used by benchmarks/faults.py and by the tests of resuming. Processes are forked, not started: importing torch takes longer than a
run. Hence nothing is trained in the process that uses this, and `warm_up` imports what training imports when it begins.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import re
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
from typing import Any, Literal, NamedTuple

import torch
import yaml

from softmatch.cli.app import FAILED, INTERRUPTED
from softmatch.errors import STOPPED
from softmatch.training.checkpoint import list_checkpoints, load_checkpoint

LONGEST = 300.0
"""Seconds after which a run counts as one that never ends."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
PASSING = (".lock", "outcome.safetensors")
"""Files of a run that are of no interest once it is finished."""


@dataclass(frozen=True)
class Case:
    """A run that is to be disturbed: a source and its settings, as of `softmatch train`."""

    name: str
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Strike:
    """What happens to one process, and when.

    Attributes:
        signal: that it is sent.
        file_size: bytes beyond which its files cannot grow from then on, as on a full disk.
        seconds: after so many of them, from outside; else
        count: after so many `steps`, or in place of the so-manieth time that a file is flushed to the disk (`writes`).
        patience: it is killed so many seconds later if it is still there.
    """

    signal: int | None = None
    file_size: int | None = None
    seconds: float | None = None
    count: int | None = None
    of: Literal["steps", "writes"] = "steps"
    patience: float | None = None


class Ended(NamedTuple):
    """How a process has ended: exit code (negative: the signal that ended it), what it said, what it did, how long it took."""

    code: int
    said: str
    steps: int
    writes: int
    seconds: float


Damage = Callable[[Random, Path], str | None]
"""Does something to the files of an unfinished run. Gives what the next process must say about it, "" for nothing; None if there
was nothing to damage."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong: something that strikes the process, and what is done to the files before the next one goes on."""

    strike: Callable[[Random, Ended], Strike]
    damage: Damage | None = None


@dataclass
class Tally:
    """What came of the runs of one kind of fault.

    Attributes:
        lost: runs that did not come to their end.
        mismatches: runs whose files are not those of the run without faults.
        unclean: processes that ended with a traceback or an exit code that does not fit, that said nothing about damaged files or
            how to go on, or that a signal has stopped in a way that lost a step.
        problems: each of these in words.
    """

    runs: int = 0
    faults: int = 0
    lost: int = 0
    mismatches: int = 0
    unclean: int = 0
    problems: list[str] = field(default_factory=list)


def warm_up() -> None:
    """Import what training imports when it begins, once for all processes."""
    for name in ("sklearn.datasets", "torch._dynamo", "softmatch.cli.train"):
        importlib.import_module(name)
    importlib.import_module("softmatch.report").PAGE.compiled()
    torch.set_num_threads(1)


def attempt(case: Case, out: Path, strike: Strike | None = None, *options: str) -> Ended:
    """`softmatch train` in a process of its own, from the start or where the last one ended.

    Args:
        options: of the command line, instead of --resume auto.
    """
    settings = out.with_suffix(".yaml")
    settings.write_text(yaml.safe_dump({"source": case.source, **case.settings}), encoding="utf-8")
    command = ["train", "--config", str(settings), "--out", str(out), *(options or ("--resume", "auto"))]
    context: Any = multiprocessing.get_context("forkserver" if torch.cuda.is_available() else "fork")  # GPUs cannot be forked
    hearing, speaking = context.Pipe(duplex=False)  # a file would be struck by `file_size` too
    counts = context.Array("q", 2, lock=False)
    process = context.Process(target=_train, args=(command, strike, speaking, counts))
    started = time.perf_counter()
    process.start()
    speaking.close()
    if strike is not None and strike.seconds is not None and strike.signal is not None:
        process.join(strike.seconds)
        if process.is_alive():
            os.kill(process.pid, strike.signal)
    if strike is not None and strike.patience is not None:
        process.join(strike.patience)
        process.kill()
    process.join(LONGEST)
    seconds, stuck = time.perf_counter() - started, process.is_alive()
    if stuck:
        process.kill()
        process.join()
    return Ended(process.exitcode, _hear(hearing) + stuck * " It did not end.", counts[0], counts[1], seconds)


def _hear(hearing: Connection) -> str:
    """What was said, on one line. Not to the end of the pipe: children of a killed process may hold it open."""
    os.set_blocking(hearing.fileno(), False)
    said = b""
    with suppress(BlockingIOError):
        while part := os.read(hearing.fileno(), 2**16):
            said += part
    hearing.close()
    return " ".join(COLOURS.sub("", said.decode(errors="replace")).split())


def _train(command: list[str], strike: Strike | None, speaking: Connection, counts: Any) -> None:
    """In the new process: everything as the command line does it, up to the exit code."""
    for number in (1, 2):
        os.dup2(speaking.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ["COLUMNS"] = "2000"
    sys.argv = ["softmatch", *command]
    warnings.resetwarnings()  # of a test, where they are errors
    warnings.filterwarnings("ignore", message="Cyclopts application invoked without tokens")  # it is, in a test
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what they start in the background ignore it,
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup this
    _count(strike, counts)
    from softmatch.__main__ import main

    sys.exit(main())


def _count(strike: Strike | None, counts: Any) -> None:
    """Count steps and writes, and strike when it is time."""
    from softmatch.training.loop import Trainer

    advance, flush = Trainer.advance, os.fsync

    def counted_advance(trainer: Trainer) -> None:
        advance(trainer)
        counts[0] += 1
        _strike_at(strike, "steps", counts[0])

    def counted_flush(file: int) -> None:
        counts[1] += 1
        _strike_at(strike, "writes", counts[1])
        flush(file)

    Trainer.advance = counted_advance  # type: ignore[assignment, method-assign]  # in this process only
    os.fsync = counted_flush  # type: ignore[assignment]  # likewise


def _strike_at(strike: Strike | None, of: str, count: int) -> None:
    if strike is None or strike.count != count or strike.of != of:
        return
    if strike.file_size is not None:
        import resource  # not on every system

        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (strike.file_size, hard))
    if strike.signal is not None:
        os.kill(os.getpid(), strike.signal)


def content(out: Path) -> dict[str, str]:
    """What a run has left, without what depends on time and place: a digest of each file by its name.

    Of the checkpoints, the tensors of the newest: the whole state of training at its end.
    """
    found = {}
    for folder in sorted(out.rglob("checkpoints")):
        for path in list_checkpoints(folder)[-1:]:
            tensors = load_checkpoint(path).tensors
            about = [(name, str(value.dtype), tuple(value.shape), value.numpy().tobytes()) for name, value in tensors.items()]
            found[str(path.relative_to(out))] = hashlib.sha256(repr(sorted(about)).encode()).hexdigest()
    for path in sorted(out.rglob("*")):
        if path.is_file() and "checkpoints" not in path.parts and path.name not in PASSING:
            found[str(path.relative_to(out))] = hashlib.sha256(_lasting(path)).hexdigest()
    return found


def _lasting(path: Path) -> bytes:
    if path.name == "report.html":  # says how long the run took
        return b""
    if path.name == "result.json":
        figures = json.loads(path.read_bytes())
        return json.dumps({key: value for key, value in figures.items() if "seconds" not in key}).encode()
    if path.name == "config.yaml":
        settings = yaml.safe_load(path.read_bytes())
        return json.dumps({key: value for key, value in settings.items() if key != "out"}).encode()
    return path.read_bytes()


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Names of the files that differ, are missing, or are too many."""
    return sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))


class Endurance:
    """Disturbs runs, and compares each with the same run undisturbed, which is trained once.

    Args:
        folder: for the runs; those that were as they should be are deleted.
    """

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder, self.chance = folder, chance
        self._references: dict[str, tuple[Ended, dict[str, str]]] = {}
        self._number = 0

    def reference(self, case: Case) -> tuple[Ended, dict[str, str]]:
        """How the run ends by itself, and what it leaves."""
        if case.name not in self._references:
            out = self._new_folder()
            ended = attempt(case, out)
            if ended.code != 0:
                raise RuntimeError(f"{case.name} fails without any fault (exit code {ended.code}): {ended.said}")
            self._references[case.name] = ended, content(out)
            _delete(out)
        return self._references[case.name]

    def endure(self, case: Case, fault: Fault, tally: Tally, times: int | None = None) -> list[Ended]:
        """One run, struck `times` times (by default once to three times), then left alone until it ends. Gives all ends."""
        reference, expected = self.reference(case)
        out, must_say, ends, before = self._new_folder(), "", list[Ended](), len(tally.problems)
        tally.runs += 1
        for left in reversed(range((times or self.chance.randint(1, 3)) + 1)):
            strike = fault.strike(self.chance, reference) if left else None
            ended = attempt(case, out, strike)
            ends.append(ended)
            tally.faults += strike is not None and ended.code != 0
            for problem in _improper(ended, strike, must_say):
                tally.unclean += 1
                tally.problems.append(f"{case.name}, {strike}: {problem}")
            if ended.code == 0:
                break
            must_say = f"resuming after step {step}" if (step := _stopped_at(ended)) else ""
            if left and fault.damage is not None and (said := fault.damage(self.chance, out)) is not None:
                tally.faults += 1
                must_say = said
        done = sum(each.steps for each in ends)
        if ends[-1].code != 0:
            tally.lost += 1
            tally.problems.append(f"{case.name} does not come to its end ({ends[-1].code}): {ends[-1].said[-500:]}")
        elif wrong := differences(expected, content(out)):
            tally.mismatches += 1
            tally.problems.append(f"{case.name}: {', '.join(wrong)} of {out} differ")
        elif fault.damage is None and done != reference.steps and all(e.code in (0, STOPPED) or not e.steps for e in ends):
            tally.unclean += 1
            tally.problems.append(f"{case.name}: {done} steps instead of {reference.steps}, though all of them were to be saved")
        if len(tally.problems) == before:
            _delete(out)
        return ends

    def _new_folder(self) -> Path:
        self._number += 1
        return self.folder / f"run-{self._number}"


def _delete(out: Path) -> None:
    shutil.rmtree(out)
    out.with_suffix(".yaml").unlink()


def _stopped_at(ended: Ended) -> str | None:
    found = re.search(r"stopped by SIG\w+ at step ([\d,]+) of", ended.said)
    return found.group(1) if found and ended.code == STOPPED else None


def _improper(ended: Ended, strike: Strike | None, must_say: str) -> list[str]:
    """What is wrong with the way in which a process has ended."""
    last, found = ended.said[-500:], list[str]()
    if ended.steps and must_say not in ended.said:
        found.append(f"it has not said {must_say!r}, but {last}")
    if "Traceback" in ended.said and ended.code != -signal.SIGKILL:  # a killed process says nothing; its orphans may
        found.append(f"a traceback: {ended.said[-2000:]}")
    elif ended.code not in _proper_codes(strike):
        found.append(f"exit code {ended.code}: {last}")
    elif _went_on(ended, strike):
        found.append(f"it went on after the signal: {last}")
    elif ended.code == FAILED and "--resume" not in ended.said:
        found.append(f"it does not say how to go on: {last}")
    elif ended.code == STOPPED and _stopped_at(ended) is None and "softmatch: interrupted" not in ended.said:
        found.append(f"it does not say where it has stopped: {last}")
    return found


def _went_on(ended: Ended, strike: Strike | None) -> bool:
    """Whether a process took no notice of a signal."""
    if strike is None or strike.signal is None or strike.count is None or strike.of != "steps":
        return False
    return ended.code == 0 and ended.steps > strike.count


def _proper_codes(strike: Strike | None) -> set[int]:
    """That a process may end with; always 0, where it was quicker."""
    if strike is None:
        return {0}
    if strike.file_size is not None:
        return {0, FAILED}
    ways: dict[int | None, set[int]] = {signal.SIGKILL: set(), signal.SIGINT: {STOPPED, INTERRUPTED}}
    killed = {-signal.SIGKILL} if strike.patience is not None else set[int]()
    return {0, -(strike.signal or 0)} | ways.get(strike.signal, {STOPPED}) | killed
