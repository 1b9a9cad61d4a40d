"""Consistency methods: an unlabelled sample should get the same prediction twice, whatever that prediction is.

On two weak views (Π-model), now and in earlier epochs (temporal ensembling), by the network and by its average (MeanTeacher),
and with the perturbation that changes it most (VAT).
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from softmatch import targets
from softmatch.methods.base import Method, require, require_choice, supervised_loss
from softmatch.methods.forward import Forward
from softmatch.methods.match import PAPER_STEPS
from softmatch.metrics import PseudoLabels
from softmatch.state import Ramp, Registry, Shape
from softmatch.step import Batch, Output, gather, refuse_invalid


class Consistency(Method):
    """L = L_s + (1/B_U) Σ w(t)·D(target_i, z_i), w(t) = w_max·ramp(t/T). Each method defines its own targets.

    Unlabelled views are normalised with their own batches; only labelled ones move the running statistics.
    """

    unlabeled_views: tuple[str, ...] = ("weak", "weak_2")
    tracked_views = ()

    def __init__(
        self,
        num_classes: int,
        *,
        total_steps: int = PAPER_STEPS,
        max_weight: float = 50.0,
        ramp: float = 0.4,
        ramp_shape: Shape = "linear",
    ) -> None:
        del num_classes
        super().__init__()
        require("be positive", max_weight=max_weight)
        require("lie in [0, 1]", ramp=ramp)
        require_choice(Shape, ramp_shape=ramp_shape)
        self.max_weight = max_weight
        self.ramp = Ramp(max(round(ramp * total_steps), 1), ramp_shape)

    def distance(self, target: Tensor, logits: Tensor) -> Tensor:
        """D = (1/C)·‖target − p‖² of each sample (B,), p = softmax(z) in float32."""
        return (torch.softmax(logits.float(), dim=-1) - target).square().mean(-1)

    def compute(
        self, labeled_logits: Tensor, labels: Tensor, logits: Tensor, target: Tensor, known: Tensor | None = None
    ) -> Output:
        """The loss of one batch, its parts and the pseudo-labels. The ramp advances only in training mode.

        Args:
            logits: z of the trained view (B_U, C).
            target: probabilities (B_U, C), with or without gradient.
            known: samples that have a target, as booleans (B_U,); by default all. The others have weight 0.
        """
        supervised = supervised_loss(labeled_logits, labels)
        refuse_invalid("unlabeled_logits", logits)
        refuse_invalid("target", target)
        if self.training:
            self.ramp.advance()
        fixed, ramp = target.detach(), self.ramp()
        weights = ramp.expand(len(fixed)) if known is None else ramp * known
        unsupervised = self.max_weight * (weights * self.distance(target, logits)).mean()
        pseudo = PseudoLabels(fixed.argmax(-1), weights, weights, fixed.max(-1).values)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def statistics(self) -> dict[str, Tensor]:
        return {"ramp": self.ramp()}


class PiModel(Consistency):
    """The target of one weak view is the prediction on another: D(p(ω₁(u)), z(ω₂(u)))."""

    def __init__(
        self,
        num_classes: int,
        *,
        total_steps: int = PAPER_STEPS,
        max_weight: float = 10.0,
        ramp: float = 0.4,
        ramp_shape: Shape = "linear",
        both_branches: bool = False,
    ) -> None:
        super().__init__(num_classes, total_steps=total_steps, max_weight=max_weight, ramp=ramp, ramp_shape=ramp_shape)
        self.both_branches = both_branches

    def step(self, forward: Forward, batch: Batch) -> Output:
        (labeled,) = forward(batch.labeled["weak"])
        views = batch.unlabeled["weak"], batch.unlabeled["weak_2"]
        first, second = forward(*views, gradient=(self.both_branches, True), tracking=False)
        return self.compute(labeled, batch.labels, second, torch.softmax(first.float(), dim=-1))


class TemporalEnsembling(Consistency):
    """The target is the average of the sample's own earlier predictions: Z_n/(1 − α^v) after v visits, Z_n ← αZ_n + (1 − α)p_n.

    A sample that was not visited before has weight 0. Targets are read before the batch is taken in; if a sample occurs twice
    in a batch, the later prediction counts, as one visit.
    """

    unlabeled_views = ("weak",)

    def __init__(
        self,
        num_classes: int,
        *,
        num_unlabeled: int,
        total_steps: int = PAPER_STEPS,
        alpha: float = 0.6,
        max_weight: float = 30.0,
        ramp: float = 0.4,
        ramp_shape: Shape = "sigmoid",
    ) -> None:
        super().__init__(num_classes, total_steps=total_steps, max_weight=max_weight, ramp=ramp, ramp_shape=ramp_shape)
        require("lie in [0, 1)", alpha=alpha)
        require("be 1 or more", num_unlabeled=num_unlabeled)
        self.alpha = alpha
        self.sums = Registry(num_unlabeled, (num_classes,))
        self.visits = Registry(num_unlabeled, dtype=torch.int64)

    def step(self, forward: Forward, batch: Batch) -> Output:
        (labeled,) = forward(batch.labeled["weak"])
        (logits,) = forward(batch.unlabeled["weak"], tracking=False)
        return self.ensemble(labeled, batch.labels, logits, batch.index)

    def ensemble(self, labeled_logits: Tensor, labels: Tensor, logits: Tensor, index: Tensor) -> Output:
        """`compute` with the targets of these samples, whose averages then take in the predictions in training mode."""
        visits = self.visits[self.visits.check(index)]
        probs = torch.softmax(logits.detach().float(), dim=-1)
        known = visits > 0
        # 1 − αᵛ as −expm1(v·ln α): exact for α near 1.
        share = -torch.expm1(visits.clamp_min(1) * math.log(max(self.alpha, 1e-30)))
        target = torch.where(known[:, None], self.sums[index] / share[:, None], probs)
        output = self.compute(labeled_logits, labels, logits, target, known)
        if self.training:
            index, new = gather(index), gather(probs)
            self.sums.write(index, self.alpha * self.sums[index] + (1.0 - self.alpha) * new)
            self.visits.write(index, self.visits[index] + 1)
        assert output.pseudo is not None
        return replace(output, pseudo=replace(output.pseudo, confidence=probs.max(-1).values))


class MeanTeacher(Consistency):
    """The target is the prediction of the run's averaged weights θ' on another weak view: D(p_θ'(ω₁(u)), z_θ(ω₂(u)))."""

    def step(self, forward: Forward, batch: Batch) -> Output:
        (labeled,) = forward(batch.labeled["weak"])
        (teacher,) = forward.teach(batch.unlabeled["weak"])
        (student,) = forward(batch.unlabeled["weak_2"], tracking=False)
        return self.compute(labeled, batch.labels, student, torch.softmax(teacher.float(), dim=-1))


CIFAR_VALUES = 3 * 32 * 32
CIFAR_RADIUS = 6.0


class VAT(Consistency):
    """The target of the perturbed input is the prediction on the plain one: KL(p(u) ‖ p(u + r)), ‖r‖ = ε, + h·H(p(u)).

    r is the direction in which the prediction changes most, found by power iteration from noise:
    d ← ∇_d KL(p(u) ‖ p(u + ξd/‖d‖)).
    """

    unlabeled_views = ("weak",)
    kinds = ("array", "image", "series", "vector")

    def __init__(
        self,
        num_classes: int,
        *,
        total_steps: int = PAPER_STEPS,
        epsilon: float | None = None,
        step: float = 1e-3,
        iterations: int = 1,
        entropy: float = 0.06,
        max_weight: float = 1.0,
        ramp: float = 0.4,
        ramp_shape: Shape = "linear",
    ) -> None:
        super().__init__(num_classes, total_steps=total_steps, max_weight=max_weight, ramp=ramp, ramp_shape=ramp_shape)
        require("be positive", epsilon=epsilon)
        require("lie in (0, 1]", step=step)
        require("be 1 or more", iterations=iterations)
        require("be 0 or more", entropy=entropy)
        self.epsilon, self.share, self.iterations, self.entropy = epsilon, step, iterations, entropy

    def distance(self, target: Tensor, logits: Tensor) -> Tensor:
        """D = KL(target ‖ p)."""
        return targets.kl_divergence(target, logits)

    def step(self, forward: Forward, batch: Batch) -> Output:
        view = batch.unlabeled["weak"]
        (labeled,) = forward(batch.labeled["weak"])
        (plain,) = forward(view, gradient=(self.entropy > 0.0,), tracking=False)
        (perturbed,) = forward(view + self.perturbation(forward, view, plain.detach()), tracking=False)
        probs = torch.softmax(plain.float(), dim=-1)
        output = self.compute(labeled, batch.labels, perturbed, probs.detach())
        if self.entropy == 0.0:
            return output
        return replace(output, loss=output.loss + self.entropy * targets.cross_entropy(probs, plain).mean())

    def radius(self, view: Tensor) -> float:
        """ε."""
        return CIFAR_RADIUS * math.sqrt(view[0].numel() / CIFAR_VALUES) if self.epsilon is None else self.epsilon

    def perturbation(self, forward: Forward, view: Tensor, plain: Tensor) -> Tensor:
        """r, shaped like `view`, without gradient. In float32 throughout: half precision would round the trial step ξ away.

        Args:
            plain: z(u); under autocast it is computed again.
        """
        radius, half = self.radius(view), torch.is_autocast_enabled(view.device.type)
        with torch.autocast(view.device.type, enabled=False):
            view = view.detach().float()
            if half:
                (plain,) = forward(view, gradient=(False,), tracking=False)
            target, direction = torch.softmax(plain.float(), dim=-1), _noise(forward, view)
            for _ in range(self.iterations):
                trial = (self.share * radius * _unit(direction)).requires_grad_()
                (logits,) = forward(view + trial, tracking=False)
                (direction,) = torch.autograd.grad(targets.cross_entropy(target, logits).sum(), trial)
            return radius * _unit(direction)


def _noise(forward: Forward, view: Tensor) -> Tensor:
    """Standard normal values for the samples of a view; for a share, the rows of the noise of the whole view."""
    if not forward.sharded:
        return torch.randn_like(view)
    shape = (forward.rows(view), *view.shape[1:])
    whole = torch.empty_permuted(shape, view.dim_order(), dtype=view.dtype, device=view.device)  # sampled in memory order
    return forward.own(torch.randn_like(whole))


def _unit(direction: Tensor) -> Tensor:
    """d/‖d‖ of each sample; 0 stays 0. Dividing by the largest entry first keeps squares of small gradients from vanishing."""
    flat = direction.flatten(1)
    tiny = torch.finfo(flat.dtype).tiny
    flat = flat / flat.abs().amax(1, keepdim=True).clamp_min(tiny)
    length: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return (flat / length.clamp_min(tiny)).view_as(direction)
