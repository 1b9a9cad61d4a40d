"""The cheapest real runs, and methods that fail or are slow, for tests of sweeps and executors."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from softmatch.experiments.sheet import Run
from softmatch.experiments.sweep import Listener

TINY: dict[str, Any] = {
    "steps": 6,
    "evaluate_every": 3,
    "checkpoint_every": 2,
    "labeled_batch": 4,
    "unlabeled_batch": 8,
    "network": "mlp-8",
    "device": "cpu",
    "baseline": False,
}
METHODS = """
import time
from pathlib import Path
from softmatch.weightings import Constant

class Flaky(Constant):
    "Fails at its fourth step, when the second is saved; but only once."
    marker, steps = Path(__file__).with_name("failed-before"), 0

    def update(self, seen):
        self.steps += 1
        if self.steps == 4 and not self.marker.exists():
            while not list(self.marker.parent.glob("*/runs/*Flaky*/checkpoints/step-*2.safetensors")):
                time.sleep(0.01)
            self.marker.touch()
            raise RuntimeError("the fourth step")

class Slow(Constant):
    "Takes its time while there is a file of that name."
    def update(self, seen):
        if Path("slow").exists():
            time.sleep(0.1)

class Broken(Constant):
    def update(self, seen):
        raise RuntimeError("no such luck")
"""


def tiny(seed: int = 0, **more: Any) -> Run:
    return Run("two-moons", {**TINY, "seed": seed, **more})


def wait_for(what: Callable[[], object], seconds: float = 180.0) -> None:
    """Until it is true; a machine may be busy."""
    latest = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < latest, "waited in vain"
        time.sleep(0.02)


def times(folder: Path) -> dict[Path, int]:
    """When each file of a folder was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


class Heard(Listener):
    """A listener that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def begins(self, waiting: Sequence[Run]) -> None:
        self.events.append(("begins", len(waiting)))

    def retried(self, run: Run, attempt: int, message: str) -> None:
        self.events.append(("retried", run.key, attempt, message))

    def elsewhere(self, run: Run) -> None:
        self.events.append(("elsewhere", run.key))
