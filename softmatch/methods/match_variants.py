"""Match methods with a step, a refinement or views of their own: AdaMatch, DebiasPL and SequenceMatch."""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment
from softmatch.averages import PAPER_MOMENTUM, RunningAverage, Start, queue_for
from softmatch.methods.base import require
from softmatch.methods.forward import Forward
from softmatch.methods.match import PAPER_STEPS, Match, Refinement
from softmatch.step import Batch, Output, Seen, refuse_invalid
from softmatch.thresholds import CurriculumThreshold, RelativeThreshold
from softmatch.weightings import RampUp, Threshold, Weighting


class AdaMatch(Match):
    """L = ½(CE(ω(x)) + CE(Ω(x))) + μ(t)·mean 1(max p̃ ≥ c_τ)·H(argmax p̃, q).

    The labelled logits are interpolated at random between a pass of labelled samples alone and the joint pass with the
    unlabelled ones; only the joint pass moves the running statistics of batch normalisation.
    """

    labeled_views = ("weak", "strong")

    def step(self, forward: Forward, batch: Batch) -> Output:
        views = (batch.labeled["weak"], batch.labeled["strong"])
        weak_x, strong_x, weak, strong = forward(
            *views, batch.unlabeled["weak"], batch.unlabeled["strong"], gradient=(True, True, False, True)
        )
        alone_weak, alone_strong = forward.together(*views, tracking=False)
        weak_x, strong_x = _interpolate(weak_x, alone_weak), _interpolate(strong_x, alone_strong)
        output = self.compute(weak_x, batch.labels, weak, strong, batch.index)
        strong_loss = F.cross_entropy(strong_x.float(), batch.labels)
        loss = output.loss + 0.5 * (strong_loss - F.cross_entropy(weak_x.float(), batch.labels))
        supervised = 0.5 * (output.supervised_loss + strong_loss.detach())
        return Output(loss, supervised, output.unsupervised_loss, output.pseudo)


def _interpolate(joint: Tensor, alone: Tensor) -> Tensor:
    return joint + torch.rand_like(joint) * (alone - joint)


def adamatch(
    num_classes: int,
    *,
    total_steps: int = PAPER_STEPS,
    ratio: float = 0.9,
    momentum: float = PAPER_MOMENTUM,
    queue: int = 128,
    start: Start = "paper",
    epsilon: float = 1e-6,
    ramp: bool = True,
) -> AdaMatch:
    """AdaMatch: threshold relative to the confidence on labels, predictions aligned to those on labels, cosine ramp.

    The marginal of the unlabelled predictions is the mean of the last `queue` batches, at most a fortieth of the run.
    """
    weighting: Weighting = RelativeThreshold(ratio)
    if ramp:
        weighting = RampUp(max(math.ceil(total_steps / 2), 1), weighting, shape="cosine")
    length = queue_for(total_steps, queue)
    alignment = Alignment(num_classes, "predictions", momentum, queue=length, start=start, epsilon=epsilon)
    return AdaMatch(weighting, alignment, align_targets=True)


SMALLEST_MARGINAL = 1e-12


class Debiasing(Refinement):
    """p' = softmax(z − τ·log p̂) = Norm(p·p̂^(−τ)), p̂ the running mean of the raw predictions before this step.

    Args:
        strength: τ.
    """

    previous: Tensor

    def __init__(self, num_classes: int, momentum: float = PAPER_MOMENTUM, start: Start = "paper", strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength
        uniform = torch.full((num_classes,), 1.0 / num_classes)
        self.marginal = RunningAverage(uniform, momentum, start)
        self.register_buffer("previous", uniform.clone())

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        self.previous.copy_(self.marginal.value)
        self.marginal.update(seen.weak_probs.mean(0))

    def forward(self, probs: Tensor, index: Tensor | None = None) -> Tensor:
        logits = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
        return torch.softmax(logits - self._margin(self.previous), dim=-1)

    def divergence(self, target: Tensor, logits: Tensor) -> Tensor:
        """H(target, softmax(z + τ·log p̂)) of every sample, with the p̂ of this step: the adaptive margins."""
        return targets.cross_entropy(target, logits.float() + self._margin(self.marginal.value))

    def _margin(self, marginal: Tensor) -> Tensor:
        return self.strength * marginal.clamp_min(SMALLEST_MARGINAL).log()

    def statistics(self) -> dict[str, Tensor]:
        return {"marginal": self.marginal.value}


def debiaspl(
    num_classes: int,
    *,
    momentum: float = PAPER_MOMENTUM,
    start: Start = "paper",
    threshold: float = 0.95,
    strength: float = 1.0,
    max_weight: float = 1.0,
) -> Match:
    """DebiasPL: FixMatch with labels corrected by the mean prediction p̂, and a margin by p̂ on the strong view.

    With `strength` 0 nothing is corrected and the method is FixMatch.
    """
    require("be 0 or more", strength=strength)
    debiasing = Debiasing(num_classes, momentum, start, strength)
    return Match(Threshold(threshold, max_weight=max_weight), divergence=debiasing.divergence, refinement=debiasing)


class SequenceMatch(Match):
    """L = L_FlexMatch + K(ω → M) + K(M → Ω) + K(ω → Ω), M the medium view.

    K(a → b) = mean 1(max p_a ≥ τ)·KL(sharpen_T(p_a) ‖ p_b), p_a without gradient. `forward` and `compute` take no medium view
    and are FlexMatch's part.
    """

    def __init__(self, weighting: CurriculumThreshold, temperature: float = 0.5) -> None:
        super().__init__(weighting)
        self.threshold, self.temperature = weighting.threshold, temperature
        self.unlabeled_views = ("weak", "medium", "strong")

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, weak, medium, strong = forward(
            batch.labeled["weak"], *(batch.unlabeled[name] for name in self.unlabeled_views), gradient=(True, False, True, True)
        )
        refuse_invalid("medium_logits", medium)
        output = self.compute(labeled, batch.labels, weak, strong, batch.index)
        assert output.unsupervised_loss is not None
        pairs = (weak, medium), (medium, strong), (weak, strong)
        divergence = torch.stack([self.divergence_between(*pair) for pair in pairs]).sum()
        unsupervised = output.unsupervised_loss + divergence.detach()
        return Output(output.loss + divergence, output.supervised_loss, unsupervised, output.pseudo)

    def divergence_between(self, source: Tensor, trained: Tensor) -> Tensor:
        """K(a → b) of logits (B, C)."""
        probs = torch.softmax(source.detach().float(), dim=-1)
        mask = (probs.max(-1).values >= self.threshold).to(probs.dtype)
        return (mask * targets.kl_divergence(targets.sharpened(probs, self.temperature), trained)).mean()


def sequencematch(
    num_classes: int,
    *,
    num_unlabeled: int,
    threshold: float = 0.95,
    temperature: float = 0.5,
    mapping: Literal["convex", "linear", "concave"] = "convex",
    threshold_warmup: bool = True,
) -> SequenceMatch:
    """SequenceMatch: FlexMatch with a medium view, whose prediction lies between those of the weak and the strong one."""
    require("be positive", temperature=temperature)
    weighting = CurriculumThreshold(num_classes, num_unlabeled, threshold, mapping, threshold_warmup)
    return SequenceMatch(weighting, temperature)
