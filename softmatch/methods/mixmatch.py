"""MixMatch (Berthelot et al. 2019): labels guessed from several weak views, sharpened, and mixed with the labelled samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch import targets
from softmatch.methods.base import Forward, Method
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.mixing import mixed_logits, ramp_steps, refuse_mixing_options, view_names
from softmatch.metrics import PseudoLabels
from softmatch.state import Ramp
from softmatch.step import Batch, Output, refuse_invalid


class MixMatch(Method):
    """L = mean H(y', p(x')) + λ_u·w(t)·mean (t' − p(u'))², the second mean over samples, views and classes.

    t = sharpen_T of the mean prediction on the weak views of u, without gradient and without moving running statistics.
    Every x and every view of u is mixed with a random sample of all of them.

    Args:
        weight: λ_u.
        alpha: α of the mixing shares λ ~ Beta(α, α).
        temperature: T.
        views: number of weak views.
        ramp: share of the run in which w grows linearly from 0 to 1; see `ramp_steps`.
        per_sample: one mixing share per sample, or one for the whole batch.
    """

    kinds = ("image", "vector")

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
        super().__init__()
        refuse_mixing_options(alpha, temperature, views, ramp, weight=weight)
        self.unlabeled_views = view_names("weak", views)
        self.weight, self.alpha, self.temperature, self.per_sample = weight, alpha, temperature, per_sample
        self.ramp = Ramp(ramp_steps(total_steps, ramp))

    def step(self, forward: Forward, batch: Batch) -> Output:
        views = [batch.unlabeled[name] for name in self.unlabeled_views]
        with torch.no_grad():
            probs = self._mean_prediction(forward(*views, tracking=False))
            target = targets.sharpened(probs, self.temperature)
        labels = F.one_hot(batch.labels, target.shape[-1]).to(target.dtype)
        logits, goals = mixed_logits(
            forward, [batch.labeled["weak"], *views], [labels, *[target] * len(views)], self.alpha, self.per_sample
        )
        refuse_invalid("mixed_logits", logits)
        if self.training:
            self.ramp.advance()
        ramp, number = self.ramp(), len(labels)
        supervised = targets.cross_entropy(goals[:number], logits[:number]).mean()
        squared = (goals[number:] - torch.softmax(logits[number:].float(), dim=-1)).square().mean()
        unsupervised = self.weight * ramp * squared
        weights = ramp.expand(len(target))
        pseudo = PseudoLabels(target.argmax(-1), weights, weights, probs.max(-1).values)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)

    def _mean_prediction(self, logits: list[Tensor]) -> Tensor:
        for view in logits:
            refuse_invalid("weak_logits", view)
        return torch.stack([torch.softmax(view.float(), dim=-1) for view in logits]).mean(0)

    def statistics(self) -> dict[str, Tensor]:
        return {"ramp": self.ramp()}


mixmatch = MixMatch
