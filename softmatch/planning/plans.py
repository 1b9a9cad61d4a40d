"""The plan of a run: hours, memory and files on some GPUs or on this machine, and sums over runs and the paper's experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.sheet import Run
from softmatch.networks import is_encoder
from softmatch.planning.costs import FLOAT, Passes, random_task
from softmatch.planning.counts import Counted, count, device_memory, host_memory, run_storage, shared_storage
from softmatch.planning.gpus import GPUS_OF_A_MACHINE, Device, Range, rates
from softmatch.planning.setting import named_setting
from softmatch.training.bench import device_name, measure
from softmatch.training.memory import keep_freed_memory
from softmatch.training.setup import build_method, make_trainer

HOST_SECONDS = Range(1.1e-5, 5.9e-5)
"""For the host to start an operation on a GPU. Low: in steps of tiny tensors on one core (benchmarks/results/plan.md). High:
NVIDIA's ResNet-50 for one image on a V100, 10.4 ms for 176 operations, from the same page as `gpus.SHARES`."""
ARITHMETIC, HOST, GRADIENTS = "arithmetic of the steps", "the host, in between", "sum of gradients"
BASELINE, FEATURES, WHOLE, NONE = "the supervised baseline", "features, once", "paper", Range(0.0, 0.0)
STEPS, BUDGET = 4, 30.0
"""Steps that are timed on this machine, and most seconds for them."""


@dataclass(frozen=True)
class Plan:
    """A run on some GPUs, or on this machine (device None).

    Attributes:
        step, parts: seconds of a step, and of the whole run by part.
        speed: source of the times, in words.
    """

    counted: Counted
    gpus: int
    device: Device | None
    step: Range
    parts: dict[str, Range]
    speed: str

    @property
    def seconds(self) -> Range:
        return sum(self.parts.values(), NONE)

    @property
    def gpu_hours(self) -> Range:
        return self.seconds * (self.gpus / 3600)

    @property
    def overhead(self) -> Range:
        """Share of the time that is not the arithmetic of the method's own steps."""
        own, total = self.parts[ARITHMETIC], self.seconds
        return Range(*sorted((1 - own.low / max(total.low, 1e-12), 1 - own.high / max(total.high, 1e-12))))

    @property
    def left_out(self) -> str | None:
        """Sentence on what the hours leave out."""
        if not self.counted.state_per_sample or self.device is None:
            return None
        name = self.counted.setting.config.method
        return f"{name} remembers every sample: work that grows with the unlabelled set is not in these hours (docs/scale.md)."

    def as_dict(self) -> dict[str, Any]:
        """The plan in bytes, seconds and FLOPs; estimates are ranges."""
        counted, (_, config, data) = self.counted, self.counted.setting
        return {
            "method": config.method,
            "network": counted.network,
            "parameters": counted.cost.parameters + counted.heads,
            "trained_parameters": counted.cost.trained + counted.heads,
            "classes": data.classes,
            "labeled": counted.labeled,
            "unlabeled": counted.unlabeled,
            "tested": counted.tested,
            "steps": config.steps,
            "samples_per_step": counted.passes.samples,
            "views_per_step": counted.passes.views,
            "samples": config.steps * counted.passes.samples,
            "epochs": counted.epochs,
            "forward_flops_of_a_sample": counted.cost.forward,
            "flops_per_step": counted.step_flops(counted.passes),
            "flops": counted.flops,
            "trainings": counted.folds + 1,
            "baselines": counted.baselines,
            "step_seconds": self.step,
            "seconds": self.seconds,
            "seconds_by_part": self.parts,
            "overhead_share": self.overhead,
            "gpu_hours": self.gpu_hours,
            "memory_bytes": device_memory(self.counted, self.gpus),
            "host_bytes": host_memory(self.counted),
            "state_bytes": counted.state,
            "state_bytes_per_sample": counted.state_per_sample,
            "storage_bytes": run_storage(self.counted),
            "speed": self.speed,
            "left_out": self.left_out,
        }


def gpu_plan(counted: Counted, device: Device, gpus: int = 1) -> Plan:
    """Estimate by data sheet. A GPU computes while its host starts operations; gradients are summed after the backward pass."""
    work = "texts" if is_encoder(counted.network) or counted.network.startswith("mlp") else "images"
    rate = rates(device, work, counted.setting.config.precision)
    alone = Range(1 / rate.high, 1 / rate.low)
    where = f"Estimate: NVIDIA {device.sheet}; shares of the peak from the paper's times (low) and NVIDIA's own (high)"
    sent = 2 * (gpus - 1) / gpus * (FLOAT * (counted.cost.trained + counted.heads) + counted.state_trained)
    sent /= device.link if gpus <= GPUS_OF_A_MACHINE else device.between

    def step(passes: Passes) -> tuple[Range, Range, Range]:
        arithmetic, host = alone * (counted.step_flops(passes) / gpus), HOST_SECONDS * counted.step_operations(passes)
        waiting = Range(max(host.low - arithmetic.low, 0.0), max(host.high - arithmetic.high, 0.0))
        return arithmetic, waiting, Range(sent, 2 * sent)

    steps, own, baseline = counted.setting.config.steps, step(counted.passes), sum(step(counted.baseline), NONE)
    parts = {name: part * (steps * (counted.folds + 1)) for name, part in zip((ARITHMETIC, HOST, GRADIENTS), own, strict=True)}
    parts |= {BASELINE: baseline * (steps * counted.baselines), **_readings(counted, alone, gpus)}
    return Plan(counted, gpus, device, sum(own, NONE), {name: part for name, part in parts.items() if part.high}, where)


def _readings(counted: Counted, alone: Range, gpus: int) -> dict[str, Range]:
    """Seconds beside the steps. Features are computed by one process, for which all wait."""
    surveys = (counted.folds + 1) * counted.surveys * counted.unlabeled
    return {
        "evaluations": alone * (counted.evaluations * counted.tested * counted.read / gpus),
        "predictions of the unlabelled set": alone * (surveys * counted.read / gpus),
        FEATURES: alone * counted.prepared,
    }


def measured_plan(counted: Counted, device: str) -> Plan:
    """Time a few steps of the method, and of its baseline, on this machine (auto, cpu, cuda, mps) with random data."""
    if is_encoder(counted.network):
        raise InputError("--measure needs the texts and the encoder: use softmatch train with the same settings and --dry-run.")
    keep_freed_memory()
    task = random_task(counted.setting, counted.setting.data.shape, device)
    found = {}
    for name in dict.fromkeys((task.config.method, *(["supervised"] if counted.baselines else []))):
        trainer = make_trainer(task, build_method(task, name))
        found[name] = measure(trainer, STEPS, budget=BUDGET)
        trainer.batches.close()
    own, steps = found[task.config.method], counted.setting.config.steps
    computed = sum(own.parts.get(part, 0.0) for part in ("forward", "backward")) / sum(own.parts.values())
    each = Range(own.seconds, own.seconds)
    parts = {ARITHMETIC: each * (steps * (counted.folds + 1) * computed)}
    parts["views, loss, optimiser, records"] = each * (steps * (counted.folds + 1) * (1 - computed))
    if counted.baselines:
        seconds = found["supervised"].seconds
        parts[BASELINE] = Range(seconds, seconds) * (steps * counted.baselines)
    parts |= _readings(counted, each * (1 / own.flops), 1)
    where = f"Measured: {len(own.step)} steps on {device_name(task.device)}, {torch.get_num_threads()} threads, random data"
    return Plan(counted, 1, None, each, {name: part for name, part in parts.items() if part.high}, where)


class Total(NamedTuple):
    """Cost of several runs; price in the currency that was given, storage in bytes with what the runs share."""

    runs: int
    gpu_hours: Range
    price: Range | None
    storage_bytes: float


def sum_up(plans: Sequence[Plan], seeds: int, price: float | None) -> Total:
    """The plans with so many seeds each; features of an encoder are computed for the first run and kept for all others."""
    runs, first = seeds * len(plans), plans[0]
    hours = sum((plan.gpu_hours for plan in plans), NONE) * seeds
    hours += first.parts.get(FEATURES, NONE) * (first.gpus / 3600 * (1 - runs))
    storage = seeds * sum(sum(run_storage(plan.counted).values()) for plan in plans) + sum(
        shared_storage(first.counted.setting).values()
    )
    return Total(runs, hours, None if price is None else hours * price, storage)


class Share(NamedTuple):
    """One experiment of the paper, or all of them together; runs that differ in their seed alone cost the same."""

    name: str
    runs: int
    flops: float
    gpu_hours: Range
    storage_bytes: float


def is_experiment(name: str | None) -> bool:
    """True for a table or figure of the paper, and for "paper", which is all of them."""
    return name == WHOLE or name in EXPERIMENTS


def plan_experiments(name: str, device: Device, gpus: int = 1) -> list[Share]:
    """Each experiment at the paper's scale; last all together, where runs that several share are counted once."""
    chosen = EXPERIMENTS.values() if name == WHOLE else [EXPERIMENTS[name]]
    sheets = {each.name: {run.key: run for sheet in each.sheets.get("paper", ()) for run in sheet.runs()} for each in chosen}
    sheets = {key: runs for key, runs in sheets.items() if runs}
    if not sheets:
        raise InputError(f"{name} is drawn without training anything: there is nothing to plan.")
    if len(sheets) > 1:
        sheets["all"] = {key: run for runs in sheets.values() for key, run in runs.items()}
    planned: dict[str, Plan] = {}

    def plan(run: Run) -> Plan:
        key = repr((run.source, {name: value for name, value in run.settings.items() if name != "seed"}))
        if key not in planned:
            planned[key] = gpu_plan(count(named_setting(run.source, (run.settings,), "cuda", run.name), gpus), device, gpus)
        return planned[key]

    return [_share(key, [plan(run) for run in runs.values()]) for key, runs in sheets.items()]


def _share(name: str, plans: Sequence[Plan]) -> Share:
    hours, storage = sum((plan.gpu_hours for plan in plans), NONE), sum(sum(run_storage(plan.counted).values()) for plan in plans)
    return Share(name, len(plans), sum(plan.counted.flops for plan in plans), hours, storage)
