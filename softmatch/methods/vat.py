"""VAT (Miyato et al. 2019): the prediction withstands the small perturbation that changes it most."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from softmatch import targets
from softmatch.methods.base import Forward
from softmatch.methods.consistency import Consistency
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.options import require
from softmatch.state import Shape
from softmatch.step import Batch, Output

CIFAR_VALUES = 3 * 32 * 32
CIFAR_RADIUS = 6.0


class VAT(Consistency):
    """The target of the perturbed input is the prediction on the plain one: KL(p(u) ‖ p(u + r)), ‖r‖ = ε, + h·H(p(u)).

    r is the direction in which the prediction changes most, found by power iteration from noise:
    d ← ∇_d KL(p(u) ‖ p(u + ξd/‖d‖)).

    Args:
        epsilon: ε in standard deviations of the input; None: 6·√(D/3072) for D values per sample, 6 for CIFAR's.
        step: ξ/ε, length of the trial step.
        iterations: steps of the power iteration.
        entropy: h; 0 leaves the term out.
    """

    unlabeled_views = ("weak",)
    kinds = ("image", "vector")

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
        del num_classes
        super().__init__(total_steps, max_weight, ramp, ramp_shape)
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


vat = VAT
