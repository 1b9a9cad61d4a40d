"""What a run does on any device: samples, passes, arithmetic, and the state of its method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.networks import choose_network, is_encoder
from softmatch.planning.method_costs import CountingNetwork, Passes, count_passes, planned_method, probe_task, state_bytes
from softmatch.planning.network_costs import NetworkCost, count_encoder, encoder_sizes, planned_network
from softmatch.planning.setting import Setting
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
