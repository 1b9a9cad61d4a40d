"""SimMatch (Zheng, You, Huang, Wang, Qian, Xu 2022): agreement of two views on classes, and on similarity to labelled samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch import targets
from softmatch.errors import InputError
from softmatch.methods.base import Encoded, Forward, supervised_loss
from softmatch.methods.comatch import Embedding, embed, refuse_invalid_logits
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.options import require
from softmatch.metrics import PseudoLabels
from softmatch.state import Registry
from softmatch.step import Batch, Output, gather

UNSEEN = -1
TINY = torch.finfo(torch.float32).tiny


class SimMatch(Embedding):
    """L = L_s + λ_u·mean 1(max p ≥ τ)·H(p, q) + λ_in·mean H(ŝ, softmax(e'·b_j / T)).

    b_j are embeddings of the labelled samples, one each, from a bank; e is the embedding of the weak view, e' of the strong.
    With p the aligned prediction on the weak view and s = softmax(e·b_j / T), the instances' target is ŝ_j ∝ s_j·p[y_j], and
    the classes' target is α·p_c + (1 − α)·Σ_{j: y_j = c} s_j. Until every labelled sample is in the bank, the last term is
    left out and p is not smoothed. The bank takes in the labelled batch after the loss.

    Args:
        num_labeled: size of the bank.
        instance_weight: λ_in.
        bank_momentum: share of the old embedding in a row of the bank, which stays on the unit sphere; by default 0.7, or 0
            with a teacher.
        teacher: the averaged weights, normalising with running statistics, make the predictions and embeddings of weak views
            and of the bank; by default the network itself does.
    """

    unlabeled_views = ("weak", "strong")

    def __init__(
        self,
        num_classes: int,
        *,
        num_labeled: int,
        total_steps: int = PAPER_STEPS,
        threshold: float = 0.95,
        smoothing: float = 0.9,
        temperature: float = 0.1,
        unlabeled_weight: float = 1.0,
        instance_weight: float = 1.0,
        bank_momentum: float | None = None,
        teacher: bool = False,
        queue: int = 32,
        embedding: int = 128,
    ) -> None:
        super().__init__(num_classes, total_steps, embedding, threshold, smoothing, temperature, unlabeled_weight, queue)
        require("be 1 or more", num_labeled=num_labeled)
        require("lie in [0, 1)", bank_momentum=bank_momentum)
        require("be 0 or more", instance_weight=instance_weight)
        self.instance_weight, self.teacher = instance_weight, teacher
        self.bank_momentum = (0.0 if teacher else 0.7) if bank_momentum is None else bank_momentum
        self.bank = Registry(num_labeled, (embedding,))
        self.bank_labels = Registry(num_labeled, fill=UNSEEN, dtype=torch.int64)

    def step(self, forward: Forward, batch: Batch) -> Output:
        views = batch.labeled["weak"], batch.unlabeled["weak"], batch.unlabeled["strong"]
        if self.teacher:
            labeled, strong = forward.encode(views[0], views[2])
            taught, weak = _teach(forward, *views[:2])
        else:
            labeled, weak, strong = forward.encode(*views, gradient=(True, False, True))
            with torch.no_grad():
                taught, weak = (embed(forward, view) for view in (labeled, weak))
        labeled, strong = Encoded(taught.features, labeled.logits), embed(forward, strong)
        with torch.autocast(batch.labels.device.type, enabled=False):
            return self.compute(labeled, batch.labels, batch.labeled_index, weak, strong)

    def compute(self, labeled: Encoded, labels: Tensor, labeled_index: Tensor, weak: Encoded, strong: Encoded) -> Output:
        """The loss of views whose `features` are embeddings. `labeled_index`: positions in the labelled set."""
        refuse_invalid_logits(labeled, weak, strong)
        if len(labeled_index) != len(labels):
            raise InputError("SimMatch remembers labelled samples: give labeled_index, the position of each in the labelled set.")
        self.bank.check(labeled_index)
        bank = self.bank.rows.clone()  # the gradient of the loss needs its present content
        ready = (self.bank_labels.rows != UNSEEN).all()
        with torch.no_grad():
            raw, aligned = self.align(weak.logits)
            nearness = torch.softmax(weak.features @ bank.T / self.temperature, dim=-1)
            target = torch.where(ready, self.smooth(aligned, nearness), aligned)
            unaligned = torch.where(ready, self.smooth(raw, nearness), raw)
            pseudo = PseudoLabels(target.argmax(-1), self.chosen(target), self.chosen(unaligned), raw.max(-1).values)
            instances = self.instance_target(aligned, nearness)
        supervised = supervised_loss(labeled.logits, labels)
        classified = (pseudo.weights * targets.cross_entropy(target, strong.logits)).mean()
        matched = targets.cross_entropy(instances, strong.features @ bank.T / self.temperature).mean()
        unsupervised = self.unlabeled_weight * classified + self.instance_weight * torch.where(ready, matched, 0.0)
        if self.training:
            self._remember(gather(labeled_index), gather(labeled.features.detach()), gather(labels))
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def smooth(self, probs: Tensor, nearness: Tensor) -> Tensor:
        """α·p_c + (1 − α)·Σ_{j: y_j = c} s_j (B, C), of p (B, C) and s (B, N_L)."""
        classes = torch.zeros_like(probs).index_add(1, self._labels(), nearness)
        return self.smoothing * probs + (1.0 - self.smoothing) * classes

    def instance_target(self, probs: Tensor, nearness: Tensor) -> Tensor:
        """ŝ_j ∝ s_j·p[y_j] (B, N_L)."""
        weighted = nearness * probs[:, self._labels()]
        return weighted / weighted.sum(-1, keepdim=True).clamp_min(TINY)

    def _labels(self) -> Tensor:
        """y_j, with 0 for a sample that was not seen yet; it is not used before all were."""
        return self.bank_labels.rows.clamp_min(0)

    @torch.no_grad()
    def _remember(self, index: Tensor, embedding: Tensor, labels: Tensor) -> None:
        """b ← normalise(m·b + (1 − m)·e); rows start at 0, so the first e is stored unchanged."""
        moved = self.bank_momentum * self.bank[index] + (1.0 - self.bank_momentum) * embedding
        self.bank.write(index, F.normalize(moved, dim=-1))
        self.bank_labels.write(index, labels)


@torch.no_grad()
def _teach(forward: Forward, *views: Tensor) -> list[Encoded]:
    """Embeddings and logits of each view by the averaged weights."""
    features = forward.teach_features(*views, batch_statistics=False)
    return [Encoded(forward.head(each, "projector", averaged=True), forward.head(each, averaged=True)) for each in features]


simmatch = SimMatch
