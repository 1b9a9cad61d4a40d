"""Training on the soft pseudo-labels and weights λ of another model, which stay as they are: `softmatch distil`."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from softmatch.methods.base import MakeOptimizer, Method, supervised_loss
from softmatch.methods.forward import Forward
from softmatch.metrics import PseudoLabels
from softmatch.step import Batch, Output, refuse_invalid
from softmatch.targets import cross_entropy

DISTIL = "distil"
"""Name of this method in a run folder. It needs a teacher, so it is not one of METHODS."""


class Distilled(Method):
    """L = L_s + (1/B_U) Σ λ_i·H(p̂_i, p(y | Ω(u_i))), with p̂_i and λ_i of a teacher for each unlabelled sample.

    Args:
        teach: returns p̂ (N_U, C) and λ (N_U,); called before the first step, since it may take as long as a training.
    """

    unlabeled_views = ("strong",)

    def __init__(self, teach: Callable[[], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.teach = teach
        self.targets: Tensor
        self.weights: Tensor
        self.register_buffer("targets", torch.zeros(0, 0), persistent=False)  # a resumed run asks the teacher again
        self.register_buffer("weights", torch.zeros(0), persistent=False)

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.targets, self.weights = self.teach()

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, unlabeled = forward(batch.labeled["weak"], batch.unlabeled["strong"])
        refuse_invalid("unlabeled_logits", unlabeled)
        target, weights = self.targets[batch.index], self.weights[batch.index]
        supervised = supervised_loss(labeled, batch.labels)
        unsupervised = (weights * cross_entropy(target, unlabeled)).mean()
        confidence, labels = target.max(-1)
        pseudo = PseudoLabels(labels, weights, weights, confidence)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)
