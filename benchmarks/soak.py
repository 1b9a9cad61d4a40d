"""Train for an hour in one process, in all the ways that could leak, and check that memory and handles do not grow.

    python benchmarks/soak.py --minutes 60 > benchmarks/results/soak.md

The rounds take turns: every method on a small table, with checkpoints, evaluation and a report; a run that a signal stops and
that is resumed; image files read by worker processes; a cross-fit on texts; the scikit-learn classifier, saved and loaded;
predictions and pseudo-labels; rejected inputs. About every 20 s, after garbage collection, the numbers of MEASURES are sampled.
The exit code is 1 if a line fitted to the memory of the second half rises by more than --megabytes, or if another number is
larger in the last third than it ever was in the second.
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
from softmatch.report import write_report
from softmatch.runs import RunFolder
from softmatch.using.predicting import predict
from softmatch.using.pseudo_labels import write_pseudo_labels

INTERVAL = 20.0
SMALL: dict[str, Any] = {"steps": 12, "evaluate_every": 4, "checkpoint_every": 4, "threads": 1}
SMALL |= {"labeled_batch": 8, "unlabeled_batch": 16}
MEASURES = ("memory, MB", "open files", "threads", "child processes", "left in /dev/shm", "temporary files", "Python objects")
COUNTS = MEASURES[1:6]
"""Numbers that must not grow at all."""
SHARED = Path("/dev/shm")


class StopAtRecord:
    """A listener that sends this process a signal at the first record of the method."""

    def understood(self, task: object, run: RunFolder) -> None: ...

    def record(self, role: str, record: dict[str, Any], steps: int) -> None:
        if role != "supervised":
            signal.raise_signal(signal.SIGTERM)

    def note(self, text: str) -> None: ...


def write_sources(folder: Path) -> None:
    """Write a table of texts and a folder of images."""
    words = (("card", "bank", "money"), ("parcel", "post", "courier"))
    lines = [f"help me with the {words[k % 2][k % 3]} of day {k},{('a', 'b')[k % 2] if k < 24 else ''}" for k in range(60)]
    (folder / "texts.csv").write_text("message,category\n" + "\n".join(lines))
    random = np.random.default_rng(0)
    for number in range(40):
        place = folder / "photos" / (("cat", "dog")[number % 2] if number < 24 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(place / f"{number}.png")


class Rounds:
    """The kinds of work; each begins with an empty folder for its run."""

    def __init__(self, folder: Path) -> None:
        self.run, self.texts_run = folder / "run", folder / "texts"
        self.photos, self.texts_table, self.damaged = folder / "photos", folder / "texts.csv", folder / "damaged.csv"

    def method(self, name: str) -> None:
        softmatch.train("two-moons", method=name, model="mlp-8", **SMALL, out=self.run)

    def texts(self) -> None:
        shutil.rmtree(self.texts_run, ignore_errors=True)
        settings = SMALL | {"steps": 6, "model": "mlp-8", "evaluation": "crossfit", "folds": 2}
        softmatch.train(str(self.texts_table), **settings, out=self.texts_run)

    def resume(self) -> None:
        with suppress(Stopped):
            softmatch.train("two-moons", model="mlp-8", **SMALL, out=self.run, listener=StopAtRecord())
            raise AssertionError("the signal was not heard")
        softmatch.train(resume=self.run)

    def images(self) -> None:
        settings = SMALL | {"steps": 6, "model": "small-conv-4", "workers": 2, "evaluation": "none", "twin": False}
        softmatch.train(str(self.photos), **settings, out=self.run)

    def use(self) -> None:
        self.run.mkdir()
        predict(self.texts_run, str(self.texts_table), self.run / "predictions.csv")
        write_pseudo_labels(self.texts_run, self.run / "pseudo.csv")
        write_report(RunFolder(self.texts_run))

    def classifier(self) -> None:
        self.run.mkdir()
        points = np.random.default_rng(0).normal(size=(60, 3))
        fitted = softmatch.Classifier(steps=8, random_state=0).fit(points, np.arange(60) % 3 - 1)
        fitted.save(self.run / "classifier")
        assert np.array_equal(softmatch.Classifier.load(self.run / "classifier").predict(points), fitted.predict(points))

    def refused(self) -> None:
        for content in (b"", b"x,label\n1\n", b"x,label\n1,\xff\n", b"\0" * 99):
            self.damaged.write_bytes(content)
            with suppress(InputError):
                softmatch.train(str(self.damaged), out=self.run)
                raise AssertionError("a damaged table was accepted")

    def forever(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Each kind of work in turn; every other round trains with the next method."""
        others = {
            "texts, cross-fit": self.texts,
            "stopped and resumed": self.resume,
            "images, worker processes": self.images,
            "predictions, pseudo-labels, report": self.use,
            "classifier": self.classifier,
            "refused inputs": self.refused,
        }
        for other, method in zip(itertools.cycle(others.items()), itertools.cycle(softmatch.METHODS)):
            for each in ((f"method {method}", lambda method=method: self.method(method)), other):
                shutil.rmtree(self.run, ignore_errors=True)
                yield each


def sample(temporary: Path, shared: set[str]) -> dict[str, float]:
    """Measure this process now; `shared` names the shared-memory files that were there before."""
    gc.collect()
    own = Path("/proc/self")
    makers = [name.split("_")[1] for name in {path.name for path in SHARED.glob("torch_*_*")} - shared]
    values = (
        int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
        len(list((own / "fd").iterdir())) - 1,  # without the one that lists them
        len(list((own / "task").iterdir())),
        sum(len((task / "children").read_text().split()) for task in (own / "task").iterdir()),
        sum(maker.isdigit() and not Path("/proc", maker).exists() for maker in makers),  # by processes that have ended
        sum(1 for _ in temporary.rglob("*")),
        len(gc.get_objects()),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def slope(times: list[float], values: list[float]) -> float:
    """Return the least-squares slope per second."""
    return float(np.polyfit(times, values, 1)[0]) if len(times) > 1 else 0.0


def thirds(values: list[float]) -> tuple[float, float]:
    """Return the largest value of the second third and of the last."""
    third = len(values) // 3
    return max(values[third : 2 * third] or values), max(values[2 * third :])


def judge(times: list[float], samples: list[dict[str, float]], megabytes: float) -> list[str]:
    """List what has grown that should not."""
    wrong, half = [], len(samples) // 2
    grown = slope(times[half:], [each[MEASURES[0]] for each in samples[half:]]) * (times[-1] - times[half])
    if grown > megabytes:
        wrong.append(f"memory grew by {grown:.1f} MB from the middle to the end, {megabytes:g} are allowed")
    for name in COUNTS:
        before, last = thirds([each[name] for each in samples])
        if last > before:
            wrong.append(f"{name}: at most {before:g} in the second third, {last:g} in the last")
    return wrong


def table(times: list[float], samples: list[dict[str, float]]) -> str:
    lines = ["| | first | median of the second half | largest, second third | largest, last third | last | growth per hour |"]
    lines.append("|---|---|---|---|---|---|---|")
    half = len(samples) // 2
    for name in MEASURES:
        values = [each[name] for each in samples]
        shown = values[0], statistics.median(values[half:]), *thirds(values), values[-1]
        cells = [f"{value:,.1f}" if name == MEASURES[0] else f"{value:,.0f}" for value in shown]
        growth = "" if name in COUNTS else f"{3600 * slope(times[half:], values[half:]):+,.1f}"
        lines.append(f"| {name} | {' | '.join(cells)} | {growth} |")
    return "\n".join(lines)


def soak(minutes: float) -> tuple[Counter[str], list[float], list[dict[str, float]]]:
    """Return how often each kind of work was done, and the samples with their times."""
    done, times, samples = Counter[str](), list[float](), list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as made:
        folder, temporary = Path(made), Path(made, "temporary")
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        write_sources(folder)
        shared, started = {path.name for path in SHARED.glob("torch_*_*")}, time.monotonic()
        for name, work in Rounds(folder).forever():
            work()
            done[name] += 1
            now = time.monotonic() - started
            if not times or now - times[-1] >= INTERVAL or now >= 60 * minutes:
                times.append(now)
                samples.append(sample(temporary, shared))
                numbers = ", ".join(f"{key} {value:,.0f}" for key, value in samples[-1].items())
                print(f"{now / 60:5.1f} min, {done.total()} rounds: {numbers}", file=sys.stderr, flush=True)
            if now >= 60 * minutes:
                break
    return done, times, samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--megabytes", type=float, default=16.0, help="allowed growth of memory in the second half")
    options = parser.parse_args()
    torch.set_num_threads(1)
    done, times, samples = soak(options.minutes)
    wrong = judge(times, samples, options.megabytes)
    methods = {name: number for name, number in done.items() if name.startswith("method ")}
    others = "; ".join(f"{name}: {number:,}" for name, number in done.items() if name not in methods)
    print(f"# A long time in one process\n\n`python benchmarks/soak.py {shlex.join(sys.argv[1:])}`\n".replace(" `", "`"))
    print(
        f"{times[-1] / 60:.1f} minutes, {done.total():,} rounds, {len(samples)} samples. Training, {len(methods)} methods in "
        f"turn: {sum(methods.values()):,}; {others}. Python {platform.python_version()}, torch {torch.__version__}, one thread.\n"
    )
    print(table(times, samples))
    print("\nGrown: " + "; ".join(wrong) + "." if wrong else f"\nNothing has grown (memory: at most {options.megabytes:g} MB).")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
