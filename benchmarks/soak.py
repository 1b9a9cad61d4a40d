"""Train for an hour in one process, in all the ways that could leak, and check that memory and handles do not grow.

    python benchmarks/soak.py --minutes 60 > benchmarks/results/soak.md

Rounds of training, stopping, resuming, predicting and rejecting inputs take turns. About every 20 s, after garbage collection,
the numbers of MEASURES are sampled. The exit code is 1 if a line fitted to the memory of the second half rises by more than
--megabytes, or if another number is larger in the last third than it ever was in the second.
"""

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_data import texts, write_photos

import softmatch
from softmatch.errors import InputError, Stopped
from softmatch.inference.predict import predict
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.report import write_report
from softmatch.runs.folder import RunFolder
from softmatch.training.fit import Watcher

INTERVAL = 20.0
SMALL: Any = {"steps": 12, "evaluate_every": 4, "checkpoint_every": 4, "threads": 1, "labeled_batch": 8, "unlabeled_batch": 16}
MEASURES = ("memory, MB", "open files", "threads", "child processes", "left in /dev/shm", "temporary files", "Python objects")
COUNTS = MEASURES[1:6]
"""Numbers that must not grow at all."""
SHARED = Path("/dev/shm")


class StopAtRecord(Watcher):
    """A watcher that sends this process a signal at the first record of the method."""

    def record(self, role: str, record: dict[str, Any], steps: int) -> None:
        if role != "supervised":
            signal.raise_signal(signal.SIGTERM)


class Rounds:
    """The kinds of work; each makes the folder `run` anew."""

    def __init__(self, folder: Path) -> None:
        self.run, self.texts_run, self.damaged = folder / "run", folder / "texts", folder / "damaged.csv"
        self.photos, self.table = write_photos(folder / "photos", labeled=24, unlabeled=16), folder / "texts.csv"
        self.table.write_text(texts(60, labeled=24))

    def method(self, name: str) -> None:
        softmatch.train("two-moons", method=name, network="mlp-8", **SMALL, out=self.run)

    def texts(self) -> None:
        shutil.rmtree(self.texts_run, ignore_errors=True)
        settings = SMALL | {"steps": 6, "network": "mlp-8", "evaluation": "crossfit", "folds": 2}
        softmatch.train(str(self.table), **settings, out=self.texts_run)

    def resume(self) -> None:
        with suppress(Stopped):
            stopping = StopAtRecord()  # type: ignore[abstract]  # its other methods do nothing
            assert not softmatch.train("two-moons", network="mlp-8", **SMALL, out=self.run, watcher=stopping)
        softmatch.train(resume=self.run)

    def images(self) -> None:
        settings = SMALL | {"steps": 6, "network": "small-conv-4", "workers": 2, "evaluation": "none", "baseline": False}
        softmatch.train(str(self.photos), **settings, out=self.run)

    def use(self) -> None:
        self.run.mkdir()
        predict(self.texts_run, str(self.table), self.run / "predictions.csv")
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
                assert not softmatch.train(str(self.damaged), out=self.run), "a damaged table was accepted"

    def forever(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Each kind of work in turn; every other round trains with the next method."""
        others = {"texts, cross-fit": self.texts, "stopped and resumed": self.resume, "images, worker processes": self.images}
        others |= {"predictions, pseudo-labels, report": self.use, "classifier": self.classifier, "refused inputs": self.refused}
        for other, method in zip(itertools.cycle(others.items()), itertools.cycle(softmatch.METHODS)):
            yield f"method {method}", partial(self.method, method)
            yield other


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


def judge(times: list[float], samples: list[dict[str, float]], megabytes: float) -> list[str]:
    """List what has grown that should not."""
    wrong, half, third = [], len(samples) // 2, len(samples) // 3
    grown = slope(times[half:], [each[MEASURES[0]] for each in samples[half:]]) * (times[-1] - times[half])
    if grown > megabytes:
        wrong.append(f"memory grew by {grown:.1f} MB from the middle to the end, {megabytes:g} are allowed")
    for name in COUNTS:
        values = [each[name] for each in samples]
        before, last = max(values[third : 2 * third] or values), max(values[2 * third :])
        if last > before:
            wrong.append(f"{name}: at most {before:g} in the second third, {last:g} in the last")
    return wrong


def table(times: list[float], samples: list[dict[str, float]]) -> str:
    lines, half = ["| | first | median of the second half | last | growth per hour |", "|---|---|---|---|---|"], len(samples) // 2
    for name in MEASURES:
        values = [each[name] for each in samples]
        shown = values[0], statistics.median(values[half:]), values[-1]
        growth = "" if name in COUNTS else f"{3600 * slope(times[half:], values[half:]):+,.1f}"
        lines.append(f"| {name} | {' | '.join(f'{value:,.{int(name == MEASURES[0])}f}' for value in shown)} | {growth} |")
    return "\n".join(lines)


def soak(minutes: float) -> tuple[Counter[str], list[float], list[dict[str, float]]]:
    """Return how often each kind of work was done, and the samples with their times."""
    done, times, samples = Counter[str](), list[float](), list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as made:
        folder, temporary = Path(made), Path(made, "temporary")
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        shared, started = {path.name for path in SHARED.glob("torch_*_*")}, time.monotonic()
        for name, work in Rounds(folder).forever():
            shutil.rmtree(folder / "run", ignore_errors=True)
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
