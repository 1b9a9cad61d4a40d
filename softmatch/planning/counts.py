"""Counts of a run on any device: samples, passes, arithmetic, and bytes in memory, in its run folder and in shared files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

import torch
from torch import nn

from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.split import LONGEST_LIST
from softmatch.errors import InputError
from softmatch.networks import choose_network, is_encoder
from softmatch.planning.costs import (
    FLOAT,
    CountingNetwork,
    NetworkCost,
    Passes,
    count_encoder,
    count_passes,
    planned_method,
    planned_network,
    probe_task,
    state_bytes,
)
from softmatch.planning.setting import Setting, encoder_sizes
from softmatch.training.inputs import length_buckets
from softmatch.training.setup import RECORDS_PER_RUN

BATCH, NUMBERS, HIDDEN = 16_384, 50_000_000, 16
"""The largest batch and the most numbers in it, as a step is tried with real batches; features of a network that shows none."""


@dataclass(frozen=True)
class Counted:
    """Figures of a run that do not depend on the device.

    Attributes:
        passes, baseline: of a step of the method, and of its supervised baseline.
        heads: numbers in the heads that the method adds to the network.
        state, state_trained, state_per_sample: bytes that the method remembers, its own parameters among them, and growth.
        folds, baselines: further trainings of a cross-fit, and trainings of the baseline.
        surveys: times that a training predicts the whole unlabelled set.
        read, prepared: FLOPs to predict a sample, and of an encoder's features, which are computed once.
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
    held_out: int
    tested: int
    folds: int
    baselines: int
    surveys: int
    read: float
    prepared: float

    @property
    def epochs(self) -> float:
        """How often a run sees the unlabelled set."""
        return self.setting.config.steps * (self.passes.samples - self.baseline.samples) / self.unlabeled

    @property
    def evaluations(self) -> int:
        """Evaluations of all trainings together."""
        return ((self.folds or 1) + self.baselines) * records(self.setting)

    def step_flops(self, passes: Passes) -> float:
        """FLOPs of a step. A derivative by the input alone costs as much as a forward pass."""
        inputs = passes.backward_rows - passes.learned_rows
        return ((passes.forward_rows + inputs) * self.cost.forward + passes.learned_rows * self.cost.backward) / passes.steps

    def step_operations(self, passes: Passes) -> float:
        """Operations that the host starts in a step; views of files and texts are made by worker processes."""
        network = passes.forward * self.cost.forward_operations + passes.backward * self.cost.backward_operations
        worked = self.setting.data.files is not None or self.setting.data.kind == "text"
        return (network + passes.operations - passes.view_operations * worked) / passes.steps

    @property
    def flops(self) -> float:
        """FLOPs of the whole run."""
        steps = (self.folds + 1) * self.step_flops(self.passes) + self.baselines * self.step_flops(self.baseline)
        read = self.evaluations * self.tested + (self.folds + 1) * self.surveys * self.unlabeled
        return self.setting.config.steps * steps + read * self.read + self.prepared


def records(setting: Setting) -> int:
    """Evaluations of a training, each of which is a line of metrics.jsonl."""
    steps, every = setting.config.steps, setting.config.evaluate_every
    return ceil(steps / (every or max(steps // RECORDS_PER_RUN, 1)))


def count(setting: Setting, processes: int = 1) -> Counted:
    """Count what a run does; InputError if the method or the network cannot serve the setting."""
    config, data = setting.config, setting.data
    name = choose_network(config.network, data.kind, data.shape)
    network, cost = planned_network(name, data.shape, data.classes) if not is_encoder(name) else (None, _encoder_cost(setting))
    features = cost.features or HIDDEN
    most = min(BATCH, NUMBERS // (features + data.classes))
    for option, value in (("--labeled-batch", config.labeled_batch), ("--unlabeled-batch", config.unlabeled_batch)):
        if value > most:
            raise InputError(f"{option} {value}: a plan is made for batches of up to {most:,} here. Give fewer.")
    task = probe_task(setting, features)
    split, folds = task.split, task.evaluation.folds
    unlabeled = len(split.unlabeled) + data.train - len(task.examples)
    asked = replace(task, num_features=cost.features, network=name, processes=processes)
    method = planned_method(asked, data.kind, unlabeled)
    grown = state_bytes(planned_method(asked, data.kind, unlabeled + 1)) - state_bytes(method)
    followed: list[nn.Module] = []
    method.begin(network or CountingNetwork((1,), features, data.classes), lambda module: _follow(module, followed))
    copied = 0 if network is not None else cost.state * len(followed)
    encoder_read = 0.0 if data.tokens is None or config.encoder is None else _encoder_cost(setting, data.tokens[0]).forward
    every = method.survey_every
    return Counted(
        setting=setting,
        network=name,
        cost=cost,
        passes=count_passes(task, config.method),
        baseline=count_passes(task, "supervised"),
        heads=sum(weight.numel() for head in method.heads(features).values() for weight in head.parameters()),
        state=state_bytes(method) + copied,
        state_trained=sum(weight.nbytes for weight in method.parameters()) + copied,
        state_per_sample=grown,
        labeled=len(split.labeled),
        unlabeled=unlabeled,
        held_out=len(split.test),
        tested=data.tested or len(split.test) or (len(split.labeled) // len(folds) if folds else 0),
        folds=len(folds),
        baselines=(len(folds) or 1) * task.has_baseline,
        surveys=method.generations - 1 + (0 if every is None else (config.steps - 1) // every),
        read=encoder_read if data.kind == "text" else cost.forward,
        prepared=encoder_read * (data.train + data.tested) if data.kind == "vector" else 0.0,
    )


def _follow(module: nn.Module, followed: list[nn.Module]) -> torch.optim.Optimizer:
    followed.append(module)
    return torch.optim.SGD(module.parameters(), lr=1.0)


def _encoder_cost(setting: Setting, tokens: float | None = None) -> NetworkCost:
    """Cost of an encoder for texts of so many tokens; by default those of a step, whose batches are of similar lengths."""
    config, data = setting.config, setting.data
    assert config.encoder is not None
    assert data.tokens is not None
    mean, padded = data.tokens
    if tokens is None:
        sorted_ = config.unlabeled_batch / (config.labeled_batch + config.unlabeled_batch)
        tokens = padded if length_buckets(config, "text") == 1 else padded + (mean - padded) * sorted_
    return count_encoder(encoder_sizes(config.encoder), config, data.classes, tokens)


INDEX, MOMENTS = 8, {"sgd": 1, "adam": 2, "adamw": 2}
"""Bytes of a position; numbers that an optimiser keeps for each number of the weights."""
AT_WORK, PATH, CHARACTERS = 5, 350, 4.5
"""Tensors of the largest size at work at once, bytes of a file's path, characters of a token (benchmarks/results/plan.md)."""
RECORD, RECORD_OF_A_CLASS, RECORD_OF_LABELS, FIGURE_OF_A_CLASS = 2560, 69, 140, 8
"""Bytes of a line of metrics.jsonl and of its figures per class; the same two of a baseline. Measured."""
KEPT, SAMPLES, REPORT, HEADER, RANDOM_STATE = 3, 16, 160_000, 300, 5056
"""Checkpoints that are kept, samples in a model's folder; bytes of report.html, of a tensor's headers, of a generator."""


def device_memory(counted: Counted, processes: int = 1) -> dict[str, float]:
    """Bytes on the device of each process, without CUDA's own part: weights and data are whole, activations are its share."""
    (_, config, data), cost, passes = counted.setting, counted.cost, counted.passes
    trained, half = cost.trained + counted.heads, 0.5 if config.precision != "float32" else 1.0
    moments, joint = MOMENTS[config.optimizer], 2 if config.batch_statistics == "joint" else 1  # all views once more
    found: dict[str, float] = {
        "weights": cost.state + FLOAT * counted.heads,
        "gradients": FLOAT * trained * (1 if processes == 1 else 2),  # once more as one message
        "optimiser": FLOAT * trained * moments,
        "averaged weights": cost.state - FLOAT * (cost.parameters - trained),
        "activations": cost.saved * half * passes.learned_rows / passes.steps / processes,
        "work on the largest layer": AT_WORK * cost.largest * half * passes.forward_rows / max(passes.forward, 1) / processes,
        "views of the batch": passes.views / processes * FLOAT * prod(data.shape) * joint,
        "data": data.held + INDEX * counted.unlabeled + counted.labeled * data.item_bytes * (data.files is None),
        "the method's state": counted.state + counted.state_trained * (1 + moments),
    }
    return found


def host_memory(counted: Counted) -> dict[str, float]:
    """Bytes on the host of each process that grow with the data."""
    data = counted.setting.data
    files = {"paths of files": PATH * data.train} if data.files is not None else {"data": data.held}
    return {"shuffles and positions": 3 * INDEX * counted.unlabeled, "labels": INDEX * data.train, **files}


def checkpoint_bytes(counted: Counted, baseline: bool = False) -> float:
    """A checkpoint: weights, average, optimiser, the method's state, last predictions, records."""
    cost, heads, moments = counted.cost, 0 if baseline else counted.heads, MOMENTS[counted.setting.config.optimizer]
    weights = 2 * cost.state - FLOAT * (cost.parameters - cost.trained - 2 * heads) + FLOAT * moments * (cost.trained + heads)
    own = 0 if baseline else counted.state + moments * counted.state_trained
    predictions = FLOAT * counted.tested * counted.setting.data.classes
    return weights + own + predictions + metrics_bytes(counted, baseline) + HEADER * cost.tensors + RANDOM_STATE


def metrics_bytes(counted: Counted, baseline: bool = False) -> int:
    """metrics.jsonl of a training."""
    line, figure = (RECORD_OF_LABELS, FIGURE_OF_A_CLASS) if baseline else (RECORD, RECORD_OF_A_CLASS)
    return records(counted.setting) * (line + figure * counted.setting.data.classes)


def split_bytes(counted: Counted) -> float:
    """split.json: a line for each position, unless the unlabelled set is a long row of successive ones."""
    number, longest = counted.setting.data.train, len(str(counted.setting.data.train - 1))
    digits: float = longest - sum(10**shorter for shorter in range(1, longest)) / number  # the mean of 0 … number − 1
    listed = 0 if counted.unlabeled == number >= LONGEST_LIST else counted.unlabeled
    return 280.0 + (counted.labeled + counted.held_out + listed) * (4 + digits)


def run_storage(counted: Counted) -> dict[str, float]:
    """A finished run folder; of the folds of a cross-fit only the records stay."""
    baseline = KEPT * checkpoint_bytes(counted, baseline=True) + counted.cost.state
    each = metrics_bytes(counted) + metrics_bytes(counted, baseline=True) * bool(counted.baselines)
    return {
        "checkpoints": KEPT * checkpoint_bytes(counted),
        "model": counted.cost.state + SAMPLES * counted.setting.data.item_bytes,
        "baseline": baseline * (counted.baselines == 1 and not counted.folds),
        "records and report": (1 + counted.folds) * each + REPORT,
        "split.json": split_bytes(counted),
    }


def shared_storage(setting: Setting) -> dict[str, float]:
    """Files that all runs on the same data share: the data, back-translations, features of an encoder."""
    data, samples, found = setting.data, setting.data.train + setting.data.tested, dict[str, float]()
    if data.files or setting.source in PUBLISHED:
        found["data"] = data.files or samples * (data.item_bytes + INDEX)
    if data.tokens is not None:
        found["texts"] = (samples + data.versions * data.train) * data.tokens[0] * CHARACTERS
        found["features"] = samples * data.item_bytes * (data.kind == "vector" and setting.config.encoder is not None)
    return found
