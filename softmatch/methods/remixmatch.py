"""ReMixMatch (Berthelot et al. 2020): MixMatch with aligned guesses, strong views of them, and a rotation task."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment
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

    t = sharpen_T(Norm(p·r/s)) of the prediction p on ω(u), without gradient. x, ω(u) and every Ω_k(u) are mixed as in
    MixMatch; the mixed passes alone move the running statistics. The marginal s learns p after it has been used.

    Args:
        alignment: its target r is the labelled prior.
        ramp_steps: steps in which w grows linearly from 0 to 1.
        weight, strong_weight, rotation_weight: a, b and c.
        alpha, temperature, per_sample: as in MixMatch.
        views: number K of strong views.
        rotation: train the rotation task; images must be square.
    """

    kinds = ("image", "vector")

    def __init__(
        self,
        alignment: Alignment,
        ramp_steps: int,
        *,
        weight: float,
        strong_weight: float,
        rotation_weight: float,
        alpha: float,
        temperature: float,
        views: int,
        rotation: bool,
        per_sample: bool = True,
    ) -> None:
        super().__init__()
        self.unlabeled_views = ("weak", *view_names("strong", views))
        self.needs_features = self.rotation = rotation
        self.weight, self.strong_weight, self.rotation_weight = weight, strong_weight, rotation_weight
        self.alpha, self.temperature, self.per_sample = alpha, temperature, per_sample
        self.alignment = alignment
        self.ramp = Ramp(ramp_steps)

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
        """Mean cross-entropy of the rotation head, which tells by how many quarters each image was turned."""
        turns = torch.randint(4, (forward.rows(images),))  # for each image alone
        (encoded,) = forward.encode(quarter_turns(images, forward.own(turns)), tracking=False)
        return F.cross_entropy(forward.head(encoded.features, "rotation").float(), turns.to(images.device))

    def statistics(self) -> dict[str, Tensor]:
        return {"ramp": self.ramp(), "marginal": self.alignment.marginal.value}


def remixmatch(
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
) -> ReMixMatch:
    """ReMixMatch: guesses aligned to the labelled class frequencies, mixed with strong views; a rotation task for images.

    The marginal of the predictions is the mean of the last `queue` batches, at most a fortieth of the run; with 0 a
    running average. `rotation` None: for square images.
    """
    weights = {"weight": weight, "strong_weight": strong_weight, "rotation_weight": rotation_weight}
    refuse_mixing_options(alpha, temperature, views, ramp, **weights)
    square = kind == "image" and len(shape) > 1 and shape[-1] == shape[-2]
    if rotation and not square and (kind != "image" or shape):
        what = f"images of {shape[-2]}×{shape[-1]} pixels" if kind == "image" and len(shape) > 1 else f"items of kind {kind!r}"
        raise InputError(f"the rotation task needs square images, not {what}: leave rotation out, or give false.")
    length = queue_for(total_steps, queue)
    goal = "uniform" if class_prior is None else class_prior
    return ReMixMatch(
        Alignment(num_classes, goal, momentum, queue=length, start=start, epsilon=epsilon),  # type: ignore[arg-type]  # one of Target
        ramp_steps(total_steps, ramp),
        alpha=alpha,
        temperature=temperature,
        views=views,
        rotation=square if rotation is None else rotation,
        per_sample=per_sample,
        **weights,
    )
