"""How many labels a class has and how long an epoch is: what methods for long-tailed data start from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from softmatch.alignments import class_frequencies
from softmatch.errors import InputError


def label_counts(class_counts: Sequence[int] | None, num_classes: int) -> Tensor:
    """Labels of each class (C,), float32."""
    if class_counts is None:
        raise InputError("this method follows how many labels each class has: give class_counts, one number for each class.")
    class_frequencies(class_counts, num_classes, "class_counts")  # refuses what are no counts
    return torch.tensor([float(count) for count in class_counts])


def epoch_steps(num_unlabeled: int, unlabeled_batch: int, total_steps: int, given: int | None = None) -> int:
    """Steps that see every unlabelled sample once, at most a tenth of the run; or the number that is given."""
    if given is None:
        return max(min(math.ceil(num_unlabeled / unlabeled_batch), math.ceil(total_steps / 10)), 1)
    if given < 1:
        raise InputError(f"every must be at least one step, not {given}.")
    return given
