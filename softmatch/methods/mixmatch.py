"""MixMatch and ReMixMatch (Berthelot et al. 2019, 2020): guessed labels, mixed with the labelled samples by mixup."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment, Target
from softmatch.averages import PAPER_MOMENTUM, Start, queue_for
from softmatch.errors import InputError
from softmatch.methods.base import Method, require
from softmatch.methods.forward import Forward
from softmatch.methods.match import PAPER_STEPS
from softmatch.metrics import PseudoLabels
from softmatch.state import Ramp
from softmatch.step import Batch, Output, Seen, refuse_invalid


def mixing_shares(number: int, alpha: float, per_sample: bool = True) -> Tensor:
    """max(λ, 1 − λ) of λ ~ Beta(α, α), (number,): one λ per sample, or one for all."""
    beta = torch.distributions.Beta(alpha, alpha)
    share: Tensor = beta.sample((number if per_sample else 1,))
    return torch.maximum(share, 1.0 - share).expand(number)


def blend(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """λ·first + (1 − λ)·second of tensors (B, …), each row with its own share λ (B,)."""
    share = share.reshape(-1, *[1] * (first.dim() - 1))
    return share * first + (1.0 - share) * second


def mixup(inputs: Tensor, targets: Tensor, alpha: float, per_sample: bool = True) -> tuple[Tensor, Tensor]:
    """Mix each sample and its target with another of the same batch, chosen by a permutation; its own share is ≥ ½."""
    partner = torch.randperm(len(inputs)).to(inputs.device)
    share = mixing_shares(len(inputs), alpha, per_sample).to(inputs.device)
    return blend(inputs, inputs[partner], share), blend(targets, targets[partner], share)


def mixed_logits(
    forward: Forward, views: Sequence[Tensor], targets: Sequence[Tensor], alpha: float, per_sample: bool = True
) -> tuple[Tensor, Tensor]:
    """Logits and targets, each (ΣB, C) in the order of the views, after mixup among the samples of all views.

    The passes are as large as the views, but their samples come from all of them: each pass normalises with, and moves the
    running statistics by, labelled and unlabelled samples together.
    """
    whole = [forward.whole(view) for view in views]
    inputs, mixed_targets = mixup(torch.cat(whole), torch.cat(list(targets)), alpha, per_sample)
    order = torch.randperm(len(inputs))
    parts = torch.split(inputs[order.to(inputs.device)], [len(view) for view in whole])
    passes = forward(*(forward.own(part) for part in parts))
    return torch.cat(passes)[torch.argsort(order).to(inputs.device)], mixed_targets


def view_names(name: str, number: int) -> tuple[str, ...]:
    """ "weak", "weak_2", … : independent views of one kind."""
    return (name, *(f"{name}_{i}" for i in range(2, number + 1)))


def ramp_steps(total_steps: int, ramp: float | None = None) -> int:
    """Length of the ramp of MixMatch and ReMixMatch; None: the authors' 2^14 of 2^20 steps, at most 40 % of the run."""
    share = min(PAPER_STEPS / 64 / total_steps, 0.4) if ramp is None else ramp
    return max(round(share * total_steps), 1)


class Mixing(Method):
    """Base of MixMatch and ReMixMatch: sharpened guesses as targets of mixed samples, and a ramp of the unlabelled loss."""

    kinds = ("array", "image", "series", "vector")

    def __init__(
        self,
        total_steps: int,
        alpha: float,
        temperature: float,
        views: int,
        ramp: float | None,
        per_sample: bool,
        **weights: float,
    ) -> None:
        super().__init__()
        require("be positive", alpha=alpha, temperature=temperature)
        require("be 1 or more", views=views)
        require("lie in [0, 1]", ramp=ramp)
        require("be 0 or more", **weights)
        self.alpha, self.temperature, self.per_sample = alpha, temperature, per_sample
        self.ramp = Ramp(ramp_steps(total_steps, ramp))

    def mix(self, forward: Forward, batch: Batch, target: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and goals of the mixed samples, labelled ones first; the ramp advances in training mode."""
        views = [batch.unlabeled[name] for name in self.unlabeled_views]
        goals = [F.one_hot(batch.labels, target.shape[-1]).to(target.dtype), *[target] * len(views)]
        mixed = mixed_logits(forward, [batch.labeled["weak"], *views], goals, self.alpha, self.per_sample)
        refuse_invalid("mixed_logits", mixed[0])
        if self.training:
            self.ramp.advance()
        return mixed

    def output(self, supervised: Tensor, unsupervised: Tensor, target: Tensor, probs: Tensor) -> Output:
        """The loss, and the guesses as pseudo-labels with the ramp as their weight."""
        weights = self.ramp().expand(len(target))
        pseudo = PseudoLabels(target.argmax(-1), weights, weights, probs.max(-1).values)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def statistics(self) -> dict[str, Tensor]:
        return {"ramp": self.ramp()}


class MixMatch(Mixing):
    """L = mean H(y', p(x')) + λ_u·w(t)·mean (t' − p(u'))², the second mean over samples, views and classes.

    t = sharpen_T of the mean prediction on the weak views of u, without gradient and without moving running statistics.
    Every x and every view of u is mixed with a random sample of all of them.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        total_steps: int = PAPER_STEPS,
        weight: float = 75.0,
        alpha: float = 0.75,
        temperature: float = 0.5,
        views: int = 2,
        ramp: float | None = None,
        per_sample: bool = True,
    ) -> None:
        del num_classes
        super().__init__(total_steps, alpha, temperature, views, ramp, per_sample, weight=weight)
        self.unlabeled_views, self.weight = view_names("weak", views), weight

    def step(self, forward: Forward, batch: Batch) -> Output:
        with torch.no_grad():
            weak = torch.stack(forward(*(batch.unlabeled[name] for name in self.unlabeled_views), tracking=False))
            refuse_invalid("weak_logits", weak)
            probs = torch.softmax(weak.float(), dim=-1).mean(0)
            target = targets.sharpened(probs, self.temperature)
        logits, goals = self.mix(forward, batch, target)
        number = len(batch.labels)
        supervised = targets.cross_entropy(goals[:number], logits[:number]).mean()
        squared = (goals[number:] - torch.softmax(logits[number:].float(), dim=-1)).square().mean()
        return self.output(supervised, self.weight * self.ramp() * squared, target, probs)


def quarter_turns(images: Tensor, turns: Tensor) -> Tensor:
    """Each square image (B, …, H, H) turned by its own number of quarters, 0 … 3; `turns` (B,) is on the host."""
    turned = images.clone()
    for number in (1, 2, 3):
        chosen = (turns == number).nonzero().flatten().to(images.device)
        turned[chosen] = torch.rot90(images[chosen], number, (-2, -1))
    return turned


class ReMixMatch(Mixing):
    """L = mean H(y', p(x')) + w(t)·(a·mean H(t', p(u')) + b·mean H(t, p(Ω₁(u)))) + c·mean H(r, rotation head on r(Ω₁(u))).

    t = sharpen_T(Norm(p·r/s)) of the prediction p on ω(u), without gradient; r are the labelled class frequencies. x, ω(u) and
    every Ω_k(u) are mixed as in MixMatch; only the mixed passes move the running statistics. s learns p after it was used.
    """

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
        weights = {"weight": weight, "strong_weight": strong_weight, "rotation_weight": rotation_weight}
        super().__init__(total_steps, alpha, temperature, views, ramp, per_sample, **weights)
        self.unlabeled_views = ("weak", *view_names("strong", views))
        self.needs_features = self.rotation = _rotates(rotation, kind, shape)
        self.weight, self.strong_weight, self.rotation_weight = weight, strong_weight, rotation_weight
        goal: Target = "uniform" if class_prior is None else class_prior
        self.alignment = Alignment(num_classes, goal, momentum, queue_for(total_steps, queue), start, epsilon)

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        return {"rotation": nn.Linear(num_features, 4)} if self.rotation else {}

    def step(self, forward: Forward, batch: Batch) -> Output:
        with torch.no_grad():
            (weak,) = forward(batch.unlabeled["weak"], tracking=False)
            refuse_invalid("weak_logits", weak)
            probs = torch.softmax(weak.float(), dim=-1)
            target = targets.sharpened(self.alignment(probs), self.temperature)
        logits, goals = self.mix(forward, batch, target)
        (strong,) = forward(batch.unlabeled["strong"], tracking=False)
        refuse_invalid("strong_logits", strong)
        if self.training:
            self.alignment.update(Seen.from_logits(weak, None, None, None))
        losses, number = targets.cross_entropy(goals, logits), len(batch.labels)
        strong_loss = targets.cross_entropy(target, strong).mean()
        unsupervised = self.ramp() * (self.weight * losses[number:].mean() + self.strong_weight * strong_loss)
        if self.rotation:
            unsupervised = unsupervised + self.rotation_weight * self.rotation_loss(forward, batch.unlabeled["strong"])
        return self.output(losses[:number].mean(), unsupervised, target, probs)

    def rotation_loss(self, forward: Forward, images: Tensor) -> Tensor:
        """Mean cross-entropy of the rotation head, which predicts by how many quarters each image was turned."""
        turns = torch.randint(4, (forward.rows(images),))  # one for each image
        (encoded,) = forward.encode(quarter_turns(images, forward.own(turns)), tracking=False)
        return F.cross_entropy(forward.head(encoded.features, "rotation").float(), turns.to(images.device))

    def statistics(self) -> dict[str, Tensor]:
        return {**super().statistics(), "marginal": self.alignment.marginal.value}


def _rotates(wanted: bool | None, kind: str, shape: tuple[int, ...]) -> bool:
    """The given choice, by default true for square images. Raises InputError for items that cannot be rotated."""
    square = kind == "image" and len(shape) > 1 and shape[-1] == shape[-2]
    if wanted and not square and (kind != "image" or shape):
        what = f"images of {shape[-2]}×{shape[-1]} pixels" if kind == "image" and len(shape) > 1 else f"items of kind {kind!r}"
        raise InputError(f"the rotation task needs square images, not {what}: leave rotation out, or give false.")
    return square if wanted is None else wanted
