"""Muon for convolutions: momentum whose singular values are made equal, on weights of constant norm; SGD for the rest."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial whose iteration moves singular values from (0, 1] to about 1 (Jordan and others, 2024)."""
ITERATIONS = 5


def orthogonalise(matrix: Tensor) -> Tensor:
    """U·Vᵀ of a matrix U·S·Vᵀ, roughly: its singular values become 0.7 to 1.2. Five steps of a Newton–Schulz iteration.

    Each step multiplies the matrix by a polynomial of its small Gram matrix. Only that one is iterated, and the polynomials are
    applied together at the end: for filters of 3 × 3 two fifths of the arithmetic.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    gram = x @ x.T
    product = one = torch.eye(len(gram), dtype=x.dtype, device=x.device)
    for _ in range(ITERATIONS):
        factor = a * one + b * gram + c * gram @ gram
        product = factor @ product
        gram = factor @ gram @ factor
    x = product @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """One step: w ← √n·w/‖w‖ − η·orthogonalise(m), with Nesterov momentum m of the gradient and n output channels.

    torch.optim.Muon takes matrices only. Here a convolution is the matrix of its filters. Its norm is constant, so that the
    learning rate is a relative one, the same for each width; it needs a normalisation layer behind it. Groups with `orthogonal`
    false are trained by SGD with Nesterov momentum.

    Reference: K. Jordan and others, Muon: An optimizer for hidden layers in neural networks, 2024.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr, "momentum": 0.6, "weight_decay": 0.0, "orthogonal": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # no closure is used
        """Take one step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group)

    def _move(self, weight: Tensor, group: dict[str, Any]) -> None:
        gradient: Tensor = weight.grad  # type: ignore[assignment]  # checked by `step`
        if group["weight_decay"]:
            gradient = gradient.add(weight, alpha=group["weight_decay"])
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        average = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        update = gradient.add(average, alpha=group["momentum"])
        if group["orthogonal"]:
            update = orthogonalise(update.flatten(1)).reshape(weight.shape)
            weight.mul_(math.sqrt(len(weight)) / weight.norm().clamp_min(1e-7))
        weight.add_(update, alpha=-group["lr"])
