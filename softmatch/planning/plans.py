"""The plan of a run: counts, hours, memory and files on GPUs or on this machine; sums over runs and the paper's experiments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import torch

from softmatch.data.sources.open_texts import TEXTS
from softmatch.data.split import LONGEST_LIST
from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.experiments.sheet import Run
from softmatch.networks import choose_network
from softmatch.planning import costs
from softmatch.planning.costs import (
    FLOAT,
    NetworkCost,
    Passes,
    Setting,
    count_passes,
    named_setting,
    planned_method,
    planned_network,
    state_bytes,
)
from softmatch.planning.gpus import Device, Range, rates
from softmatch.training import bench
from softmatch.training.arithmetic import keep_freed_memory
from softmatch.training.setup import RECORDS_PER_RUN, restored_state

BATCH, NUMBERS, HIDDEN = 16_384, 50_000_000, 16
"""The largest batch and the most numbers in it, as a step is tried with real batches; features of a network that shows none."""
INDEX, MOMENTS = 8, {"sgd": 1, "adam": 2, "adamw": 2, "muon": 1}
"""Bytes of a position; numbers that an optimiser keeps for each number of the weights."""
AT_WORK, PATH, KEPT, SAMPLES = 5, 350, 3, 16
"""Tensors of the largest size at work at once, and bytes of a file's path (benchmarks/results/plan.md); checkpoints that are
kept, and samples in a model's folder."""
HOST, OF_ONE_VIEW = Range(0.003, 0.07), 0.25
"""Seconds in which a host starts the operations of a step, from a perceptron's to CIFAR-10's with its views; a GPU is not faster.
An earlier version counted them (docs/scale.md). One view of each sample takes about a quarter."""
WHOLE, NONE = "paper", Range(0.0, 0.0)


@dataclass(frozen=True)
class Counted:
    """Figures of a run that do not depend on the device.

    Attributes:
        passes, baseline: of a step of the method, and of its supervised baseline.
        heads: numbers in the heads that the method adds to the network.
        state, state_trained, state_per_sample: bytes that the method remembers, its own parameters among them, and growth.
        folds, baselines: further trainings of a cross-fit, and trainings of the baseline.
        surveys: times that a training predicts the whole unlabelled set.
    """

    setting: Setting
    network: str
    cost: NetworkCost
    passes: Passes
    baseline: Passes
    heads: int
    state: int
    state_trained: int
    state_per_sample: int
    labeled: int
    unlabeled: int
    tested: int
    folds: int
    baselines: int
    surveys: int

    @property
    def predicted(self) -> int:
        """Samples that all trainings predict: test samples in evaluations, and the unlabelled set in surveys."""
        steps, every = self.setting.config.steps, self.setting.config.evaluate_every
        evaluations = ((self.folds or 1) + self.baselines) * ceil(steps / (every or max(steps // RECORDS_PER_RUN, 1)))
        return evaluations * self.tested + (self.folds + 1) * self.surveys * self.unlabeled

    def step_flops(self, passes: Passes) -> float:
        """FLOPs of a step. A derivative by the input alone costs as much as a forward pass."""
        inputs = passes.backward_rows - passes.learned_rows
        return (passes.forward_rows + inputs) * self.cost.forward + passes.learned_rows * self.cost.backward

    @property
    def flops(self) -> float:
        """FLOPs of the whole run."""
        steps = (self.folds + 1) * self.step_flops(self.passes) + self.baselines * self.step_flops(self.baseline)
        return self.setting.config.steps * steps + self.predicted * self.cost.forward


def count(setting: Setting, processes: int = 1) -> Counted:
    """Count what a run does; InputError if the method or the network cannot serve the setting."""
    config, data = setting.config, setting.data
    name = choose_network(config.network, data.kind, data.shape)
    network, cost = planned_network(name, data.shape, data.classes)
    features = cost.features or HIDDEN
    most = min(BATCH, NUMBERS // (features + data.classes))
    for option, value in (("--labeled-batch", config.labeled_batch), ("--unlabeled-batch", config.unlabeled_batch)):
        if value > most:
            raise InputError(f"{option} {value}: a plan is made for batches of up to {most:,} here. Give fewer.")
    task = costs.probe_task(setting, features)
    split, folds = task.split, len(task.evaluation.folds)
    unlabeled = len(split.unlabeled) + data.train - len(task.examples)
    asked = replace(task, num_features=cost.features, network=name, processes=processes)
    method = planned_method(asked, unlabeled)
    grown = state_bytes(planned_method(asked, unlabeled + 1)) - state_bytes(method)
    method.begin(network, lambda module: torch.optim.SGD(module.parameters(), lr=1.0))
    return Counted(
        setting=setting,
        network=name,
        cost=cost,
        passes=count_passes(task, config.method),
        baseline=count_passes(task, "supervised"),
        heads=sum(weight.numel() for head in method.heads(features).values() for weight in head.parameters()),
        state=state_bytes(method),
        state_trained=sum(weight.nbytes for weight in method.parameters()),
        state_per_sample=grown,
        labeled=len(split.labeled),
        unlabeled=unlabeled,
        tested=data.tested or len(split.test) or (len(split.labeled) // folds if folds else 0),
        folds=folds,
        baselines=(folds or 1) * task.has_baseline,
        surveys=method.generations - 1 + ((config.steps - 1) // method.survey_every if method.survey_every else 0),
    )


def device_memory(counted: Counted, processes: int = 1) -> dict[str, float]:
    """Bytes on the device of each process, without CUDA's own part: weights and data are whole, activations are its share."""
    (_, config, data), cost, passes = counted.setting, counted.cost, counted.passes
    trained, half = FLOAT * (cost.parameters + counted.heads), 0.5 if config.precision != "float32" else 1.0
    moments, joint = MOMENTS[config.optimizer], 2 if config.batch_statistics == "joint" else 1  # all views once more
    return {
        "weights": cost.state + FLOAT * counted.heads,
        "gradients": trained * (1 if processes == 1 else 2),  # once more as one message
        "optimiser": trained * moments,
        "averaged weights": cost.state + FLOAT * counted.heads,
        "activations": cost.saved * half * passes.learned_rows / processes,
        "work on the largest layer": AT_WORK * cost.largest * half * passes.forward_rows / max(passes.forward, 1) / processes,
        "views of the batch": passes.views / processes * FLOAT * prod(data.shape) * joint,
        "data": data.held + INDEX * counted.unlabeled + counted.labeled * data.item_bytes * (data.files is None),
        "the method's state": counted.state + counted.state_trained * (1 + moments),
    }


def host_memory(counted: Counted) -> dict[str, float]:
    """Bytes on the host of each process that grow with the data."""
    data = counted.setting.data
    files = {"paths of files": PATH * data.train} if data.files is not None else {"data": data.held}
    return {"shuffles and positions": 3 * INDEX * counted.unlabeled, "labels": INDEX * data.train, **files}


def checkpoint_bytes(counted: Counted, baseline: bool = False) -> float:
    """A checkpoint: weights, average, optimiser and last predictions; of the method itself also its state."""
    cost, moments, heads = counted.cost, MOMENTS[counted.setting.config.optimizer], 0 if baseline else FLOAT * counted.heads
    own = 0 if baseline else counted.state + moments * counted.state_trained
    weights = 2 * (cost.state + heads) + moments * (FLOAT * cost.parameters + heads)
    return weights + own + FLOAT * counted.tested * counted.setting.data.classes


def run_storage(counted: Counted) -> dict[str, float]:
    """A finished run folder but its records and report, which take less than a megabyte as a rule."""
    data, long = counted.setting.data, counted.unlabeled == counted.setting.data.train >= LONGEST_LIST  # a row of two numbers
    listed = counted.labeled + (0 if long else counted.unlabeled + counted.tested * (not data.tested))
    baseline = KEPT * checkpoint_bytes(counted, baseline=True) + counted.cost.state
    return {
        "checkpoints": KEPT * checkpoint_bytes(counted),
        "model": counted.cost.state + SAMPLES * data.item_bytes,
        "baseline": baseline * (counted.baselines == 1 and not counted.folds),
        "split.json": listed * (4 + len(str(data.train))),
    }


def gpu_plan(counted: Counted, device: Device, gpus: int = 1) -> dict[str, Any]:
    """Estimate by data sheet: arithmetic at a range of speeds, but no step faster than its host."""
    rate = rates(device, counted.setting.config.precision)
    of_a_flop = Range(1 / rate.high / gpus, 1 / rate.low / gpus)
    own, baseline = (
        (of_a_flop * counted.step_flops(passes)).at_least(HOST * (OF_ONE_VIEW if passes.views == passes.samples else 1.0))
        for passes in (counted.passes, counted.baseline)
    )
    speed = f"Estimate: NVIDIA {device.sheet}; shares of the peak from the paper's times (low) and NVIDIA's own (high)"
    grows = ". Work of the method that grows with the unlabelled set is left out" if counted.state_per_sample else ""
    return _figures(counted, (own, baseline, of_a_flop), gpus, speed + grows)


@restored_state()
def measured_plan(counted: Counted, device: str) -> dict[str, Any]:
    """Time a few steps of the method, and of its baseline, on this machine (auto, cpu, cuda, mps) with random data."""
    keep_freed_memory()
    found = bench.plan(costs.random_job(counted.setting, counted.setting.data.shape, device))
    own, baseline = found.step, found.baseline or 0.0
    times = tuple(Range(value, value) for value in (own, baseline, own / found.measurement.flops))
    where = f"{bench.device_name(found.task.device)}, {torch.get_num_threads()} threads"
    return _figures(counted, times, 1, f"Measured: {len(found.measurement.step)} steps on {where}, random data")


def _figures(counted: Counted, times: tuple[Range, ...], gpus: int, speed: str) -> dict[str, Any]:
    """The plan in bytes, seconds and FLOPs; estimates are ranges.

    Args:
        times: seconds of a step, of a step of the baseline, and of a FLOP of predictions.
    """
    (_, config, data), (step, baseline, of_a_flop) = counted.setting, times
    parts = {
        "steps": step * (config.steps * (counted.folds + 1)),
        "the supervised baseline": baseline * (config.steps * counted.baselines),
        "evaluations and surveys": of_a_flop * (counted.predicted * counted.cost.forward),
    }
    seconds = sum(parts.values(), NONE)
    return {
        "method": config.method,
        "network": counted.network,
        "parameters": counted.cost.parameters + counted.heads,
        "classes": data.classes,
        "labeled": counted.labeled,
        "unlabeled": counted.unlabeled,
        "tested": counted.tested,
        "steps": config.steps,
        "samples_per_step": counted.passes.samples,
        "views_per_step": counted.passes.views,
        "samples": config.steps * counted.passes.samples,
        "epochs": config.steps * (counted.passes.samples - counted.baseline.samples) / counted.unlabeled,
        "forward_flops_of_a_sample": counted.cost.forward,
        "flops_per_step": counted.step_flops(counted.passes),
        "flops": counted.flops,
        "trainings": counted.folds + 1,
        "baselines": counted.baselines,
        "step_seconds": step,
        "seconds": seconds,
        "seconds_by_part": {name: part for name, part in parts.items() if part.high},
        "gpu_hours": seconds * (gpus / 3600),
        "memory_bytes": device_memory(counted, gpus),
        "host_bytes": host_memory(counted),
        "state_bytes": counted.state,
        "state_bytes_per_sample": counted.state_per_sample,
        "storage_bytes": run_storage(counted),
        "data_bytes": data.files or (data.train + data.tested) * (data.item_bytes + INDEX),
        "speed": speed,
    }


def sum_up(plans: Sequence[Mapping[str, Any]], seeds: int = 1, price: float | None = None) -> dict[str, Any]:
    """Sum over plans with so many seeds each."""
    hours = sum((plan["gpu_hours"] for plan in plans), NONE) * seeds
    return {
        "runs": seeds * len(plans),
        "flops": seeds * sum(plan["flops"] for plan in plans),
        "gpu_hours": hours,
        "price": None if price is None else hours * price,
        "storage_bytes": seeds * sum(sum(plan["storage_bytes"].values()) for plan in plans),
    }


def plan_experiments(name: str, device: Device, gpus: int = 1, price: float | None = None) -> list[dict[str, Any]]:
    """Each experiment at the paper's scale; for all of them without those on texts, last all together, shared runs once."""
    chosen = EXPERIMENTS.values() if name == WHOLE else [EXPERIMENTS[name]]
    sheets = {each.name: {run.key: run for sheet in each.sheets.get("paper", ()) for run in sheet.runs()} for each in chosen}
    if not any(sheets.values()):
        raise InputError(f"{name} is drawn without training anything: there is nothing to plan.")
    if name == WHOLE:
        sheets = {key: runs for key, runs in sheets.items() if runs and not any(run.source in TEXTS for run in runs.values())}
        sheets["all"] = {key: run for runs in sheets.values() for key, run in runs.items()}
    planned: dict[str, dict[str, Any]] = {}

    def plan(run: Run) -> dict[str, Any]:
        key = repr((run.source, {**run.settings, "seed": None}))  # seeds cost the same
        if key not in planned:
            planned[key] = gpu_plan(count(named_setting(run.source, "cuda", run.settings, where=run.name), gpus), device, gpus)
        return planned[key]

    return [{"name": key, **sum_up([plan(run) for run in runs.values()], 1, price)} for key, runs in sheets.items()]
