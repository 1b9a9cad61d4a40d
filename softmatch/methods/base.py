"""The interface between the training loop and a method; training on the labels only, and on another model's pseudo-labels."""

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods.forward import Forward
from softmatch.metrics import PseudoLabels
from softmatch.step import Batch, Output, refuse_invalid
from softmatch.targets import cross_entropy

MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]
RULES: Mapping[str, Callable[[float], bool]] = {
    "lie in [0, 1]": lambda value: 0 <= value <= 1,
    "lie in [0, 1)": lambda value: 0 <= value < 1,
    "lie in (0, 1]": lambda value: 0 < value <= 1,
    "lie in (0, 1)": lambda value: 0 < value < 1,
    "be positive": lambda value: 0 < value < math.inf,
    "be 0 or more": lambda value: 0 <= value < math.inf,
    "be 1 or more": lambda value: value >= 1,
}


class Method(nn.Module):
    """Base of every method. A method declares its needs in these attributes; the loop does not know methods by name.

    Attributes:
        labeled_views, unlabeled_views: names of the views (of `softmatch.views`) that `step` finds in its batch; "weak_2" is
            a second, independent weak view.
        streams: additional labelled batches in `Batch.streams`, in their weak view: "balanced" has every class equally often;
            "validation" has labelled samples kept out of training, `validation_share` of each class.
        kinds: supported modalities.
        tracked_views: unlabelled views that move the running statistics of batch normalisation; None: all.
        needs_features: the method calls `Forward.encode`, so the network must have `features(x)` and a linear `head`.
        final_head: name of the head (of `heads`) that makes the predictions of the trained network; None: its own.
        survey_every: steps between two calls of `survey`; None: never.
        generations: number of equal parts of the run; each starts with new weights.
        optimizers: optimisers of the modules that the method trains itself, by name; they are saved with the run.

    Example:
        >>> from softmatch.step import Output
        >>> class LabelsOnly(Method):
        ...     unlabeled_views = ()
        ...     def step(self, forward, batch):
        ...         loss = torch.nn.functional.cross_entropy(forward(batch.labeled["weak"]), batch.labels)
        ...         return Output(loss, loss, loss)
        >>> LabelsOnly().statistics()
        {}
    """

    labeled_views: tuple[str, ...] = ("weak",)
    unlabeled_views: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    validation_share: float = 0.0
    kinds: tuple[str, ...] = ("array", "image", "series", "text", "vector")
    tracked_views: tuple[str, ...] | None = None
    needs_features: bool = False
    final_head: str | None = None
    survey_every: int | None = None
    generations: int = 1

    def __init__(self) -> None:
        super().__init__()
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def step(self, forward: Forward, batch: Batch) -> Output:
        """Update the state from this batch and return its loss. Called once per training step."""
        raise NotImplementedError(f"{type(self).__name__} must define step(forward, batch)")

    def judge(self, probs: Tensor, index: Tensor | None = None) -> PseudoLabels | None:
        """Pseudo-labels and λ of predictions, as in a step but without learning; None for a method without a λ per sample.

        Args:
            probs: predictions p(y | u) (B, C).
            index: positions in the unlabelled set (B,), for methods that remember samples.
        """
        return None

    def heads(self, num_features: int) -> dict[str, nn.Module]:
        """New heads on the network's features, by name; they are trained and averaged with the network."""
        return {}

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        """Called with the network to train, before the first step of the run and of each generation.

        Args:
            make_optimizer: makes an optimiser like the run's own for another module; its learning rate follows the schedule.
        """

    def after_step(self, forward: Forward, batch: Batch) -> None:
        """Called with the batch of this step, after the network was updated."""

    def survey(self, probs: Tensor) -> None:
        """Learn from the predictions (N_U, C) of the averaged network on all unlabelled samples."""

    def next_generation(self, probs: Tensor) -> None:
        """Called at the end of a generation with the predictions (N_U, C) of the averaged network."""

    def added_labels(self) -> Tensor | None:
        """Labels (N_U,) that turn unlabelled samples into labelled ones from now on, −1 for none; None: no sample has one."""
        return None

    def statistics(self) -> dict[str, Tensor]:
        """State worth logging, by name."""
        return {}

    def weight_curve(self, num_classes: int) -> tuple[Tensor, Tensor] | None:
        """λ as a function of the confidence at present; None for a method without such a function."""
        return None


def require(rule: str, **values: float | None) -> None:
    """Raise InputError unless every value that is not None follows the rule, one of `RULES`.

    Example:
        >>> require("lie in [0, 1]", threshold=0.95, ramp=None)
    """
    for name, value in values.items():
        if value is not None and not RULES[rule](value):
            raise InputError(f"{name} must {rule}, not {value!r}.")


def require_choice(literal: Any, **values: str) -> None:
    """Raise InputError unless every value is one of a Literal's."""
    for name, value in values.items():
        if value not in get_args(literal):
            *others, last = (f'"{choice}"' for choice in get_args(literal))
            raise InputError(f"{name} must be {', '.join(others)} or {last}, not {value!r}.")


def supervised_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """L_s = mean H(y, p(x)), in float32."""
    refuse_invalid("labeled_logits", logits)
    return F.cross_entropy(logits.float(), labels)


class Supervised(Method):
    """L = mean H(y, p(x)) on the labelled samples only: the baseline that every run is compared with.

    Example:
        >>> Supervised()(torch.zeros(4, 10), torch.arange(4))
        tensor(2.3026)
    """

    def forward(self, labeled_logits: Tensor, labels: Tensor) -> Tensor:
        return supervised_loss(labeled_logits, labels)

    def step(self, forward: Forward, batch: Batch) -> Output:
        (logits,) = forward(batch.labeled["weak"])
        loss = self(logits, batch.labels)
        return Output(loss=loss, supervised_loss=loss.detach())


DISTIL = "distil"
"""Name of this method in a run folder. It needs a teacher, so it is not one of METHODS."""


class Distilled(Method):
    """L = L_s + (1/B_U) Σ λ_i·H(p̂_i, p(y | Ω(u_i))), with p̂_i and λ_i of a teacher for each unlabelled sample.

    Args:
        teach: returns p̂ (N_U, C) and λ (N_U,); called before the first step, since it may take as long as a training.
    """

    unlabeled_views = ("strong",)

    def __init__(self, teach: Callable[[], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.teach = teach
        self.targets: Tensor
        self.weights: Tensor
        self.register_buffer("targets", torch.zeros(0, 0), persistent=False)  # a resumed run asks the teacher again
        self.register_buffer("weights", torch.zeros(0), persistent=False)

    def begin(self, network: nn.Module, make_optimizer: MakeOptimizer) -> None:
        self.targets, self.weights = self.teach()

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, unlabeled = forward(batch.labeled["weak"], batch.unlabeled["strong"])
        refuse_invalid("unlabeled_logits", unlabeled)
        target, weights = self.targets[batch.index], self.weights[batch.index]
        supervised = supervised_loss(labeled, batch.labels)
        unsupervised = (weights * cross_entropy(target, unlabeled)).mean()
        confidence, labels = target.max(-1)
        pseudo = PseudoLabels(labels, weights, weights, confidence)
        return Output(supervised + unsupervised, supervised.detach(), unsupervised.detach(), pseudo)
