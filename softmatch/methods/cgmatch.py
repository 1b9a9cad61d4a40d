"""CGMatch (Cheng et al. 2025): samples grouped by confidence and by how steady their pseudo-label has been."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.alignments import Alignment
from softmatch.averages import PAPER_MOMENTUM, RunningAverage, Start
from softmatch.errors import InputError
from softmatch.methods.base import Method, require, supervised_loss
from softmatch.methods.forward import Forward
from softmatch.methods.match import PAPER_STEPS
from softmatch.metrics import PseudoLabels
from softmatch.state import Ramp, Registry, StepCount
from softmatch.step import Batch, Output, Seen, refuse_invalid


class LabelHistory(nn.Module):
    """The last `length` pseudo-labels of every sample, as counts by class.

    Args:
        visits: upper bound of how often the run sees a sample. Up to `length` visits only counts are kept (N × C numbers),
            beyond that the labels themselves (N × length), the oldest of which are overwritten.
    """

    def __init__(self, num_classes: int, size: int, length: int, visits: int) -> None:
        super().__init__()
        self.num_classes, self.length = num_classes, length
        self.forgets = visits > length
        if self.forgets:
            self.labels = Registry(size, (length,), fill=num_classes, dtype=torch.int16)
            self.visits = Registry(size, dtype=torch.int64)
        else:
            self.counts = Registry(size, (num_classes,), dtype=torch.int32)

    @torch.no_grad()
    def add(self, index: Tensor, labels: Tensor) -> None:
        """Take in one label per position; a position that occurs twice in the batch takes in both."""
        if not self.forgets:
            one = torch.ones_like(labels, dtype=torch.int32)
            self.counts.values.index_put_((self.counts.check(index), labels), one, accumulate=True)
            return
        place = (self.visits[self.visits.check(index)] + _earlier(index)) % self.length
        self.labels.values.index_put_((index, place), labels.to(torch.int16))
        self.visits.values.index_add_(0, index, torch.ones_like(index))

    def forward(self, index: Tensor) -> Tensor:
        """Counts (B, C) at these positions."""
        if not self.forgets:
            return self.counts[index]
        labels = self.labels[index].long()
        counts = torch.zeros(len(index), self.num_classes + 1, dtype=torch.int32, device=labels.device)
        counts.scatter_add_(1, labels, torch.ones_like(labels, dtype=torch.int32))
        return counts[:, : self.num_classes]


def _earlier(index: Tensor) -> Tensor:
    """Number of earlier occurrences of each entry in the batch."""
    key, order = torch.sort(index, stable=True)
    rank = torch.arange(len(key), device=key.device) - torch.searchsorted(key, key)
    return torch.empty_like(rank).scatter_(0, order, rank)


def count_gap(counts: Tensor) -> Tensor:
    """Largest count of a row less its second largest: (B, C) → (B,), float32."""
    top = counts.topk(2, dim=-1).values
    return (top[:, 0] - top[:, 1]).float()


def generalized_cross_entropy(labels: Tensor, logits: Tensor, power: float) -> Tensor:
    """(1 − q_ŷᵖ)/p of every sample: the cross-entropy as p → 0, bounded and forgiving of wrong labels as p → 1."""
    log_prob = torch.log_softmax(logits.float(), dim=-1).gather(1, labels[:, None]).squeeze(1)
    return -torch.expm1(power * log_prob) / power


class CGMatch(Method):
    """L = L_s + mean easy·CE(ŷ, Ω(u)) + w(t)·mean ambiguous·(GCE(ŷ, ω(u)) + GCE(ŷ, Ω(u))).

    easy: max p̃ ≥ μ, the running mean of max p̃. ambiguous: not easy, and the gap between the two largest counts of the
    sample's pseudo-labels is at least the running mean gap. The rest is left out. w(t) = max_weight·((t − t₀)/(K − t₀))²;
    the first t₀ steps use labels only.
    """

    unlabeled_views = ("weak", "strong")

    def __init__(
        self,
        num_classes: int,
        *,
        num_unlabeled: int,
        unlabeled_batch: int = 448,
        total_steps: int = PAPER_STEPS,
        momentum: float = PAPER_MOMENTUM,
        start: Start = "paper",
        warmup: int | None = None,
        history: int = 1000,
        max_weight: float = 1.0,
        power: float = 0.7,
        align_targets: bool = True,
        clip: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2:
            raise InputError("the gap between the two most frequent labels needs two classes or more.")
        require("be 1 or more", history=history)
        require("lie in (0, 1]", power=power)
        require("be 0 or more", max_weight=max_weight)
        if clip is not None and not 0.0 <= clip[0] <= clip[1] <= 1.0:
            raise InputError(f"clip must be a lower bound and an upper bound of the threshold between 0 and 1, not {clip}.")
        warmup = max(round(2048 * total_steps / PAPER_STEPS), 1) if warmup is None else warmup
        if not 0 <= warmup < total_steps:
            raise InputError(f"warmup must be shorter than the run of {total_steps} steps, not {warmup}.")
        visits = math.ceil((total_steps - warmup) * unlabeled_batch / max(num_unlabeled, 1)) + 1
        self.history, self.warmup = LabelHistory(num_classes, num_unlabeled, history, visits), warmup
        self.max_weight, self.power, self.align_targets, self.clip = max_weight, power, align_targets, clip
        self.alignment = Alignment(num_classes, momentum=momentum, start=start)
        self.mean = RunningAverage(torch.tensor(1.0 / num_classes), momentum, start)
        self.mean_gap = RunningAverage(torch.zeros(()), momentum, "first")
        self.ramp = Ramp(max(total_steps - warmup, 1), "square")
        self.count = StepCount()

    def step(self, forward: Forward, batch: Batch) -> Output:
        if self.count.steps < self.warmup:
            (logits,) = forward(batch.labeled["weak"])
            loss = supervised_loss(logits, batch.labels)
            if self.training:
                self.count.advance()
            return Output(loss, loss.detach())
        labeled, weak, strong = forward(batch.labeled["weak"], batch.unlabeled["weak"], batch.unlabeled["strong"])
        return self.compute(labeled, batch.labels, weak, strong, batch.index)

    def compute(
        self, labeled_logits: Tensor, labels: Tensor, weak_logits: Tensor, strong_logits: Tensor, index: Tensor
    ) -> Output:
        """The loss of one batch after the warm-up. The state learns only in training mode."""
        for name, value in (("weak_logits", weak_logits), ("strong_logits", strong_logits)):
            refuse_invalid(name, value)
        supervised = supervised_loss(labeled_logits, labels)
        with torch.no_grad():
            if self.training:
                self.learn(Seen.from_logits(weak_logits, labeled_logits, labels, index))
            probs = torch.softmax(weak_logits.detach().float(), dim=-1)
            aligned = self.alignment(probs)
            pseudo_labels = self.label(aligned, probs)
            steady = count_gap(self.history(index)) >= self.mean_gap.value
            easy, ambiguous = self.select(aligned, steady)
            unaligned = sum(self.select(probs, steady), torch.zeros_like(easy))
        strong_loss = F.cross_entropy(strong_logits.float(), pseudo_labels, reduction="none")
        both = sum(generalized_cross_entropy(pseudo_labels, logits, self.power) for logits in (weak_logits, strong_logits))
        unsupervised = (easy * strong_loss + ambiguous * both).mean()
        pseudo = PseudoLabels(pseudo_labels, easy + ambiguous, unaligned, probs.max(-1).values)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    @torch.no_grad()
    def learn(self, seen: Seen) -> None:
        """Alignment, mean confidence, history and mean gap, in this order, from one step's predictions."""
        assert seen.index is not None
        self.count.advance()
        self.ramp.advance()
        self.alignment.update(seen)
        aligned = self.alignment(seen.weak_probs)
        self.mean.update(aligned.max(-1).values.mean())
        self.history.add(seen.index, self.label(aligned, seen.weak_probs))
        self.mean_gap.update(count_gap(self.history(seen.index)).mean())

    def label(self, aligned: Tensor, probs: Tensor) -> Tensor:
        """ŷ of predictions with and without alignment."""
        return (aligned if self.align_targets else probs).argmax(-1)

    def threshold(self) -> Tensor:
        """μ, within `clip`."""
        return self.mean.value if self.clip is None else self.mean.value.clamp(*self.clip)

    def select(self, probs: Tensor, steady: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (B,) of the easy and of the ambiguous samples."""
        easy = probs.max(-1).values >= self.threshold()
        return easy.float(), self.max_weight * self.ramp() * (~easy & steady)

    def statistics(self) -> dict[str, Tensor]:
        found = {"threshold": self.threshold(), "mean_gap": self.mean_gap.value, "ramp": self.ramp()}
        return {**found, "marginal": self.alignment.marginal.value}
