"""ReMixMatch (Berthelot et al. 2020): MixMatch with aligned guesses, strong views and a rotation task."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment, Target
from softmatch.averages import PAPER_MOMENTUM, Start, queue_for
from softmatch.errors import InputError
from softmatch.methods.base import Forward, Method
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.mixing import mixed_logits, ramp_steps, refuse_mixing_options, view_names
from softmatch.metrics import PseudoLabels
from softmatch.state import Ramp
from softmatch.step import Batch, Output, Seen, refuse_invalid


def quarter_turns(images: Tensor, turns: Tensor) -> Tensor:
    """Each square image (B, …, H, H) turned by its own number of quarters, 0 … 3; `turns` (B,) is on the host."""
    turned = images.clone()
    for number in (1, 2, 3):
        chosen = (turns == number).nonzero().flatten().to(images.device)
        turned[chosen] = torch.rot90(images[chosen], number, (-2, -1))
    return turned


class ReMixMatch(Method):
    """L = mean H(y', p(x')) + w(t)·(a·mean H(t', p(u')) + b·mean H(t, p(Ω₁(u)))) + c·mean H(r, rotation head on r(Ω₁(u))).

    t = sharpen_T(Norm(p·r/s)) of the prediction p on ω(u), without gradient; r are the labelled class frequencies. x, ω(u) and
    every Ω_k(u) are mixed as in MixMatch; only the mixed passes move the running statistics. s learns p after it was used.

    Args:
        class_prior: r; uniform by default.
        kind, shape: modality and shape of the items.
        weight, strong_weight, rotation_weight: a, b and c.
        rotation: train the rotation task, which needs square images; by default, if they are.
        alpha, temperature, ramp, per_sample: as in MixMatch.
        views: number K of strong views.
        queue: batches in the mean that estimates s, at most a fortieth of the run; 0: a running average.
    """

    kinds = ("image", "vector")

    def __init__(
        self,
        num_classes: int,
        *,
        total_steps: int = PAPER_STEPS,
        class_prior: Sequence[float] | None = None,
        kind: str = "image",
        shape: tuple[int, ...] = (),
        weight: float = 1.5,
        strong_weight: float = 0.5,
        rotation_weight: float = 0.5,
        rotation: bool | None = None,
        alpha: float = 0.75,
        temperature: float = 0.5,
        views: int = 2,
        ramp: float | None = None,
        queue: int = 128,
        epsilon: float = 1e-6,
        momentum: float = PAPER_MOMENTUM,
        start: Start = "paper",
        per_sample: bool = True,
    ) -> None:
        super().__init__()
        weights = {"weight": weight, "strong_weight": strong_weight, "rotation_weight": rotation_weight}
        refuse_mixing_options(alpha, temperature, views, ramp, **weights)
        self.unlabeled_views = ("weak", *view_names("strong", views))
        self.needs_features = self.rotation = _rotates(rotation, kind, shape)
        self.weight, self.strong_weight, self.rotation_weight = weight, strong_weight, rotation_weight
        self.alpha, self.temperature, self.per_sample = alpha, temperature, per_sample
        goal: Target = "uniform" if class_prior is None else class_prior
        length = queue_for(total_steps, queue)
        self.alignment = Alignment(num_classes, goal, momentum, queue=length, start=start, epsilon=epsilon)
        self.ramp = Ramp(ramp_steps(total_steps, ramp))

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {"rotation": nn.Linear(num_features, 4)} if self.rotation else {}

    def step(self, forward: Forward, batch: Batch) -> Output:
        views = [batch.unlabeled[name] for name in self.unlabeled_views]
        with torch.no_grad():
            (weak,) = forward(batch.unlabeled["weak"], tracking=False)
            refuse_invalid("weak_logits", weak)
            probs = torch.softmax(weak.float(), dim=-1)
            target = targets.sharpened(self.alignment(probs), self.temperature)
        labels = F.one_hot(batch.labels, target.shape[-1]).to(target.dtype)
        logits, goals = mixed_logits(
            forward, [batch.labeled["weak"], *views], [labels, *[target] * len(views)], self.alpha, self.per_sample
        )
        (strong,) = forward(batch.unlabeled["strong"], tracking=False)
        refuse_invalid("mixed_logits", logits)
        refuse_invalid("strong_logits", strong)
        if self.training:
            self.ramp.advance()
            self.alignment.update(Seen.from_logits(weak, None, None, None))
        ramp, number = self.ramp(), len(labels)
        losses = targets.cross_entropy(goals, logits)
        supervised = losses[:number].mean()
        strong_loss = targets.cross_entropy(target, strong).mean()
        unsupervised = ramp * (self.weight * losses[number:].mean() + self.strong_weight * strong_loss)
        if self.rotation:
            unsupervised = unsupervised + self.rotation_weight * self.rotation_loss(forward, batch.unlabeled["strong"])
        weights = ramp.expand(len(target))
        pseudo = PseudoLabels(target.argmax(-1), weights, weights, probs.max(-1).values)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def rotation_loss(self, forward: Forward, images: Tensor) -> Tensor:
        """Mean cross-entropy of the rotation head, which predicts by how many quarters each image was turned."""
        turns = torch.randint(4, (forward.rows(images),))  # one for each image
        (encoded,) = forward.encode(quarter_turns(images, forward.own(turns)), tracking=False)
        return F.cross_entropy(forward.head(encoded.features, "rotation").float(), turns.to(images.device))

    def statistics(self) -> dict[str, Tensor]:
        return {"ramp": self.ramp(), "marginal": self.alignment.marginal.value}


def _rotates(wanted: bool | None, kind: str, shape: tuple[int, ...]) -> bool:
    """The given choice, by default true for square images. Raises InputError for items that cannot be rotated."""
    square = kind == "image" and len(shape) > 1 and shape[-1] == shape[-2]
    if wanted and not square and (kind != "image" or shape):
        what = f"images of {shape[-2]}×{shape[-1]} pixels" if kind == "image" and len(shape) > 1 else f"items of kind {kind!r}"
        raise InputError(f"the rotation task needs square images, not {what}: leave rotation out, or give false.")
    return square if wanted is None else wanted


remixmatch = ReMixMatch
