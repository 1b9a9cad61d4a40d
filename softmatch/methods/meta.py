"""Meta Pseudo Labels (Pham et al. 2021): a teacher that learns from how well its student does on labels."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.averages import RunningAverage
from softmatch.distributed.processes import average_running_statistics, sum_gradients, world
from softmatch.errors import InputError
from softmatch.methods.base import Forward, MakeOptimizer, Method, supervised_loss
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.metrics import PseudoLabels
from softmatch.state import StepCount
from softmatch.step import Batch, Output, gather, refuse_invalid
from softmatch.weightings import RampUp, Threshold

Choice = Literal["sample", "argmax"]


class Lesson(NamedTuple):
    """What the teacher did in a step, kept until its student has learned from it."""

    objective: Tensor
    logits: Tensor
    labels: Tensor
    before: Tensor


class MetaPseudoLabels(Method):
    """Student: CE(ŷ, S(Ω(u))). Teacher: its own objective + h·CE(ŷ, T(Ω(u))), h = L_l(θ_S) − L_l(θ_S').

    ŷ is the teacher's label of the strong view, L_l the student's loss on labelled samples before and after its step. The
    network of the training loop is the student; the teacher is a copy of it, of which the method takes care. In the last
    part of the run the student is trained on labels alone.

    Args:
        objective: what the teacher is trained with besides the feedback.
        student_steps: length of the first part of the run.
        choice: whether ŷ is drawn from the teacher's prediction, or its argmax.
        baseline: momentum of a running mean of h that is subtracted from h; None: nothing is.
    """

    unlabeled_views = ("weak", "strong")
    tracked_views = ("strong",)

    feedback: Tensor

    def __init__(self, objective: Match, student_steps: int, choice: Choice = "sample", baseline: float | None = None) -> None:
        super().__init__()
        self.objective, self.student_steps, self.choice = objective, student_steps, choice
        self.baseline = None if baseline is None else RunningAverage(torch.zeros(()), baseline)
        self.teacher: nn.Module | None = None
        self.count = StepCount()
        self.register_buffer("feedback", torch.zeros(()))
        self._lesson: Lesson | None = None

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.teacher = copy.deepcopy(network).train()
        self.optimizers["teacher"] = make_optimizer(self.teacher)

    def step(self, forward: Forward, batch: Batch) -> Output:
        if self.count.steps >= self.student_steps:
            (logits,) = forward(batch.labeled["weak"])
            loss = supervised_loss(logits, batch.labels)
            return Output(loss, loss.detach())
        (known,) = forward(batch.labeled["weak"], gradient=(False,), tracking=False)
        before = supervised_loss(known, batch.labels)
        objective, logits = self._teach(forward, batch)
        probs = torch.softmax(logits.detach().float(), dim=-1)
        labels = probs.argmax(-1) if self.choice == "argmax" else torch.multinomial(probs, 1).flatten()
        _, strong = forward(batch.labeled["weak"], batch.unlabeled["strong"], gradient=(False, True))
        refuse_invalid("strong_logits", strong)
        loss = F.cross_entropy(strong.float(), labels)
        if self.training:
            self.count.advance()
            self._lesson = Lesson(objective, logits, labels, before)
        weights = torch.ones_like(probs[:, 0])
        return Output(loss, before, loss.detach(), PseudoLabels(labels, weights, weights, probs.max(-1).values))

    def _teach(self, forward: Forward, batch: Batch) -> tuple[Tensor, Tensor]:
        """The teacher's objective, and its logits of the strong view, both with gradient."""
        assert self.teacher is not None, "begin(network, make_optimizer) comes before the first step"
        teacher = forward.around(self.teacher)
        views = (batch.labeled["weak"], batch.unlabeled["weak"], batch.unlabeled["strong"])
        with torch.enable_grad(), _no_float16(batch.labels.device.type):
            labeled, weak, strong = teacher(*views, gradient=(True, False, True))
            return self.objective.compute(labeled, batch.labels, weak, strong, batch.index).loss, strong

    def after_step(self, forward: Forward, batch: Batch) -> None:
        """Update the teacher, from the feedback of its student on the labels of all processes."""
        if self._lesson is None:
            return
        lesson, self._lesson = self._lesson, None
        (known,) = forward(batch.labeled["weak"], gradient=(False,), tracking=False)
        change = (lesson.before - supervised_loss(known, batch.labels)).detach()
        self.feedback.copy_(gather(change[None]).mean())
        if self.baseline is not None:
            self.baseline.update(self.feedback)
            self.feedback.sub_(self.baseline.value)
        loss = lesson.objective + self.feedback * F.cross_entropy(lesson.logits.float(), lesson.labels)
        assert self.teacher is not None
        optimizer = self.optimizers["teacher"]
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
        if forward.sharded:  # each process has a part of the gradient of the whole loss
            sum_gradients(self.teacher)
            average_running_statistics(self.teacher)
        else:
            _average_gradients(self.teacher)
        optimizer.step()
        optimizer.zero_grad()

    def statistics(self) -> dict[str, Tensor]:
        return {**self.objective.statistics(), "feedback": self.feedback}


def _no_float16(device: str) -> AbstractContextManager[None]:
    """Automatic precision as it is, but none where it would be float16: the teacher's gradients are not scaled."""
    kind = torch.get_autocast_dtype(device)
    return torch.autocast(device, dtype=kind, enabled=torch.is_autocast_enabled(device) and kind != torch.float16)


def _average_gradients(module: nn.Module) -> None:
    """Replace each gradient by its mean over the processes, where each has a batch, and a loss, of its own."""
    sum_gradients(module)
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad /= world().size


def meta_pseudo_labels(
    num_classes: int,
    *,
    total_steps: int = PAPER_STEPS,
    threshold: float = 0.6,
    temperature: float = 0.7,
    unlabeled_weight: float = 1.0,
    ramp: float = 1 / 60,
    choice: Choice = "sample",
    baseline: float | None = None,
    finetune: float = 0.05,
) -> MetaPseudoLabels:
    """Meta Pseudo Labels: a teacher trained with UDA, and with what its labels did to its student's loss on labelled data.

    The weight of UDA's loss grows over the authors' 5,000 of 300,000 steps, a share of `total_steps`.
    """
    del num_classes
    if choice not in ("sample", "argmax"):
        raise InputError(f'choice must be "sample" or "argmax", not {choice!r}.')
    if not 0.0 <= finetune < 1.0:
        raise InputError(f"finetune is the last part of the run, on labels alone: at least 0 and below 1, not {finetune}.")
    if baseline is not None and not 0.0 <= baseline < 1.0:
        raise InputError(f"baseline is a momentum: at least 0 and below 1, or None, not {baseline}.")
    if not temperature > 0.0:
        raise InputError(f"temperature must be positive, not {temperature}.")
    weighting = RampUp(max(round(ramp * total_steps), 1), Threshold(threshold, max_weight=unlabeled_weight))
    objective = Match(weighting, target=partial(targets.sharpened, temperature=temperature))
    return MetaPseudoLabels(objective, max(round((1.0 - finetune) * total_steps), 1), choice, baseline)
