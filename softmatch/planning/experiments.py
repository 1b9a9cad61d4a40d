"""The paper's tables and figures in GPU-hours, at the paper's own scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.paper.scales import Scale
from softmatch.experiments.sheet import Run
from softmatch.planning.devices import Device, Range
from softmatch.planning.plans import Plan, count, make_plan
from softmatch.planning.setting import named_setting
from softmatch.planning.timing import gpu_speed

WHOLE = "paper"
"""The name that stands for all of them."""
SCALE: Scale = "paper"


@dataclass(frozen=True)
class Share:
    """Of one experiment, or of all of them together.

    Attributes:
        runs: trainings of the paper's sheets; what two cells share is one.
        flops: of all runs.
    """

    name: str
    title: str
    runs: int
    flops: float
    gpu_hours: Range
    storage: float

    def as_dict(self, price: float | None = None) -> dict[str, Any]:
        """For JSON: estimates are [low, high].

        Args:
            price: of a GPU-hour.
        """
        return {
            "name": self.name,
            "title": self.title,
            "runs": self.runs,
            "flops": self.flops,
            "gpu_hours": [self.gpu_hours.low, self.gpu_hours.high],
            "price": None if price is None else [price * self.gpu_hours.low, price * self.gpu_hours.high],
            "storage_bytes": self.storage,
        }


def is_experiment(name: str | None) -> bool:
    """Whether it is a table or figure of the paper, or "paper" for all of them."""
    return name == WHOLE or name in EXPERIMENTS


def plan_experiments(name: str, device: Device, gpus: int = 1) -> list[Share]:
    """Each experiment, and last all together, where runs that several share are counted once."""
    chosen = list(EXPERIMENTS.values()) if name == WHOLE else [EXPERIMENTS[name]]
    planned: dict[str, Plan] = {}
    every: dict[str, Run] = {}
    found = []
    for experiment in chosen:
        runs = {run.key: run for sheet in experiment.sheets.get(SCALE, ()) for run in sheet.runs()}
        every |= runs
        if runs:
            found.append(_share(experiment.name, experiment.title, runs.values(), device, gpus, planned))
    if not found:
        raise InputError(f"{name} is drawn without training anything: there is nothing to plan.")
    if len(found) > 1:
        found.append(_share("all", "what several share is run once", every.values(), device, gpus, planned))
    return found


def _share(name: str, title: str, runs: Iterable[Run], device: Device, gpus: int, planned: dict[str, Plan]) -> Share:
    plans = [_plan(run, device, gpus, planned) for run in runs]
    return Share(
        name,
        title,
        len(plans),
        sum(plan.counted.work.total for plan in plans),
        _sum([plan.gpu_hours for plan in plans]),
        sum(sum(plan.storage.values()) for plan in plans),
    )


def _plan(run: Run, device: Device, gpus: int, planned: dict[str, Plan]) -> Plan:
    """Runs that differ in their seed alone cost the same."""
    key = repr((run.source, {name: value for name, value in run.settings.items() if name != "seed"}))
    if key not in planned:
        setting = named_setting(run.source, (run.settings,), "cuda", run.name)
        counted = count(setting, gpus)
        planned[key] = make_plan(counted, gpus, device, gpu_speed(device, counted.cost.work, setting.config.precision))
    return planned[key]


def _sum(values: Sequence[Range]) -> Range:
    return sum(values, Range(0.0, 0.0))
