"""AdaMatch (Berthelot et al. 2021) in its semi-supervised form: a relative threshold, aligned targets, mixed logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.alignments import Alignment
from softmatch.averages import PAPER_MOMENTUM, Start, queue_for
from softmatch.methods.base import Forward
from softmatch.methods.match import PAPER_STEPS, Match
from softmatch.step import Batch, Output
from softmatch.thresholds import RelativeThreshold
from softmatch.weightings import RampUp, Weighting


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
