"""Give damaged inputs to everything that reads a file, and count what happens.

    python benchmarks/fuzz.py --inputs 140000 --seed 0 > benchmarks/results/fuzz.md
    python benchmarks/fuzz.py --inputs 500 --reader csv npz
    python benchmarks/fuzz.py --replay fuzz-failures/csv-000123

Sound inputs are damaged in one or two ways: bytes, values, keys and cells are changed, cut, repeated and exchanged. Each must be
accepted, or refused with an InputError. Any other exception is a traceback, more than --limit seconds a hang; both are kept in
a folder, to be replayed. The inputs follow from the seed.
"""

import argparse
import os
import platform
import resource
import shlex
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType

import torch
from fuzz_readers import Reader, make_readers

from softmatch.errors import InputError

MEMORY = 6 * 2**30
"""Bytes that the process may use: an input that asks for more is a failure."""
OUTCOMES = ("accepted", "refused", "traceback", "hang")


class Hang(BaseException):
    """An input has taken too long. Not an Exception: no reader may catch it."""


def attempt(reader: Reader, content: bytes, limit: float) -> str:
    """Return "accepted", "refused", "hang", or a traceback."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            with warnings.catch_warnings(action="ignore"):
                reader.read(content)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        return "accepted"
    except InputError:
        return "refused"
    except Hang:
        return "hang"
    except (Exception, SystemExit):  # anything else that escapes is what we look for
        return traceback.format_exc()
    finally:
        signal.signal(signal.SIGALRM, before)


def fuzz(readers: dict[str, Reader], inputs: int, seed: int, failures: Path, limit: float = 20.0) -> dict[str, Counter[str]]:
    """Try this number of inputs, each reader its share of them; returns how often each outcome came."""
    found, whole = {name: Counter[str]() for name in readers}, sum(reader.share for reader in readers.values())
    for name, reader in readers.items():
        for number in range(-(-inputs * reader.share // whole)):
            content = reader.make(Random(f"{seed}/{name}/{number}"))
            outcome = attempt(reader, content, limit)
            found[name][outcome if outcome in OUTCOMES else "traceback"] += 1
            if outcome not in ("accepted", "refused"):
                failures.mkdir(parents=True, exist_ok=True)
                place = failures / f"{name.replace(' ', '_')}-{number:06d}"
                place.write_bytes(content)
                place.with_suffix(".txt").write_text(outcome, encoding="utf-8", errors="replace")
        print(f"{name}: {dict(found[name])}", file=sys.stderr, flush=True)
    return found


def replay(readers: dict[str, Reader], path: Path, limit: float) -> str:
    """Try an input again that was written as a failure."""
    return attempt(readers[path.name.rpartition("-")[0].replace("_", " ")], path.read_bytes(), limit)


def table(found: dict[str, Counter[str]]) -> str:
    lines = ["| reader | inputs | accepted | refused with a message | tracebacks | hangs |", "|---|---|---|---|---|---|"]
    for name, count in (*found.items(), ("**all**", sum(found.values(), Counter[str]()))):
        numbers = (count.total(), *(count[outcome] for outcome in OUTCOMES))
        lines.append(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=140_000, help="number of inputs of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", nargs="*", help="only these readers")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds allowed for an input")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for the inputs that fail")
    parser.add_argument("--replay", type=Path, help="an input in that folder to try again")
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    memory = Path("/dev/shm")  # without a disk it takes half the time
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        readers = make_readers(Path(folder))
        if options.replay is not None:
            print(replay(readers, options.replay, options.limit))
            return 0
        chosen = {name: readers[name] for name in options.reader or readers}
        found = fuzz(chosen, options.inputs, options.seed, options.failures, options.limit)
    print(f"# Damaged inputs\n\n`python benchmarks/fuzz.py {shlex.join(sys.argv[1:])}`\n".replace(" `", "`"))
    print(f"Seed {options.seed}, at most {options.limit:g} s and {MEMORY / 2**30:g} GiB for an input.", end=" ")
    print(f"Python {platform.python_version()}, torch {torch.__version__}, one process of one thread.\n")
    print(table(found))
    return int(any(count["traceback"] or count["hang"] for count in found.values()))


if __name__ == "__main__":
    sys.exit(main())
