"""λ(p) with thresholds that follow the progress of learning: FlexMatch, Dash, AdaMatch and FreeMatch; and UDA's for labels."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.averages import PAPER_MOMENTUM, RunningAverage, Start
from softmatch.errors import InputError
from softmatch.state import Registry, last_of_each
from softmatch.step import Seen, refuse_invalid
from softmatch.weightings import Weighting, confidence

Curve = Callable[[Tensor], Tensor]
MAPPINGS: dict[str, Curve] = {
    "convex": lambda x: x / (2.0 - x),
    "linear": lambda x: x,
    "concave": lambda x: torch.log1p(x) / math.log(2.0),
}
SCHEDULES: dict[str, Curve] = {
    "linear": lambda x: x,
    "log": lambda x: 1.0 - torch.exp(-5.0 * x),
    "exp": lambda x: torch.exp(5.0 * (x - 1.0)),
}


def _reach(thresholds: Tensor, probs: Tensor, pseudo_labels: Tensor | None) -> Tensor:
    """1(max p ≥ T_ŷ) of each sample, T (C,)."""
    top, labels = confidence(probs), probs.argmax(-1) if pseudo_labels is None else pseudo_labels
    return (top >= thresholds[labels]).to(top.dtype)


class CurriculumThreshold(Weighting):
    """FlexMatch's λ = 1(max p ≥ τ·M(β_ŷ)): the threshold of a class falls with its learning effect β (Zhang et al. 2021).

    A registry holds for every unlabelled sample its last label with confidence ≥ τ, −1 before that. β(c) is the count of c in
    the registry over the largest count. Weights use the registry as it was *before* the batch, so at first β = 0 and every
    sample is selected. Counts are updated in O(B log B), independent of N_U.

    Args:
        num_classes: C.
        num_unlabeled: N_U; `seen.index` lies in 0 … N_U − 1.
        threshold: τ.
        mapping: M, "convex" x/(2 − x), "linear" x, or "concave" ln(1 + x)/ln 2.
        warmup: count samples not yet registered in the denominator of β.

    Raises:
        ValueError: `mapping` is unknown.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        >>> weighting = CurriculumThreshold(num_classes=2, num_unlabeled=2, threshold=0.5)
        >>> weighting.update(Seen(probs, index=torch.tensor([0, 1])))
        >>> weighting(probs)
        tensor([1., 1.])
    """

    counts: Tensor
    learned: Tensor

    def __init__(
        self,
        num_classes: int,
        num_unlabeled: int,
        threshold: float = 0.95,
        mapping: Literal["convex", "linear", "concave"] = "convex",
        warmup: bool = True,
        max_weight: float = 1.0,
    ) -> None:
        super().__init__(max_weight)
        if mapping not in MAPPINGS:
            raise ValueError(f'mapping must be "convex", "linear" or "concave", not {mapping!r}')
        self.num_classes, self.num_unlabeled = num_classes, num_unlabeled
        self.threshold, self.mapping, self.warmup = threshold, mapping, warmup
        self.registry = Registry(num_unlabeled, fill=-1, dtype=torch.int32)
        counts = torch.zeros(num_classes + 1, dtype=torch.int64)  # counts[0]: samples not registered; counts[1 + c]: class c
        counts[0] = num_unlabeled
        self.register_buffer("counts", counts)
        self.register_buffer("learned", torch.zeros(num_classes))

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        chosen, labels = confidence(seen.weak_probs) >= self.threshold, seen.weak_probs.argmax(-1)
        index, counts, slot = self.registry.check(seen.index), self.counts.float(), self.num_unlabeled
        most = counts.max() if self.warmup else counts[1:].max()
        self.learned.copy_(counts[1:] / most.clamp_min(1.0))
        order, key = last_of_each(torch.where(chosen, index, slot), slot)
        change = (key < slot).to(torch.int64)
        self.counts.index_add_(0, self.registry[key].to(torch.int64) + 1, -change)
        self.counts.index_add_(0, labels[order] + 1, change)
        self.registry.write(index, labels, where=chosen)

    def class_thresholds(self) -> Tensor:
        """τ·M(β), (C,)."""
        return self.threshold * MAPPINGS[self.mapping](self.learned)

    def statistics(self) -> dict[str, Tensor]:
        return {"class_thresholds": self.class_thresholds()}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return self.max_weight * _reach(self.class_thresholds(), probs, pseudo_labels)


class LossThreshold(Weighting):
    """Dash's λ = 1(pseudo-label loss ≤ ρ_j), ρ_j = max(C·γ^(−j)·ρ̂, ρ_min) (Xu et al. 2021).

    During `warmup` updates λ = 0 (labels only). ρ̂ is the mean loss on the labelled batches of the last tenth of the
    warm-up (of the first batch without warm-up), never on test data. Then j grows by one every `every` updates.
    While ρ_j > ρ_min the target is the sharpened prediction, afterwards the hard label.

    Args:
        warmup: supervised-only updates.
        every: updates between two values of j.
        initial_loss: ρ̂, if it is known beforehand.
        decay, factor, floor: γ, C and ρ_min.
        temperature: of the sharpened prediction.
        soft_selection: compare the loss of the target in use (True), or always −log max p.

    Example:
        >>> weighting = LossThreshold(warmup=0, initial_loss=0.5)
        >>> weighting(torch.tensor([[0.9, 0.1], [0.6, 0.4]]))
        tensor([0., 0.])
    """

    updates: Tensor
    reference: Tensor
    reference_count: Tensor

    def __init__(
        self,
        warmup: int = 2048,
        every: int = 10240,
        initial_loss: float | None = None,
        decay: float = 1.27,
        factor: float = 1.0001,
        floor: float = 0.05,
        temperature: float = 0.5,
        soft_selection: bool = True,
        max_weight: float = 1.0,
    ) -> None:
        super().__init__(max_weight)
        self.warmup, self.every, self.given = warmup, max(every, 1), initial_loss is not None
        self.decay, self.factor, self.floor = decay, factor, floor
        self.temperature, self.soft_selection = temperature, soft_selection
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("reference", torch.tensor(float(initial_loss or 0.0)))
        self.register_buffer("reference_count", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        refuse_invalid("probs", seen.weak_probs)
        if not self.given:
            if seen.labeled_probs is None or seen.labels is None:
                raise InputError("Dash measures its first threshold on labelled predictions: give labelled logits and labels.")
            refuse_invalid("labeled_probs", seen.labeled_probs)
            measured = self.warmup - max(self.warmup // 10, 1)
            counts = (self.updates >= measured) & (self.updates < max(self.warmup, 1))
            loss = F.nll_loss(seen.labeled_probs.clamp_min(1e-12).log(), seen.labels)
            number = self.reference_count + counts.to(torch.int64)
            self.reference.add_(torch.where(counts, (loss - self.reference) / number.clamp_min(1), torch.zeros_like(loss)))
            self.reference_count.copy_(number)
        self.updates.add_(1)

    def loss_threshold(self) -> Tensor:
        """ρ_j."""
        level = torch.div((self.updates - 1 - self.warmup).clamp_min(0), self.every, rounding_mode="floor")
        return (self.factor * self.reference * self.decay ** (-level.float())).clamp_min(self.floor)

    def statistics(self) -> dict[str, Tensor]:
        return {"loss_threshold": self.loss_threshold()}

    def target(self, probs: Tensor) -> Tensor:
        """Sharpened while ρ_j > ρ_min, hard afterwards."""
        return torch.where(self.loss_threshold() > self.floor, targets.sharpened(probs, self.temperature), targets.hard(probs))

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        top = confidence(probs)
        if self.soft_selection:
            loss = -(self.target(probs) * probs.clamp_min(1e-12).log()).sum(-1)
        else:
            loss = -top.clamp_min(1e-12).log()
        started = self.updates > self.warmup
        return self.max_weight * ((loss <= self.loss_threshold()) & started).to(top.dtype)


class RelativeThreshold(Weighting):
    """AdaMatch's λ = 1(max p̃ ≥ τ·mean max p(x)): the threshold follows the confidence on labels (Berthelot et al. 2021).

    Args:
        ratio: τ.

    Example:
        >>> probs, labeled_probs = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([[0.8, 0.2]])
        >>> weighting = RelativeThreshold(0.9)
        >>> weighting.update(Seen(probs, labeled_probs))
        >>> weighting(probs)
        tensor([1., 0.])
    """

    threshold: Tensor

    def __init__(self, ratio: float = 0.9, max_weight: float = 1.0) -> None:
        super().__init__(max_weight)
        self.ratio = ratio
        self.register_buffer("threshold", torch.tensor(float(ratio)))

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        if seen.labeled_probs is None:
            raise InputError("AdaMatch takes its threshold from labelled predictions: give labelled logits.")
        refuse_invalid("labeled_probs", seen.labeled_probs)
        self.threshold.copy_(self.ratio * seen.labeled_probs.max(-1).values.mean())

    def statistics(self) -> dict[str, Tensor]:
        return {"threshold": self.threshold}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        top = confidence(probs)
        return self.max_weight * (top >= self.threshold).to(top.dtype)


class SelfAdaptiveThreshold(Weighting):
    """FreeMatch's λ = 1(max p ≥ τ·p̃_ŷ / max p̃), with running τ = mean confidence and p̃ = mean prediction (Wang et al. 2023).

    `fairness` is its self-adaptive fairness loss, which also uses the running histogram h̃ of the pseudo-labels.

    Args:
        num_classes: C.
        momentum: m of the running averages.
        start: weight of the initial values in the averages (see RunningAverage).
        clip: lowest and highest τ.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        >>> weighting = SelfAdaptiveThreshold(num_classes=2, momentum=0.5)
        >>> weighting.update(Seen(probs))
        >>> weighting(probs)
        tensor([1., 0.])
    """

    from_sums = True

    def __init__(
        self,
        num_classes: int,
        momentum: float = PAPER_MOMENTUM,
        start: Start = "paper",
        clip: tuple[float, float] | None = None,
        max_weight: float = 1.0,
    ) -> None:
        super().__init__(max_weight)
        self.num_classes, self.clip = num_classes, clip
        uniform = torch.full((num_classes,), 1.0 / num_classes)
        self.level = RunningAverage(uniform[0], momentum, start)
        self.marginal = RunningAverage(uniform, momentum, start)
        self.histogram = RunningAverage(uniform, momentum, start)

    @torch.no_grad()
    def update(self, seen: Seen) -> None:
        self.level.update(seen.confidence_moments()[1])
        self.marginal.update(seen.mean_probs())
        self.histogram.update(seen.pseudo_label_shares())

    def class_thresholds(self) -> Tensor:
        """τ·p̃ / max p̃, (C,)."""
        marginal = self.marginal.value
        thresholds = self.level.value * marginal / marginal.max()
        return thresholds if self.clip is None else thresholds.clamp(*self.clip)

    def statistics(self) -> dict[str, Tensor]:
        return {"threshold": self.level.value, "class_thresholds": self.class_thresholds()}

    def forward(self, probs: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        return self.max_weight * _reach(self.class_thresholds(), probs, pseudo_labels)

    def fairness(self, strong_logits: Tensor, weights: Tensor, total: Curve = lambda sums: sums) -> Tensor:
        """L_f = Σ a·log b, a = Norm(p̃/h̃), b = Norm(mean q / hist(argmax q)) over selected samples; 0 if there are none.

        Args:
            total: makes sums over all processes of the sums over these rows.
        """
        chosen = (weights > 0).to(torch.float32)
        strong = torch.softmax(strong_logits.float(), dim=-1)
        rows = torch.stack([strong, targets.hard(strong.detach()), chosen[:, None].expand_as(strong)]) * chosen[:, None]
        sums, histogram, selected = total(rows.sum(1))
        number = selected[0].clamp_min(1.0)
        ours = _normalized_ratio(self.marginal.value, self.histogram.value)
        theirs = _normalized_ratio(sums / number, histogram / number)
        loss: Tensor = (ours * torch.log(theirs + 1e-12)).sum() * (selected[0] > 0)
        return loss


def _normalized_ratio(value: Tensor, by: Tensor) -> Tensor:
    """Norm(value / by), with x/0 counted as 0."""
    ratio = torch.where(by > 0, value / by.clamp_min(1e-12), torch.zeros_like(value))
    return ratio / ratio.sum().clamp_min(1e-12)


class SignalAnnealing(nn.Module):
    """L_s over the labelled samples with p(correct label) ≤ η_t = a_t(1 − 1/C) + 1/C, divided by their number.

    Args:
        schedule: a_t is "linear" t/K, "log" 1 − e^(−5t/K), or "exp" e^(5(t/K − 1)).
    """

    calls: Tensor

    def __init__(self, num_classes: int, total_steps: int, schedule: Literal["linear", "log", "exp"] = "linear") -> None:
        super().__init__()
        if schedule not in SCHEDULES:
            raise ValueError(f'schedule must be "linear", "log" or "exp", not {schedule!r}')
        self.num_classes, self.total_steps, self.schedule = num_classes, total_steps, schedule
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def threshold(self) -> Tensor:
        """η_t, with t the number of training steps so far."""
        progress = SCHEDULES[self.schedule]((self.calls / self.total_steps).clamp_max(1.0))
        return progress * (1.0 - 1.0 / self.num_classes) + 1.0 / self.num_classes

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = F.cross_entropy(logits, labels, reduction="none")
        kept = (losses.detach() >= -torch.log(self.threshold()) - 1e-7).to(losses.dtype)
        if self.training:
            self.calls.add_(1)
        return (losses * kept).sum() / kept.sum().clamp_min(1.0)
