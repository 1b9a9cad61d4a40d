"""SimMatch (Zheng, You, Huang, Wang, Qian, Xu 2022): agreement of two views on classes, and on similarity to labelled samples."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment
from softmatch.averages import queue_for
from softmatch.errors import InputError
from softmatch.methods.base import Encoded, Forward, Method, supervised_loss
from softmatch.methods.comatch import embed
from softmatch.methods.match import PAPER_STEPS
from softmatch.metrics import PseudoLabels
from softmatch.networks.heads import Projector
from softmatch.state import Registry
from softmatch.step import Batch, Output, Seen, gather, refuse_invalid

UNSEEN = -1
TINY = torch.finfo(torch.float32).tiny


class SimMatch(Method):
    """L = L_s + λ_u·mean 1(max p ≥ τ)·H(p, q) + λ_in·mean H(ŝ, softmax(e'·b_j / T)).

    b_j are embeddings of the labelled samples, one each, from a bank; e is the embedding of the weak view, e' of the strong.
    With p the aligned prediction on the weak view and s = softmax(e·b_j / T), the instances' target is ŝ_j ∝ s_j·p[y_j], and
    the classes' target is α·p_c + (1 − α)·Σ_{j: y_j = c} s_j. Until every labelled sample is in the bank the last term is
    left out and p is not smoothed. The bank takes in the labelled batch after the loss.

    Args:
        num_classes: C.
        num_labeled: size of the bank.
        alignment: of the predictions, before anything else is made of them.
        embedding: size of an embedding.
        smoothing: α.
        bank_momentum: share of the old embedding in a row of the bank, which stays on the unit sphere.
        unlabeled_weight, instance_weight: λ_u and λ_in.
        teacher: predictions and embeddings of weak views, and those of the bank, are of the averaged weights, which
            normalise with running statistics; otherwise of the network itself.
    """

    unlabeled_views = ("weak", "strong")
    needs_features = True

    def __init__(
        self,
        num_classes: int,
        num_labeled: int,
        alignment: Alignment,
        *,
        embedding: int = 128,
        threshold: float = 0.95,
        smoothing: float = 0.9,
        temperature: float = 0.1,
        bank_momentum: float = 0.7,
        unlabeled_weight: float = 1.0,
        instance_weight: float = 1.0,
        teacher: bool = False,
    ) -> None:
        super().__init__()
        self.num_classes, self.embedding = num_classes, embedding
        self.threshold, self.smoothing, self.temperature = threshold, smoothing, temperature
        self.bank_momentum = bank_momentum
        self.unlabeled_weight, self.instance_weight = unlabeled_weight, instance_weight
        self.teacher = teacher
        self.alignment = alignment
        self.bank = Registry(num_labeled, (embedding,))
        self.bank_labels = Registry(num_labeled, fill=UNSEEN, dtype=torch.int64)

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {"projector": Projector(num_features, self.embedding)}

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
        for name, logits in (("labeled_logits", labeled.logits), ("weak_logits", weak.logits), ("strong_logits", strong.logits)):
            refuse_invalid(name, logits)
        if len(labeled_index) != len(labels):
            raise InputError("SimMatch remembers labelled samples: give labeled_index, the position of each in the labelled set.")
        self.bank.check(labeled_index)
        bank = self.bank.rows.clone()  # the loss's gradient needs it as it is now
        ready = (self.bank_labels.rows != UNSEEN).all()
        with torch.no_grad():
            raw = torch.softmax(weak.logits.float(), dim=-1)
            if self.training:
                self.alignment.update(Seen.from_logits(weak.logits, None, None, None))
            aligned = self.alignment(raw)
            nearness = torch.softmax(weak.features @ bank.T / self.temperature, dim=-1)
            target = torch.where(ready, self.smooth(aligned, nearness), aligned)
            unaligned = torch.where(ready, self.smooth(raw, nearness), raw)
            pseudo = PseudoLabels(target.argmax(-1), self._chosen(target), self._chosen(unaligned), raw.max(-1).values)
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
        """y_j; what stands for a sample not yet seen is not looked at before all are."""
        return self.bank_labels.rows.clamp_min(0)

    def _chosen(self, probs: Tensor) -> Tensor:
        return (probs.max(-1).values >= self.threshold).float()

    @torch.no_grad()
    def _remember(self, index: Tensor, embedding: Tensor, labels: Tensor) -> None:
        """b ← normalise(m·b + (1 − m)·e); rows begin at 0, so the first e is taken as it is."""
        moved = self.bank_momentum * self.bank[index] + (1.0 - self.bank_momentum) * embedding
        self.bank.write(index, F.normalize(moved, dim=-1))
        self.bank_labels.write(index, labels)

    def statistics(self) -> dict[str, Tensor]:
        return {"marginal": self.alignment.marginal.value}


@torch.no_grad()
def _teach(forward: Forward, *views: Tensor) -> list[Encoded]:
    """Embeddings and logits of each view by the averaged weights."""
    features = forward.teach_features(*views, batch_statistics=False)
    return [Encoded(forward.head(each, "projector", averaged=True), forward.head(each, averaged=True)) for each in features]


def simmatch(
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
) -> SimMatch:
    """SimMatch: soft labels and similarities to labelled samples, each corrected by the other, must agree on two views.

    The bank's momentum is 0.7, or 0 with a teacher. The marginal of the predictions is the mean of the last `queue`
    batches, at most a fortieth of the run.
    """
    if num_labeled < 1:
        raise InputError("simmatch remembers every labelled sample: give num_labeled, their number.")
    if queue < 1 or embedding < 1:
        raise InputError("queue and embedding must be at least 1.")
    if not (0.0 <= smoothing <= 1.0 and 0.0 <= threshold <= 1.0):
        raise InputError("smoothing and threshold must lie in 0 … 1; for no smoothing give smoothing=1.")
    if bank_momentum is not None and not 0.0 <= bank_momentum < 1.0:
        raise InputError(f"bank_momentum must be at least 0 and below 1, not {bank_momentum}.")
    if not (temperature > 0.0 and unlabeled_weight >= 0.0 and instance_weight >= 0.0):
        raise InputError("temperature must be positive, and unlabeled_weight and instance_weight at least 0.")
    default_momentum = 0.0 if teacher else 0.7
    return SimMatch(
        num_classes,
        num_labeled,
        Alignment(num_classes, "uniform", queue=queue_for(total_steps, queue)),
        embedding=embedding,
        threshold=threshold,
        smoothing=smoothing,
        temperature=temperature,
        bank_momentum=default_momentum if bank_momentum is None else bank_momentum,
        unlabeled_weight=unlabeled_weight,
        instance_weight=instance_weight,
        teacher=teacher,
    )
