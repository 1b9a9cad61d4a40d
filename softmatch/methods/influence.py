"""Influence (Ren, Yeh, Schwing 2020): a weight for every unlabelled sample, learned from held-out labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.methods.base import require
from softmatch.methods.forward import Forward, RecordedForward
from softmatch.methods.match import PAPER_STEPS, Judgement
from softmatch.methods.wrapper import Around, Base, match_method
from softmatch.state import Registry, StepCount
from softmatch.step import Batch, Output, gather

LARGEST_DIRECT = 2048
ITERATIONS = 100
TINY = 1e-30
BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Curvature:
    """H = Σ_i w_i·(diag q_i − q_i q_iᵀ) ⊗ h_i h_iᵀ + damping·I.

    The second derivative of Σ w_i·CE_i + ½·damping·‖W‖² by the last layer's kernel W (C, D), for any targets.

    Attributes:
        features: h (N, D), the inputs of the last layer.
        probs: q (N, C), its predictions.
        weights: w (N,).
    """

    features: Tensor
    probs: Tensor
    weights: Tensor
    damping: float

    def matrix(self) -> Tensor:
        """H itself, (C·D, C·D), for W (C, D) read row by row."""
        classes, size = self.probs.shape[1], self.features.shape[1]
        spread = (self.probs[:, :, None] * self.features[:, None, :]).flatten(1)
        weighted = self.weights[:, None] * spread
        whole = -weighted.T @ spread
        blocks = whole.view(classes, size, classes, size).diagonal(dim1=0, dim2=2)
        blocks += (weighted.T @ self.features).view(classes, size, size).permute(1, 2, 0)
        whole.diagonal().add_(self.damping)
        return whole

    def product(self, vector: Tensor) -> Tensor:
        """H·V for V (C, D), without H."""
        logits = self.features @ vector.T
        centred = logits - (self.probs * logits).sum(-1, keepdim=True)
        return (self.weights[:, None] * self.probs * centred).T @ self.features + self.damping * vector

    def solve(self, vector: Tensor) -> Tensor:
        """H⁻¹·V for V (C, D): directly if H is small, else by conjugate gradients."""
        if vector.numel() > LARGEST_DIRECT:
            return conjugate_gradients(self.product, vector)
        lower = torch.linalg.cholesky_ex(self.matrix()).L
        return torch.cholesky_solve(vector.reshape(-1, 1), lower).view_as(vector)


def conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
    """x with product(x) = right for a symmetric positive operator, in a fixed number of iterations: the host never waits."""
    solution, residual = torch.zeros_like(right), right
    direction, square = residual, (residual * residual).sum()
    for _ in range(ITERATIONS):
        image = product(direction)
        step = square / (direction * image).sum().clamp_min(TINY)
        solution, residual = solution + step * direction, residual - step * image
        old, square = square, (residual * residual).sum()
        direction = residual + square / old.clamp_min(TINY) * direction
    return solution


class Influence(Around):
    """L = L_s + (1/B_U) Σ λ_n·λ(p)·H(target, q), λ_n chosen so that training lowers the loss on held-out labels.

    ∂L_val/∂λ_n = −∇L_valᵀ H⁻¹ ∇ℓ_n, all by the kernel of the last layer: ∇ℓ_n = (q_n − target_n) h_nᵀ of the trained view,
    H the curvature of this batch's loss. Every `every` steps the λ_n of the batch take one Adam step, each with its own moments
    and counter, and are clipped to [0, max_weight].
    """

    def __init__(
        self,
        num_classes: int,
        *,
        num_unlabeled: int,
        total_steps: int = PAPER_STEPS,
        base: Base = "fixmatch",
        validation_share: float = 0.25,
        lr: float = 0.01,
        every: int | None = None,
        damping: float = 1.0,
        max_weight: float = 2.0,
    ) -> None:
        del num_classes
        require("lie in (0, 1)", validation_share=validation_share)
        require("be positive", lr=lr, damping=damping, max_weight=max_weight)
        require("be 1 or more", every=every)
        super().__init__(match_method(base))
        self.streams, self.validation_share = (*self.streams, "validation"), validation_share
        self.needs_features = True
        self.every = every or max(round(512 * total_steps / PAPER_STEPS), 1)
        self.lr, self.damping, self.max_weight = lr, damping, max_weight
        self.weights = Registry(num_unlabeled, fill=1.0)
        self.first_moment, self.second_moment = Registry(num_unlabeled), Registry(num_unlabeled)
        self.updates = Registry(num_unlabeled, dtype=torch.int64)
        self.count = StepCount()
        self.base.sample_factor = self._factor

    def _factor(self, target: Tensor, index: Tensor | None) -> Tensor:
        del target
        return self.weights[self.weights.check(index)]

    def step(self, forward: Forward, batch: Batch) -> Output:
        recorded = RecordedForward(forward)
        output = self.base.step(recorded, batch)
        if self.training:
            self.count.advance()
            if self.count.steps % self.every == 0:
                assert isinstance(output.pseudo, Judgement)
                self._learn(recorded, batch, output.pseudo)
        return output

    @torch.no_grad()
    def _learn(self, forward: RecordedForward, batch: Batch, pseudo: Judgement) -> None:
        """Update the λ_n of this batch, from the batches of all processes."""
        validation = batch.streams["validation"]
        (held_out,) = forward.inner.encode(validation.views["weak"], gradient=(False,), tracking=False)
        labeled = forward.of(batch.labeled["weak"])
        trained = forward.of(batch.unlabeled[self.unlabeled_views[-1]])
        with torch.autocast(pseudo.weights.device.type, enabled=False):
            features, probs = (gather(value) for value in _last_layer(trained))
            labeled_features, labeled_probs = (gather(value) for value in _last_layer(labeled))
            held_out_features, held_out_probs = (gather(value) for value in _last_layer(held_out))
            wrong = held_out_probs - F.one_hot(gather(validation.labels), held_out_probs.shape[1])
            known = torch.full_like(labeled_probs[:, 0], 1.0 / len(labeled_probs))
            curvature = Curvature(
                torch.cat([labeled_features, features]),
                torch.cat([labeled_probs, probs]),
                torch.cat([known, gather(pseudo.weights) / len(features)]),
                self.damping,
            )
            direction = curvature.solve(wrong.T @ held_out_features / len(wrong))
            gradient = -((probs - gather(pseudo.target)) * (features @ direction.T)).sum(-1)
            self._adam(gather(batch.index), gradient)

    def _adam(self, index: Tensor, gradient: Tensor) -> None:
        count = self.updates[index] + 1
        first = BETAS[0] * self.first_moment[index] + (1.0 - BETAS[0]) * gradient
        second = BETAS[1] * self.second_moment[index] + (1.0 - BETAS[1]) * gradient**2
        mean, square = (value / -torch.expm1(count * math.log(beta)) for value, beta in zip((first, second), BETAS, strict=True))
        moved = self.weights[index] - self.lr * mean / (square.sqrt() + EPSILON)
        self.weights.write(index, moved.clamp(0.0, self.max_weight))
        self.first_moment.write(index, first)
        self.second_moment.write(index, second)
        self.updates.write(index, count)

    def statistics(self) -> dict[str, Tensor]:
        return {**self.base.statistics(), "sample_weight": self.weights.rows.mean()}


def _last_layer(encoded: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    features, logits = encoded
    return features.detach().float(), torch.softmax(logits.detach().float(), dim=-1)
