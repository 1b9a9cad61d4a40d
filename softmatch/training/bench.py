"""Cost of a training step and of its parts: `softmatch bench`, and the estimate of `softmatch train --dry-run`."""

import copy
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from softmatch.data import Batches, Examples
from softmatch.errors import InputError
from softmatch.networks import Network
from softmatch.networks.prediction import predict_probabilities
from softmatch.recipes import complete
from softmatch.training.activations import Encoding
from softmatch.training.arithmetic import HALF
from softmatch.training.loop import Clock, Trainer
from softmatch.training.opening import Job
from softmatch.training.setup import RECORDS_PER_RUN, build_method, make_trainer, micro_batch, prepare_job, prepare_sample
from softmatch.training.task import Task

PARTS = ("data", "views", "forward", "weighting and loss", "backward", "optimiser", "average of weights", "metrics")
STEP_SETTINGS = ("recipe", "method", "labeled_batch", "unlabeled_batch", "batch_statistics", "precision", "compile")
MATRIX = 2048
EVALUATED = 512
LENGTH_STEPS, TIMED_SHARE, LONGEST_TIMING = 20, 0.05, 20.0
"""Steps that are timed for a run of given length, and the largest share of its time and number of seconds for that."""
EVALUATION_SHARE = 0.05
"""Largest share of the evaluations before the last in the time of a run of given length."""


@dataclass(frozen=True)
class Measurement:
    """Figures of a step; times in seconds, memory in bytes.

    Attributes:
        step: wall time of each measured step.
        cpu: processor time (all threads) of each measured step.
        parts: median time of each part of a step.
        images: number of views that pass through the network in a step.
        flops: floating-point operations of the convolutions and matrix products of a step, forward and backward.
        unlabeled: number of unlabelled images in a step; 0 for a method without any.
        peak_flops: operations per second of a matrix product on the same device in the same precision; NaN within a budget.
        memory: peak memory of the process, or of its tensors on a GPU.
        memory_before: peak memory before the first step.
    """

    step: list[float]
    cpu: list[float]
    parts: dict[str, float]
    images: int
    flops: int
    unlabeled: int
    peak_flops: float
    memory: int
    memory_before: int

    @property
    def seconds(self) -> float:
        """Median wall time of a step."""
        return statistics.median(self.step)

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds_per_step": self.seconds,
            "seconds_per_step_best": min(self.step),
            "cpu_seconds_per_step": statistics.median(self.cpu),
            "images_per_second": self.images / self.seconds,
            "parts": self.parts,
            "gflop_per_step": self.flops / 1e9,
            "gflop_per_unlabeled_image": self.flops / self.unlabeled / 1e9 if self.unlabeled else None,
            "gflops": self.flops / self.seconds / 1e9,
            "matmul_gflops": self.peak_flops / 1e9,
            "share_of_matmul": self.flops / self.seconds / self.peak_flops,
            "peak_memory_bytes": self.memory,
            "memory_before_bytes": self.memory_before,
            "steps_measured": len(self.step),
        }


def measure(trainer: Trainer, steps: int = 5, budget: float | None = None) -> Measurement:
    """Train for one step to warm up, then for a few that are timed; this changes the trainer's weights.

    Args:
        budget: number of seconds after which measuring stops early, after at least one step. The peak is not measured then.
    """
    device, precision, began = trainer.device, trainer.config.precision, time.perf_counter()
    trainer.network.train()
    trainer.method.train()
    peaks, before = [matmul_flops(device, precision)] if budget is None else [], peak_memory(device)
    watch, passed, images = Stopwatch(device), trainer.forward, list[int]()
    for name in ("_run", "_averaged"):
        setattr(passed, name, watch("forward")(_counted(getattr(passed, name), images)))
    with FlopCounterMode(display=False) as counter:
        trainer.advance()
    number, trainer.clock = sum(images), watch
    if isinstance(trainer.batches, Batches):  # otherwise other processes make them, and waiting for them is "data"
        timed = trainer.batches.views = copy.copy(trainer.batches.views)
        for name in ("plain", "weak", "medium", "strong"):
            setattr(timed, name, watch("views")(getattr(timed, name)))
    seconds, processor, parts = list[float](), list[float](), list[dict[str, float]]()
    while len(seconds) < steps and not (seconds and budget is not None and time.perf_counter() - began > budget):
        watch.seconds = {}
        started, used = time.perf_counter(), time.process_time()
        with watch("other"):
            trainer.advance()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
        parts.append(watch.seconds)
    names = [name for name in (*PARTS, "other") if any(name in part for part in parts)]
    return Measurement(
        step=seconds,
        cpu=processor,
        parts={name: statistics.median(part.get(name, 0.0) for part in parts) for name in names},
        images=number,
        flops=counter.get_total_flops(),
        unlabeled=trainer.config.unlabeled_batch if trainer.method.unlabeled_views else 0,
        peak_flops=max([*peaks, matmul_flops(device, precision)]) if budget is None else math.nan,
        memory=peak_memory(device),
        memory_before=before,
    )


def matmul_flops(device: torch.device, precision: str = "float32", repeats: int = 5) -> float:
    """Operations per second of a 2048³ matrix product in this precision, best of a few."""
    a, b = (torch.randn(MATRIX, MATRIX, device=device).to(HALF.get(precision, torch.float32)) for _ in range(2))
    watch, best = Stopwatch(device), float("inf")
    for _ in range(repeats):
        watch.seconds = {}
        with watch("product"):
            torch.mm(a, b)
        best = min(best, watch.seconds["product"])
    return 2.0 * MATRIX**3 / best


def peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: of tensors on a GPU, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Stopwatch(Clock):
    """Sums the seconds of each part; the time of a nested part counts for the nested part only.

    It waits for the device between parts, so a measured step is slightly slower.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        outer, self._inner = self._inner, 0.0
        started = self._now()
        try:
            yield
        finally:
            taken = self._now() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + taken - self._inner
            self._inner = outer + taken

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()


def _counted(call: Callable[..., list[Tensor]], images: list[int]) -> Callable[..., list[Tensor]]:
    """The same forward pass; the number of its images is added to the list."""

    def counted(network: Any, views: tuple[Tensor, ...], *options: Any, **named: Any) -> list[Tensor]:
        images.append(sum(map(len, views)))
        return call(network, views, *options, **named)

    return counted


class Bench(NamedTuple):
    """Result of `softmatch bench`: the setting and its measurement."""

    setting: dict[str, Any]
    measurement: Measurement


def bench(options: Mapping[str, Any], side: int, channels: int, classes: int, images: int, repeats: int) -> Bench:
    """Measure the step of these settings on random images."""
    if min(side, channels, classes - 1, images, repeats) < 1 or channels not in (1, 3):
        raise InputError("bench needs --side, --images and --repeats of 1 or more, --channels 1 or 3, --classes 2 or more.")
    for key in ("recipe", "data", "imbalance"):
        if options.get(key) not in (None, "sprint"):
            raise InputError(f"bench uses random images and has no use for {key} {options[key]}. Leave it out.")
    config = complete("random images", {}, options, {"labels": options.get("labels") or classes * 4})
    random = torch.Generator().manual_seed(config.seed)
    number = max(images, config.labels or 1)
    try:
        items = torch.randint(0, 256, (number, channels, side, side), dtype=torch.uint8, generator=random)
    except RuntimeError as error:
        raise InputError(f"{number} images of {side}×{side} do not fit into memory. Lower --images or --side.") from error
    test = Examples(items[:2], torch.arange(2) % classes, tuple(map(str, range(classes))), "image")
    examples = Examples(items, torch.arange(number) % classes, test.classes, "image", test=test)
    task = prepare_job(Job("random images", config, examples))
    measured = measure(make_trainer(task, build_method(task, config.method)), repeats)
    setting = {
        **task.config.model_dump(include={*STEP_SETTINGS}),
        "network": task.network_name,
        "parameters": task.parameters,
        "image": f"{channels}×{side}×{side}",
        "classes": classes,
        "micro_batch": micro_batch(task),
        "device": device_name(task.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    return Bench(setting, measured)


@dataclass(frozen=True)
class Plan:
    """Plan of a run, with its cost estimated from a few steps. Times are in seconds.

    Attributes:
        step: mean time of a step; steps on small images take less.
        baseline: mean time of a step of the baseline; None without one.
        evaluation: time of one evaluation, and of the last one, which may have more samples.
        evaluations: number of evaluations of each network.
        encoding: cost of activations to cache first, with --tune last-N.
    """

    task: Task
    measurement: Measurement
    step: float
    baseline: float | None
    evaluation: tuple[float, float]
    evaluations: int
    encoding: Encoding | None = None

    @property
    def encoding_seconds(self) -> float:
        """Time of the encoder before the first step."""
        return 0.0 if self.encoding is None else self.encoding.seconds

    @property
    def seconds(self) -> float:
        """Time of the whole run, with the baseline, evaluations and all folds of a cross-fit."""
        each, last = self.evaluation_seconds
        return self.encoding_seconds + self.task.config.steps * self.step_seconds + (self.evaluations - 1) * each + last

    @property
    def step_seconds(self) -> float:
        """Time of a step of all networks."""
        return (len(self.task.evaluation.folds) + 1) * self.step + self._baselines * (self.baseline or 0.0)

    @property
    def evaluation_seconds(self) -> tuple[float, float]:
        """Time of an evaluation of all networks, and of their last one."""
        networks = (len(self.task.evaluation.folds) or 1) + self._baselines
        return networks * self.evaluation[0], networks * self.evaluation[1]

    @property
    def _baselines(self) -> int:
        return 0 if self.baseline is None else len(self.task.evaluation.folds) or 1


def plan_length(job: Job, seconds: float, network: Network | None = None) -> dict[str, int]:
    """Choose the steps, and the steps between evaluations, with which the whole run takes this long, timing included.

    There are at most as many steps as in the settings. Evaluations before the last get at most a twentieth of the time.
    """
    began = time.perf_counter()
    budget = min(TIMED_SHARE * seconds, LONGEST_TIMING)
    found = plan(replace(job, config=job.config.model_copy(update={"minutes": None})), LENGTH_STEPS, budget, network)
    return _length(found, seconds - (time.perf_counter() - began))


def _length(found: Plan, seconds: float) -> dict[str, int]:
    each, last = found.evaluation_seconds
    left = max(seconds - last - found.encoding_seconds, 0.0)
    before = min(int(EVALUATION_SHARE * left / each), RECORDS_PER_RUN - 1) if each else RECORDS_PER_RUN - 1
    steps = min(max(int((left - before * each) / found.step_seconds), 1), found.task.config.steps)
    return {"steps": steps, "evaluate_every": -(-steps // min(before + 1, steps))}


def plan(job: Job, steps: int = 4, budget: float = 30.0, network: Network | None = None) -> Plan:
    """Prepare the run and time a few of its steps, within about 1.5 times the budget of seconds. Nothing is written."""
    began, minutes = time.perf_counter(), job.config.minutes
    task, encoding = prepare_sample(replace(job, config=job.config.model_copy(update={"minutes": None})), network)
    trainer = make_trainer(task, build_method(task, task.config.method))
    measured, step = _measure_run(trainer, steps, budget)
    evaluation = _time_evaluation(task, trainer)
    every, baseline = trainer.every, None
    trainer.batches.close()
    del trainer
    if task.has_baseline:
        supervised = make_trainer(task, build_method(task, "supervised"))
        baseline = _measure_run(supervised, steps, budget / 2)[1]
        supervised.batches.close()
    found = Plan(task, measured, step, baseline, evaluation, -(-task.config.steps // every), encoding)
    if minutes is None:
        return found
    length = _length(found, 60 * minutes - (time.perf_counter() - began))
    task = replace(task, config=task.config.model_copy(update=length))
    return replace(found, task=task, evaluations=-(-length["steps"] // length["evaluate_every"]))


def _measure_run(trainer: Trainer, steps: int, budget: float) -> tuple[Measurement, float]:
    """Measure the largest step of a run, and the mean time of a step, with its share on small images."""
    share, small = trainer.config.small_images, 0.0
    if share:
        small = measure(trainer, max(steps // 2, 1), budget=budget / 2).seconds
        budget /= 2
        trainer.config = trainer.config.model_copy(update={"small_images": 0.0})
    measured = measure(trainer, steps, budget=budget)
    return measured, share * small + (1.0 - share) * measured.seconds


def _time_evaluation(task: Task, trainer: Trainer) -> tuple[float, float]:
    """Estimate the time of an evaluation and of the last one from some of the test samples; 0 without any."""
    folds = task.evaluation.folds
    items, _ = replace(task, split=folds[0]).test if folds else task.test
    if not len(items):
        return 0.0, 0.0
    sample = items[torch.arange(min(len(items), EVALUATED))]
    predict = partial(predict_probabilities, trainer.result, task.views, device=task.device, workers=task.config.workers)
    predict(sample[torch.arange(1)])
    started = time.perf_counter()
    predict(sample)
    each = (time.perf_counter() - started) / len(sample)
    return each * len(items if task.curve is None else task.curve), each * len(items)


def device_name(device: torch.device) -> str:
    """Return 'cpu', or the name of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
