"""Train for an hour in one process, in all ways that could leak, and see that memory and handles stay what they are.

    python benchmarks/soak.py --minutes 60 > benchmarks/results/soak.md

One round after the other: every method in turn on a small table, with checkpoints, evaluation and a report; a run that is
stopped by a signal and goes on from its checkpoint; images in files, read by worker processes; a cross-fit of a table of texts;
the scikit-learn classifier, saved and loaded; predictions and pseudo-labels of a run; inputs that are refused. Between rounds,
about every 20 s, after Python's garbage collection: resident memory, open files, threads, child processes, files that processes
which have ended have left in /dev/shm, temporary files. A line is fitted to the memory in the second half of the time. The exit
code is 1 where it grows by more than --megabytes from the middle to the end, or one of the other numbers is larger in the last
third than it ever was in the second. All files are made in a temporary folder, which is deleted.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import platform
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import softmatch
from softmatch.errors import InputError, Stopped
from softmatch.inference.predict import predict
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.report import write_report
from softmatch.runs.folder import RunFolder

INTERVAL = 20.0
SMALL: dict[str, Any] = {
    "steps": 12,
    "evaluate_every": 4,
    "checkpoint_every": 4,
    "labeled_batch": 8,
    "unlabeled_batch": 16,
    "threads": 1,
}
MEASURES = ("memory, MB", "open files", "threads", "child processes", "left in /dev/shm", "temporary files", "Python objects")
COUNTS = MEASURES[1:6]
"""Numbers that must not grow at all."""

Work = Callable[[], object]


class StopAfter:
    """A listener that sends this process a signal at the first record."""

    def understood(self, task: object, run: RunFolder) -> None:
        """Not of interest."""

    def record(self, role: str, record: dict[str, Any], steps: int) -> None:
        if role != "supervised":
            signal.raise_signal(signal.SIGTERM)

    def note(self, text: str) -> None:
        """Not of interest."""


def write_sources(folder: Path) -> None:
    """A table of texts and a folder of images."""
    words = (("card", "bank", "money"), ("parcel", "post", "courier"))
    lines = [f"help me with the {words[k % 2][k % 3]} of day {k},{('a', 'b')[k % 2] if k < 24 else ''}" for k in range(60)]
    (folder / "texts.csv").write_text("message,category\n" + "\n".join(lines))
    random = np.random.default_rng(0)
    for number in range(40):
        place = folder / "photos" / (("cat", "dog")[number % 2] if number < 24 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(place / f"{number}.png")


def rounds(folder: Path) -> Iterator[tuple[str, Work]]:
    """What is done, without end: each kind of work in turn, every other time training by the next method."""
    run, points, labels = folder / "run", np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3 - 1
    text_run = folder / "texts"

    def train(method: str) -> None:
        softmatch.train("two-moons", method=method, network="mlp-8", **SMALL, out=run)

    def resume() -> None:
        with suppress(Stopped):
            softmatch.train("two-moons", network="mlp-8", **SMALL, out=run, listener=StopAfter())
            raise AssertionError("the signal was not heard")
        softmatch.train(resume=run)

    def images() -> None:
        softmatch.train(
            str(folder / "photos"),
            network="small-conv-4",
            workers=2,
            evaluation="none",
            baseline=False,
            **SMALL | {"steps": 6},
            out=run,
        )

    def texts() -> None:
        shutil.rmtree(text_run, ignore_errors=True)
        settings = SMALL | {"steps": 6}
        softmatch.train(str(folder / "texts.csv"), network="mlp-8", evaluation="crossfit", folds=2, **settings, out=text_run)

    def use() -> None:
        predict(text_run, str(folder / "texts.csv"), run / "predictions.csv")
        write_pseudo_labels(text_run, run / "pseudo.csv")
        write_report(RunFolder(text_run))

    def classifier() -> None:
        fitted = softmatch.Classifier(steps=8, random_state=0).fit(points, labels)
        fitted.save(run / "classifier")
        assert np.array_equal(softmatch.Classifier.load(run / "classifier").predict(points), fitted.predict(points))

    def refused() -> None:
        damaged = folder / "damaged.csv"
        for content in (b"", b"x,label\n1\n", b"x,label\n1,\xff\n", b"\0" * 99):
            damaged.write_bytes(content)
            with suppress(InputError):
                softmatch.train(str(damaged), out=run)
                raise AssertionError("a damaged table was accepted")

    others: list[tuple[str, Work]] = [
        ("texts, cross-fit", texts),
        ("stopped and resumed", resume),
        ("images, worker processes", images),
        ("predictions, pseudo-labels, report", use),
        ("classifier", classifier),
        ("refused inputs", refused),
    ]
    for (name, work), method in zip(itertools.cycle(others), itertools.cycle(softmatch.METHODS)):
        for each in ((f"method {method}", lambda method=method: train(method)), (name, work)):
            shutil.rmtree(run, ignore_errors=True)
            if each[1] in (use, classifier):
                run.mkdir()
            yield each


def left_behind(before: set[str]) -> int:
    """Files in memory, new since the start, whose makers have ended."""
    place = Path("/dev/shm")
    if not place.is_dir():
        return 0
    makers = [name.split("_")[1] for name in {path.name for path in place.glob("torch_*_*")} - before]
    return sum(maker.isdigit() and not Path("/proc", maker).exists() for maker in makers)


def sample(temporary: Path, shared: set[str]) -> dict[str, float]:
    """The numbers of this moment."""
    gc.collect()
    own = Path("/proc/self")
    children = [pid for task in (own / "task").iterdir() for pid in (task / "children").read_text().split()]
    values = (
        int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
        len(list((own / "fd").iterdir())) - 1,  # without the one that lists them
        len(list((own / "task").iterdir())),
        len(children),
        left_behind(shared),
        sum(1 for _ in temporary.rglob("*")),
        len(gc.get_objects()),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def slope(times: list[float], values: list[float]) -> float:
    """Of the line with least squares, per second."""
    if len(times) < 2:
        return 0.0
    return float(np.polyfit(times, values, 1)[0])


def thirds(samples: list[dict[str, float]], name: str) -> tuple[float, float]:
    """The largest value in the second third, and in the last."""
    values, third = [each[name] for each in samples], len(samples) // 3
    return max(values[third : 2 * third] or values), max(values[2 * third :])


def judge(times: list[float], samples: list[dict[str, float]], megabytes: float) -> list[str]:
    """What has grown that should not."""
    wrong, half = [], len(samples) // 2
    grown = slope(times[half:], [each[MEASURES[0]] for each in samples[half:]]) * (times[-1] - times[half])
    if grown > megabytes:
        wrong.append(f"memory grew by {grown:.1f} MB from the middle to the end, {megabytes:g} are allowed")
    for name in COUNTS:
        before, last = thirds(samples, name)
        if last > before:
            wrong.append(f"{name}: at most {before:g} in the second third, {last:g} in the last")
    return wrong


def table(times: list[float], samples: list[dict[str, float]]) -> str:
    lines = ["| | first | median of the second half | largest, second third | largest, last third | last | growth per hour |"]
    lines.append("|---|---|---|---|---|---|---|")
    half = len(samples) // 2
    for name in MEASURES:
        values = [each[name] for each in samples]
        shown = values[0], statistics.median(values[half:]), *thirds(samples, name), values[-1]
        cells = [f"{value:,.1f}" if name == MEASURES[0] else f"{value:,.0f}" for value in shown]
        growth = "" if name in COUNTS else f"{3600 * slope(times[half:], values[half:]):+,.1f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {growth} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--megabytes", type=float, default=16.0, help="that memory may grow by in the second half")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done: Counter[str] = Counter()
    times: list[float] = []
    samples: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as made:
        folder, temporary = Path(made), Path(made, "temporary")
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        write_sources(folder)
        shared = {path.name for path in Path("/dev/shm").glob("torch_*_*")}
        started = time.monotonic()
        for name, work in rounds(folder):
            work()
            done[name] += 1
            now = time.monotonic() - started
            if not times or now - times[-1] >= INTERVAL or now >= 60 * options.minutes:
                times.append(now)
                samples.append(sample(temporary, shared))
                said = ", ".join(f"{key} {value:,.0f}" for key, value in samples[-1].items())
                print(f"{now / 60:5.1f} min, {done.total()} rounds: {said}", file=sys.stderr, flush=True)
            if now >= 60 * options.minutes:
                break
    wrong = judge(times, samples, options.megabytes)
    print("# A long time in one process\n")
    print(f"`python benchmarks/soak.py {shlex.join(sys.argv[1:])}`\n".replace(" `", "`"))
    methods = sum(name.startswith("method ") for name in done)
    others = "; ".join(f"{name}: {number:,}" for name, number in done.items() if not name.startswith("method "))
    print(
        f"{times[-1] / 60:.1f} minutes, {done.total():,} rounds, {len(samples)} samples. Trained by {methods} methods in turn: "
        f"{sum(number for name, number in done.items() if name.startswith('method ')):,}; {others}. "
        f"Python {platform.python_version()}, torch {torch.__version__}, one thread.\n"
    )
    print(table(times, samples))
    print("\nGrown: " + "; ".join(wrong) + "." if wrong else f"\nNothing has grown (memory: at most {options.megabytes:g} MB).")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
