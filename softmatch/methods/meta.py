"""Meta Pseudo Labels (Pham et al. 2021): a teacher that learns from how well its student does on labels."""

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
from softmatch.methods.base import MakeOptimizer, Method, require, require_choice, supervised_loss
from softmatch.methods.forward import Forward
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.metrics import PseudoLabels
from softmatch.state import StepCount
from softmatch.step import Batch, Output, gather, refuse_invalid
from softmatch.weightings import RampUp, Threshold

Choice = Literal["sample", "argmax"]


class Lesson(NamedTuple):
    """The teacher's part of a step, kept until its student has learned from it."""

    objective: Tensor
    logits: Tensor
    labels: Tensor
    before: Tensor


class MetaPseudoLabels(Method):
    """Student: CE(ŷ, S(Ω(u))). Teacher: its own objective + h·CE(ŷ, T(Ω(u))), h = L_l(θ_S) − L_l(θ_S').

    ŷ is the teacher's label of the strong view, L_l the student's loss on labelled samples before and after its step. The
    network of the training loop is the student; the teacher is a copy of it, which the method trains itself with UDA's loss and
    the feedback. In the last part of the run the student is trained on labels only.
    """

    unlabeled_views = ("weak", "strong")
    tracked_views = ("strong",)

    feedback: Tensor

    def __init__(
        self,
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
    ) -> None:
        del num_classes
        super().__init__()
        require_choice(Choice, choice=choice)
        require("lie in [0, 1)", finetune=finetune, baseline=baseline)
        require("be positive", temperature=temperature)
        weighting = RampUp(max(round(ramp * total_steps), 1), Threshold(threshold, max_weight=unlabeled_weight))
        self.objective = Match(weighting, target=partial(targets.sharpened, temperature=temperature))
        self.student_steps, self.choice = max(round((1.0 - finetune) * total_steps), 1), choice
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
        """Update the teacher from the feedback of its student on the labels of all processes."""
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
    """Keep automatic precision unless it is float16: the teacher's gradients are not scaled."""
    kind = torch.get_autocast_dtype(device)
    return torch.autocast(device, dtype=kind, enabled=torch.is_autocast_enabled(device) and kind != torch.float16)


def _average_gradients(module: nn.Module) -> None:
    """Replace each gradient by its mean over the processes, each of which has its own batch and loss."""
    sum_gradients(module)
    for parameter in module.parameters():
        if parameter.grad is not None:
            parameter.grad /= world().size
