"""The paper's unified objective (equation 2): L = L_s + (1/B_U) Σ λ(p_i)·H(p̂_i, p(y | Ω(u_i))), and Table 1 as code.

A method is an alignment × a weighting λ × a target. Each function below is one such composition.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment, EstimatedAlignment, NoAlignment
from softmatch.averages import PAPER_MOMENTUM, Start
from softmatch.distributed.processes import summed
from softmatch.errors import InputError
from softmatch.methods.base import Method
from softmatch.methods.forward import Forward
from softmatch.metrics import PseudoLabels
from softmatch.step import Batch, Output, Seen, refuse_invalid, whole
from softmatch.thresholds import CurriculumThreshold, LossThreshold, SelfAdaptiveThreshold, SignalAnnealing
from softmatch.weightings import (
    Constant,
    Estimation,
    RampUp,
    Threshold,
    TruncatedGaussian,
    Weighting,
    needs_sums_only,
    weight_curve,
)

PAPER_STEPS = 2**20
BY_ROW = frozenset((targets.hard, targets.soft, targets.sharpened, targets.cross_entropy, targets.kl_divergence))
"""Targets and divergences of which it is known that they treat each row by itself."""


class Refinement(nn.Module):
    """p → p', with its own state: the first thing Match does with predictions, before alignment, weights and targets."""

    def update(self, seen: Seen) -> None:
        """Learn from one step's raw predictions. Called once per step, before `forward`."""

    def forward(self, probs: Tensor, index: Tensor | None = None) -> Tensor:
        """p' (B, C) of predictions (B, C) on the samples at these positions of the unlabelled set."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(probs, index)")

    def statistics(self) -> dict[str, Tensor]:
        """State worth logging, by name."""
        return {}


@dataclass(frozen=True)
class Judgement(PseudoLabels):
    """Pseudo-labels of a match method, with p̂ (B, C), the distribution that the strong view is trained towards."""

    target: Tensor


class Match(Method):
    """L = L_s + (1/B_U) Σ λ(p̃_i)·H(target_i, q_i), divided by the batch size, not by the number of selected samples.

    Args:
        weighting: λ.
        alignment: p → p̃; none by default. The weights always see p̃.
        target: probabilities (B, C) → p̂ (B, C).
        align_targets: make p̂ from p̃ (DA) instead of from p (UA).
        statistics: λ learns from "raw" predictions (the paper) or from "aligned" ones (USB).
        divergence: H of target and logits, one value per sample.
        supervised_loss: L_s of labelled logits and labels.
        penalty, penalty_weight: an additional term, of strong logits and weights.
        strong_view: false for methods that train the weak view on itself.
        refinement: p → p', before alignment and targets (DARP, DebiasPL); the state still learns from p.

    Attributes:
        sample_factor: targets (B, C) and index → a factor (B,) on λ, for methods around this one.

    Raises:
        ValueError: `statistics` is unknown.

    Example:
        >>> method = methods.softmatch(num_classes=10)
        >>> labeled_logits, weak_logits, strong_logits = torch.zeros(4, 10), torch.zeros(28, 10), torch.zeros(28, 10)
        >>> method(labeled_logits, torch.arange(4), weak_logits, strong_logits)  # log 10 from the labels, and again
        tensor(4.6052)
    """

    def __init__(
        self,
        weighting: Weighting,
        alignment: Alignment | NoAlignment | None = None,
        target: Callable[[Tensor], Tensor] = targets.hard,
        *,
        align_targets: bool = False,
        statistics: Literal["raw", "aligned"] = "raw",
        divergence: Callable[[Tensor, Tensor], Tensor] = targets.cross_entropy,
        supervised_loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
        penalty: Callable[..., Tensor] | None = None,
        penalty_weight: float = 1.0,
        strong_view: bool = True,
        refinement: Refinement | None = None,
    ) -> None:
        super().__init__()
        if statistics not in ("raw", "aligned"):
            raise ValueError(f'statistics must be "raw" or "aligned", not {statistics!r}')
        self.weighting = weighting
        self.alignment = NoAlignment() if alignment is None else alignment
        self.target = target
        self.align_targets = align_targets
        self.statistics_from = statistics
        self.divergence = divergence
        self.supervised_loss = supervised_loss
        self.penalty, self.penalty_weight = penalty, penalty_weight
        self.unlabeled_views = ("weak", "strong") if strong_view else ("weak",)
        self.tracked_views = None if strong_view else ()
        self.refinement = refinement
        self.sample_factor: Callable[[Tensor, Tensor | None], Tensor] | None = None

    @property
    def from_sums(self) -> bool:
        """True if the method needs only sums over the batch, beside one row at a time: several processes then exchange these."""
        functions = (getattr(each, "func", each) for each in (self.target, self.divergence))
        return (
            type(self) is Match
            and needs_sums_only(self.weighting)
            and needs_sums_only(self.alignment)
            and self.supervised_loss is F.cross_entropy
            and all(each in BY_ROW for each in functions)
            and (self.penalty is None or self.penalty == getattr(self.weighting, "fairness", None))
            and (self.refinement, self.sample_factor, self.statistics_from) == (None, None, "raw")
        )

    def forward(
        self,
        labeled_logits: Tensor,
        labels: Tensor,
        weak_logits: Tensor,
        strong_logits: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch, for a loop of your own. The state learns only in training mode.

        Args:
            labeled_logits, labels: z(ω(x)) (B_L, C) and y (B_L,).
            weak_logits: z(ω(u)) (B_U, C); used without gradient, unless the method has no strong view.
            strong_logits: z(Ω(u)) (B_U, C).
            index: positions in the unlabelled set (B_U,), for methods that remember samples.
        """
        return self.compute(labeled_logits, labels, weak_logits, strong_logits, index).loss

    def compute(
        self,
        labeled_logits: Tensor,
        labels: Tensor,
        weak_logits: Tensor,
        strong_logits: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Output:
        """`forward`, with the parts of the loss and the pseudo-labels."""
        if (strong_logits is None) == ("strong" in self.unlabeled_views):
            wants = (
                "needs strong_logits" if strong_logits is None else "trains the weak view on itself: do not give strong_logits"
            )
            raise InputError(f"this method {wants}.")
        trained = weak_logits if strong_logits is None else strong_logits
        for name, value in (("labeled_logits", labeled_logits), ("weak_logits", weak_logits), ("strong_logits", trained)):
            refuse_invalid(name, value)
        if strong_logits is not None and strong_logits.shape != weak_logits.shape:
            raise InputError(f"weak logits {tuple(weak_logits.shape)} and strong logits {tuple(trained.shape)} differ in shape.")
        pseudo = self._learned(labeled_logits, labels, weak_logits, index)
        return self._output(labeled_logits, labels, pseudo, pseudo.weights, pseudo.target, trained)

    @torch.no_grad()
    def _learned(self, labeled_logits: Tensor, labels: Tensor, weak_logits: Tensor, index: Tensor | None) -> Judgement:
        if self.training:
            by_sums = self.from_sums and not whole()
            self.learn(Seen.from_logits(weak_logits, labeled_logits, labels, index, by_sums=by_sums))
        return self.judge(torch.softmax(weak_logits.detach().float(), dim=-1), index)

    def _output(
        self, labeled_logits: Tensor, labels: Tensor, pseudo: Judgement, weights: Tensor, target: Tensor, trained: Tensor
    ) -> Output:
        supervised = self.supervised_loss(labeled_logits.float(), labels)
        unsupervised = (weights * self.divergence(target, trained)).mean()
        loss = supervised + unsupervised
        if self.penalty is not None:
            loss = loss + self.penalty_weight * self.penalty(trained, weights)
        return Output(loss, supervised.detach(), unsupervised.detach(), pseudo)

    def learn(self, seen: Seen) -> None:
        """Update the state: refinement and alignment first, then λ from raw (or aligned) predictions."""
        if self.refinement is not None:
            self.refinement.update(seen)
        self.alignment.update(seen)
        if self.statistics_from == "aligned":
            seen = replace(seen, weak_probs=self.alignment(seen.weak_probs))
        self.weighting.update(seen)

    @torch.no_grad()
    def judge(self, probs: Tensor, index: Tensor | None = None) -> Judgement:
        """Predictions → refine → align → target and weigh: all that follows from them, in training and for a saved run."""
        refined = probs if self.refinement is None else self.refinement(probs, index)
        aligned = self.alignment(refined)
        target = self.target(aligned if self.align_targets else refined)
        labels = target.argmax(-1)
        weights = self.weighting(aligned, labels)
        unaligned = weights if isinstance(self.alignment, NoAlignment) else self.weighting(refined, labels)
        if self.sample_factor is not None:
            factor = self.sample_factor(target, index)
            weights, unaligned = weights * factor, unaligned * factor
        return Judgement(labels, weights, unaligned, probs.max(-1).values, target)

    def step(self, forward: Forward, batch: Batch) -> Output:
        has_strong, own = "strong" in self.unlabeled_views, forward.by_share and self.from_sums
        if has_strong and forward.strong_share < 1.0 and type(self).compute is Match.compute:
            return self._step_on_surest(forward, batch)
        call, views = (partial(forward, own=True) if own else forward), (batch.labeled["weak"], batch.unlabeled["weak"])
        strong: Tensor | None = None
        if has_strong:
            labeled, weak, strong = call(*views, batch.unlabeled["strong"], gradient=(True, False, True))
        else:
            (labeled,) = call(views[0])
            (weak,) = call(views[1], tracking=False)
        if own:
            return self._of_share(forward, batch, labeled, weak, weak if strong is None else strong)
        return self.compute(labeled, batch.labels, weak, strong, batch.index)

    def _of_share(self, forward: Forward, batch: Batch, labeled: Tensor, weak: Tensor, trained: Tensor) -> Output:
        """The loss of the whole batch from the logits of this process's rows, and its gradient for these rows."""
        labels = forward.own(batch.labels)
        if self.training:
            self.learn(Seen.from_logits(weak, labeled, labels, None, by_sums=True))
        pseudo = self.judge(torch.softmax(weak.detach().float(), dim=-1))
        supervised = F.cross_entropy(labeled.float(), labels, reduction="sum") / len(batch.labels)
        unsupervised = (pseudo.weights * self.divergence(pseudo.target, trained)).sum() / len(batch.index)
        supervised, unsupervised = summed(torch.stack([supervised, unsupervised]))
        loss = supervised + unsupervised
        if self.penalty is not None:
            loss = loss + self.penalty_weight * self.penalty(trained, pseudo.weights, summed)
        return Output(loss, supervised.detach(), unsupervised.detach(), pseudo, own_rows=True)

    def _step_on_surest(self, forward: Forward, batch: Batch) -> Output:
        """Train on the strong views of the largest weights only, of each process; those of the others cost nothing.

        The loss is divided by their number. f and g are of what is trained on.
        """
        labeled, weak = forward(batch.labeled["weak"], batch.unlabeled["weak"], gradient=(True, False))
        for name, value in (("labeled_logits", labeled), ("weak_logits", weak)):
            refuse_invalid(name, value)
        pseudo = self._learned(labeled, batch.labels, weak, batch.index)
        own = forward.own(pseudo.weights)
        chosen = own.argsort(descending=True, stable=True)[: max(round(forward.strong_share * len(own)), min(len(own), 2))]
        (strong,) = forward(batch.unlabeled["strong"][chosen])
        rows = forward.whole(forward.own(torch.arange(len(weak), device=weak.device))[chosen])
        used = torch.zeros_like(pseudo.weights).index_fill_(0, rows, 1.0)
        shown = replace(pseudo, weights=pseudo.weights * used, unaligned_weights=pseudo.unaligned_weights * used)
        return self._output(labeled, batch.labels, shown, pseudo.weights[rows], pseudo.target[rows], strong)

    def survey(self, probs: Tensor) -> None:
        self.weighting.survey(probs)
        if isinstance(self.alignment, EstimatedAlignment):
            self.alignment.survey(probs)
            self.survey_every = None  # one is enough

    def statistics(self) -> dict[str, Tensor]:
        found = self.weighting.statistics()
        if self.refinement is not None:
            found |= self.refinement.statistics()
        if isinstance(self.alignment, Alignment):
            found["marginal"] = self.alignment.marginal.value
        return found

    def weight_curve(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        return weight_curve(self.weighting, num_classes)


def softmatch(
    num_classes: int,
    *,
    momentum: float = PAPER_MOMENTUM,
    k: float = 2.0,
    estimation: Estimation = "all",
    align: Literal["none", "uniform", "prior", "predictions", "labels", "estimated"] = "uniform",
    class_prior: Sequence[float] | None = None,
    class_counts: Sequence[int] | None = None,
    statistics: Literal["raw", "aligned"] = "raw",
    start: Start = "paper",
    max_weight: float = 1.0,
    weighting: Weighting | None = None,
    total_steps: int = PAPER_STEPS,
    alone: float = 0.2,
) -> Match:
    """SoftMatch: truncated-Gaussian weights, uniform alignment for the weights only, hard labels of the raw predictions.

    `weighting` replaces the truncated Gaussian by another λ (the paper's ablation). With align="estimated", the first share
    `alone` of the steps learns from labels only; the weights are then aligned to the classes predicted on the unlabelled set.
    """
    gaussian = TruncatedGaussian(num_classes, momentum, k, estimation, start=start, max_weight=max_weight)
    chosen = gaussian if weighting is None else weighting
    if align == "estimated":
        if class_counts is None:
            raise InputError('align="estimated" needs class_counts: the number of labels of each class.')
        after = max(round(alone * total_steps), 1)
        alignment = EstimatedAlignment(num_classes, class_counts, momentum, start)
        method = Match(RampUp(1, chosen, start=after - 1), alignment, statistics=statistics)
        method.survey_every = after
        return method
    return Match(chosen, _alignment(num_classes, align, class_prior, momentum, start), statistics=statistics)


def _alignment(
    num_classes: int, align: str, class_prior: Sequence[float] | None, momentum: float, start: Start
) -> Alignment | None:
    if align == "none":
        return None
    if align == "prior":
        if class_prior is None:
            raise InputError('align="prior" needs class_prior: the frequency of each class.')
        return Alignment(num_classes, class_prior, momentum, start=start)
    if align in ("uniform", "predictions", "labels"):
        return Alignment(num_classes, align, momentum, start=start)  # type: ignore[arg-type]  # one of Target's strings
    raise InputError(f'align must be "none", "uniform", "prior", "predictions", "labels" or "estimated", not {align!r}.')


def fixmatch(num_classes: int, *, threshold: float = 0.95, max_weight: float = 1.0) -> Match:
    """FixMatch: hard labels of samples with confidence ≥ τ."""
    del num_classes  # every builder takes it
    return Match(Threshold(threshold, max_weight=max_weight))


def flexmatch(
    num_classes: int,
    *,
    num_unlabeled: int,
    threshold: float = 0.95,
    mapping: Literal["convex", "linear", "concave"] = "convex",
    threshold_warmup: bool = True,
) -> Match:
    """FlexMatch: FixMatch with a threshold per class that grows with how well the class is learned."""
    return Match(CurriculumThreshold(num_classes, num_unlabeled, threshold, mapping, threshold_warmup))


def freematch(
    num_classes: int,
    *,
    momentum: float = PAPER_MOMENTUM,
    start: Start = "paper",
    fairness: float = 0.01,
    clip: tuple[float, float] | None = None,
) -> Match:
    """FreeMatch: self-adaptive global and class thresholds, and a fairness term on the selected samples."""
    weighting = SelfAdaptiveThreshold(num_classes, momentum, start, clip)
    return Match(weighting, penalty=weighting.fairness, penalty_weight=fairness)


def uda(
    num_classes: int,
    *,
    threshold: float = 0.8,
    temperature: float = 0.4,
    annealing: Literal["none", "linear", "log", "exp"] = "none",
    total_steps: int = PAPER_STEPS,
) -> Match:
    """UDA: sharpened targets of samples with confidence > τ; optional annealing of the training signal (TSA)."""
    supervised = F.cross_entropy if annealing == "none" else SignalAnnealing(num_classes, total_steps, annealing)
    return Match(
        Threshold(threshold, strict=True),
        target=partial(targets.sharpened, temperature=temperature),
        divergence=targets.kl_divergence,
        supervised_loss=supervised,
    )


def dash(
    num_classes: int, *, total_steps: int = PAPER_STEPS, warmup: int | None = None, every: int | None = None, floor: float = 0.05
) -> Match:
    """Dash: samples whose pseudo-label loss is below a threshold that falls during training.

    The authors' 2,048 warm-up steps and 10 × 1,024 steps per level, as shares of 2^20, follow `total_steps`.
    """
    del num_classes
    share = total_steps / PAPER_STEPS
    weighting = LossThreshold(
        warmup=max(round(2048 * share), 1) if warmup is None else warmup,
        every=max(round(10240 * share), 1) if every is None else every,
        floor=floor,
    )
    return Match(weighting, target=weighting.target)


def pseudo_label(
    num_classes: int,
    *,
    total_steps: int = PAPER_STEPS,
    threshold: float | None = None,
    ramp: float = 0.4,
    max_weight: float = 1.0,
) -> Match:
    """PseudoLabel: the weak view trained on its own argmax, with a weight that grows linearly over the first 40 %."""
    del num_classes
    inner = Constant(max_weight) if threshold is None else Threshold(threshold, max_weight=max_weight)
    return Match(RampUp(max(round(ramp * total_steps), 1), inner), strong_view=False)
