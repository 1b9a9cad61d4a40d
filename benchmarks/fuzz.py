"""Throw damaged inputs at everything that reads a file or a command line, and count what happens.

    python benchmarks/fuzz.py --inputs 140000 --seed 0 > benchmarks/results/fuzz.md
    python benchmarks/fuzz.py --inputs 500 --reader csv npz
    python benchmarks/fuzz.py --replay fuzz-failures/csv-000123

Sound inputs are damaged in one to three ways: bytes changed, cut, doubled and inserted; values, keys and cells exchanged in
what is still JSON, YAML, a table or an archive with right checksums. Each must be accepted or refused with an InputError. What
else is raised is a traceback, and what takes longer than --limit seconds a hang; both are written to a folder, with the input and
what was raised, to be replayed. Which inputs there are follows from the seed, the reader and a number. Nothing is trained for the
inputs of "command line": their work is left out, not their reading.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

import torch
from fuzz_files import file_readers
from fuzz_mutations import Reader
from fuzz_runs import make_run, run_readers

from softmatch.errors import InputError

MEMORY = 6 * 2**30
"""Bytes that the process may have: an input that asks for more is a failure."""


class Hang(BaseException):
    """An input has taken too long. No Exception: no reader may catch it."""


@dataclass
class Count:
    """What became of the inputs of one reader."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    tracebacks: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)


def make_readers(folder: Path) -> dict[str, Reader]:
    """All readers, with what they need in a folder."""
    run, unfinished = make_run(folder)
    return {**file_readers(folder, run), **run_readers(folder, run, unfinished)}


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise Hang in the block when it takes longer."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def attempt(reader: Reader, content: bytes, limit: float) -> str:
    """ "accepted", "refused", "hang", or a traceback."""
    try:
        with alarm(limit), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(content)
    except InputError:
        return "refused"
    except Hang:
        return "hang"
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:  # whatever else escapes is what is looked for
        return traceback.format_exc()
    return "accepted"


def fuzz(readers: dict[str, Reader], inputs: int, seed: int, failures: Path, limit: float = 20.0) -> dict[str, Count]:
    """Try that many inputs, each reader its share of them."""
    found = {name: Count() for name in readers}
    whole = sum(reader.share for reader in readers.values())
    for name, reader in readers.items():
        count, started = found[name], time.monotonic()
        for number in range(-(-inputs * reader.share // whole)):
            content = reader.make(Random(f"{seed}/{name}/{number}"))
            outcome = attempt(reader, content, limit)
            count.inputs += 1
            if outcome == "accepted":
                count.accepted += 1
            elif outcome == "refused":
                count.refused += 1
            else:
                (count.hangs if outcome == "hang" else count.tracebacks).append(outcome)
                failures.mkdir(parents=True, exist_ok=True)
                place = failures / f"{name.replace(' ', '_')}-{number:06d}"
                place.write_bytes(content)
                place.with_suffix(".txt").write_text(outcome, encoding="utf-8", errors="replace")
        count.seconds = time.monotonic() - started
        print(f"{name}: {_line(count)}", file=sys.stderr, flush=True)
    return found


def replay(readers: dict[str, Reader], path: Path, limit: float) -> str:
    """What becomes of an input that was written as a failure."""
    name = path.name.rpartition("-")[0].replace("_", " ")
    if name not in readers:
        raise SystemExit(f"{path.name} does not begin with the name of a reader: {', '.join(readers)}.")
    return attempt(readers[name], path.read_bytes(), limit)


def table(found: dict[str, Count]) -> str:
    lines = ["| reader | inputs | accepted | refused with a message | tracebacks | hangs | inputs per second |"]
    lines.append("|---|---|---|---|---|---|---|")
    everything = Count(
        sum(count.inputs for count in found.values()),
        sum(count.accepted for count in found.values()),
        sum(count.refused for count in found.values()),
        sum(count.seconds for count in found.values()),
        [text for count in found.values() for text in count.tracebacks],
        [text for count in found.values() for text in count.hangs],
    )
    lines += [f"| {name} | {_line(count)} |" for name, count in [*found.items(), ("**all**", everything)]]
    return "\n".join(lines)


def _line(count: Count) -> str:
    numbers = count.inputs, count.accepted, count.refused, len(count.tracebacks), len(count.hangs)
    return " | ".join(f"{number:,}" for number in numbers) + f" | {count.inputs / max(count.seconds, 1e-9):,.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=140_000, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", nargs="*", help="only these")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that an input may take")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for what fails")
    parser.add_argument("--replay", type=Path, help="an input of that folder")
    options = parser.parse_args(arguments)
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ[name] = "1"
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    memory = Path("/dev/shm")  # without a disk it takes half the time
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        readers = make_readers(Path(folder))
        if options.replay is not None:
            print(replay(readers, options.replay, options.limit))
            return 0
        if options.reader:
            readers = {name: readers[name] for name in options.reader}
        found = fuzz(readers, options.inputs, options.seed, options.failures, options.limit)
    print("# Damaged inputs\n")
    print(f"`python benchmarks/fuzz.py {shlex.join(sys.argv[1:] if arguments is None else arguments)}`\n".replace(" `", "`"))
    print(f"Seed {options.seed}, at most {options.limit:g} s and {MEMORY / 2**30:g} GiB for an input.", end=" ")
    print(f"Python {platform.python_version()}, torch {torch.__version__}, one process of one thread.\n")
    print(table(found))
    return int(any(count.tracebacks or count.hangs for count in found.values()))


if __name__ == "__main__":
    sys.exit(main())
