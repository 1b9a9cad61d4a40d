"""The inputs of the golden numbers in §9 of the specification, and what the golden tests share."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softmatch.methods.match import Match
from softmatch.step import Output, Seen

CLASSES = 3
MOMENTUM = 0.9


@dataclass(frozen=True)
class Step:
    """One step's predictions as probabilities, the labels, and the truth of the unlabelled samples."""

    labeled: Tensor
    labels: Tensor
    weak: Tensor
    strong: Tensor
    truth: Tensor

    def seen(self, index: Tensor | None = None) -> Seen:
        return Seen(self.weak, self.labeled, self.labels, index)

    def output(self, method: Match, index: Tensor | None = None) -> Output:
        """What a method makes of this step, its logits being the logarithms of the probabilities."""
        return method.compute(self.labeled.log(), self.labels, self.weak.log(), self.strong.log(), index)


STEP_1 = Step(
    labeled=torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]),
    labels=torch.tensor([0, 2]),
    weak=torch.tensor([[0.90, 0.06, 0.04], [0.55, 0.35, 0.10], [0.08, 0.80, 0.12], [0.42, 0.18, 0.40]]),
    strong=torch.tensor([[0.70, 0.20, 0.10], [0.50, 0.30, 0.20], [0.15, 0.65, 0.20], [0.35, 0.25, 0.40]]),
    truth=torch.tensor([0, 1, 1, 2]),
)
STEP_2 = Step(
    labeled=torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.25, 0.65]]),
    labels=torch.tensor([0, 2]),
    weak=torch.tensor([[0.96, 0.03, 0.01], [0.35, 0.33, 0.32], [0.20, 0.20, 0.60], [0.30, 0.64, 0.06]]),
    strong=torch.tensor([[0.80, 0.15, 0.05], [0.40, 0.30, 0.30], [0.30, 0.30, 0.40], [0.25, 0.60, 0.15]]),
    truth=torch.tensor([0, 1, 2, 1]),
)

WARM_MEAN, WARM_VARIANCE, WARM_MARGINAL = 0.75, 0.04, (0.5, 0.3, 0.2)
ALIGNED_CONFIDENCE = (0.818389, 0.416095, 0.772955, 0.586910)
"""max p̃ of step 1 after uniform alignment from the warm marginal."""


def close(actual: Tensor | float | None, expected: Sequence[object] | float, tolerance: float = 1e-6) -> None:
    """Assert equality with numbers printed to six decimals; NaN equals NaN."""
    assert actual is not None
    found = torch.as_tensor(actual, dtype=torch.float64)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=tolerance, rtol=0, equal_nan=True)


def probs_of(confidence: Sequence[float], labels: Sequence[int], classes: int = CLASSES) -> Tensor:
    """Predictions with these confidences on these classes, the rest spread evenly.

    Confidence below 1/C cannot be a maximum: then the row holds 1/C nearly everywhere, which only a mask may look at.
    """
    top = torch.tensor(confidence)
    rows = ((1.0 - top) / (classes - 1))[:, None].repeat(1, classes)
    rows[torch.arange(len(top)), torch.tensor(labels)] = top
    return rows
