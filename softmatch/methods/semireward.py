"""SemiReward (Li et al. 2024): a small network that scores pseudo-labels, around a match method."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch import targets
from softmatch.methods.base import MakeOptimizer, require
from softmatch.methods.forward import Forward, RecordedForward
from softmatch.methods.match import PAPER_STEPS
from softmatch.methods.wrapper import Around, Base, match_method
from softmatch.networks.heads import feature_size
from softmatch.state import StepCount
from softmatch.step import Batch, Output, gather

WIDTH = 128
ROUNDING = 1e-6
"""Tolerance for the rounding of the mean: with equal rewards, all labels are kept."""


class Rewarder(nn.Module):
    """Score in (0, 1) of a label for a sample: r(h, y) for features h (B, D) and y (B, C), a distribution over classes.

    Feature and embedded label attend to each other (softmax weights over the two); their sum plus the embedded label is the
    input of a perceptron.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.feature = nn.Sequential(nn.Linear(num_features, WIDTH), nn.LayerNorm(WIDTH))
        self.label = nn.Sequential(nn.Linear(num_classes, WIDTH, bias=False), nn.LayerNorm(WIDTH))
        self.attention = nn.Linear(WIDTH, 1)
        self.perceptron = nn.Sequential(
            nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH), nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        label = self.label(labels)
        tokens = torch.stack([self.feature(features), label], dim=1)
        mixed = (torch.softmax(self.attention(tokens), dim=1) * tokens).sum(1)
        return torch.sigmoid(self.perceptron(mixed + label)).squeeze(-1)


class Generator(nn.Module):
    """Features (B, D) → generated labels, right and wrong ones, from which the rewarder learns.

    A label is a sample of p = softmax(perceptron(h)) as a one-hot row (B, C): argmax p/noise, with exponentially distributed
    noise (B, C). The gradient is that of p (straight through).
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.perceptron = nn.Sequential(
            nn.Linear(num_features, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
            nn.Linear(64, num_classes),
        )  # fmt: skip

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        probs = torch.softmax(self.perceptron(features), dim=-1)
        return targets.hard(probs.detach() / noise) + probs - probs.detach()


def similarity(left: Tensor, right: Tensor) -> Tensor:
    """½(1 + cos) of labels (B, C) that are distributions: 1 if they agree, ½ if they have no class in common."""
    return 0.5 + 0.5 * F.cosine_similarity(left, right, dim=-1)


class SemiReward(Around):
    """L = L_s + (1/B_U) Σ 1(r_i ≥ mean r)·λ(p)·H(target, q), r_i the reward of sample i's pseudo-label.

    The rewarder learns from labels y' of a generator: (r(h, y') − S(y', y))² + (r(h, y) − 1)², S the similarity to the label
    y; the generator from (r(h, y') − 1)². Both learn from the labelled samples at every step. In the first `warmup` steps
    every pseudo-label counts; afterwards they also learn, every `every` steps, from the unlabelled samples that are kept, with
    their pseudo-labels as y.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        total_steps: int = PAPER_STEPS,
        base: Base = "fixmatch",
        warmup: int | None = None,
        every: int = 10,
        lr: float = 5e-4,
    ) -> None:
        require("be 0 or more", warmup=warmup)
        require("be 1 or more", every=every)
        require("be positive", lr=lr)
        super().__init__(match_method(base))
        if warmup is None:
            warmup = max(round(0.1 * total_steps), min(100, total_steps // 3))
        self.needs_features = True
        self.num_classes, self.warmup, self.every, self.lr = num_classes, warmup, every, lr
        self.rewarder: nn.Module | None = None
        self.generator: nn.Module | None = None
        self.count = StepCount()
        self._features: Callable[[], Tensor] | None = None
        self._kept: Tensor | None = None
        self.base.sample_factor = self._factor

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        super().begin(network, make_optimizer)
        size, device = feature_size(network), next(network.parameters()).device
        assert size is not None, "this method uses the features of the network"
        self.rewarder = Rewarder(size, self.num_classes).to(device)
        self.generator = Generator(size, self.num_classes).to(device)
        for name, module in (("rewarder", self.rewarder), ("generator", self.generator)):
            self.optimizers[name] = torch.optim.Adam(module.parameters(), lr=self.lr)

    def step(self, forward: Forward, batch: Batch) -> Output:
        recorded, weak = RecordedForward(forward), batch.unlabeled["weak"]
        self._features = lambda: recorded.of(weak).features
        output = self.base.step(recorded, batch)
        kept, self._features, self._kept = self._kept, None, None
        if self.training:
            self.teach(recorded.of(batch.labeled["weak"]).features, batch.labels)
            if kept is not None and (self.count.steps - self.warmup) % self.every == 0:
                assert output.pseudo is not None
                self.teach(recorded.of(weak).features, output.pseudo.labels, kept)
            self.count.advance()
        return output

    @torch.no_grad()
    def _factor(self, target: Tensor, index: Tensor | None) -> Tensor:
        """1 for the pseudo-labels of this batch that are kept, 0 for the others.

        Outside a step there is no batch to compare with, and all are kept.
        """
        del index
        if self._features is None or self.count.steps < self.warmup:
            return torch.ones_like(target[:, 0])
        reward = self.reward(self._features(), targets.hard(target))
        self._kept = (reward >= gather(reward).mean() - ROUNDING).to(target.dtype)
        return self._kept

    def reward(self, features: Tensor, labels: Tensor) -> Tensor:
        """r(h, y) (B,) of features (B, D), without their gradient, and labels (B, C)."""
        assert self.rewarder is not None, "begin(network, make_optimizer) comes before the first step"
        with torch.autocast(features.device.type, enabled=False):
            reward: Tensor = self.rewarder(features.detach().float(), labels.float())
        return reward

    def teach(self, features: Tensor, labels: Tensor, kept: Tensor | None = None) -> None:
        """Update rewarder and generator from the kept samples of all processes."""
        assert self.generator is not None
        assert self.rewarder is not None
        features, truth = gather(features.detach().float()), F.one_hot(gather(labels), self.num_classes).float()
        share = torch.ones_like(truth[:, 0]) if kept is None else gather(kept)
        share = share / share.sum().clamp_min(1.0)
        noise = gather(torch.empty(len(labels), self.num_classes, device=truth.device).exponential_())
        with torch.enable_grad(), torch.autocast(features.device.type, enabled=False):
            made = self.generator(features, noise)
            generator_loss = (share * (self.reward(features, made) - 1.0) ** 2).sum()
            made = made.detach()
            wrong = self.reward(features, made) - similarity(made, truth), self.reward(features, truth) - 1.0
            rewarder_loss = (share * (wrong[0] ** 2 + wrong[1] ** 2)).sum()
            for name, module, loss in (("generator", self.generator, generator_loss), ("rewarder", self.rewarder, rewarder_loss)):
                self.optimizers[name].zero_grad()
                loss.backward(inputs=list(module.parameters()))  # type: ignore[no-untyped-call]  # torch's own signature
            for optimizer in self.optimizers.values():
                optimizer.step()
