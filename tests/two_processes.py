"""Methods in a user's own loop, where each of two processes has its own batches: run by tests/several_processes.py."""

import torch
from torch import Tensor

from softmatch.methods import Match, Problem, build

METHODS = ("softmatch", "flexmatch", "freematch", "adamatch", "dash", "sla", "debiaspl", "darp", "saw", "darp+softmatch")
CLASSES, UNLABELED, STEPS = 4, 24, 6
FIRST = {"equal": 0.5, "unequal": 1 / 3}
"""Share of the rows that the first of two processes has."""
COUNTS, PRIOR = (3, 1, 1, 1), (0.5, 0.2, 0.2, 0.1)
PROBLEM = Problem(CLASSES, UNLABELED, class_counts=COUNTS, class_prior=PRIOR, total_steps=80, momentum=0.8)
OPTIONS = {"darp": {"warmup": 0.0, "every": 2}, "darp+softmatch": {"warmup": 0.0, "every": 3}}


def share(value: Tensor, rank: int, world: int, first: float = 0.5) -> Tensor:
    """This process's rows; of two processes the first has a share `first` of them."""
    return value if world == 1 else value.tensor_split([round(first * len(value))])[rank]


def run(name: str, rank: int, world: int, first: float = 0.5) -> dict[str, Tensor]:
    """State and losses after a few steps, by name."""
    method, generator = build(name, PROBLEM, OPTIONS.get(name)), torch.Generator().manual_seed(7)
    assert isinstance(method, Match)
    losses = []
    for _ in range(STEPS):
        labeled, weak, strong = (3.0 * torch.randn(n, CLASSES, generator=generator) for n in (6, 12, 12))
        labels = torch.randint(0, CLASSES, (6,), generator=generator)
        index = torch.randint(0, UNLABELED, (12,), generator=generator)  # with duplicates, also across processes
        output = method.compute(*(share(value, rank, world, first) for value in (labeled, labels, weak, strong, index)))
        assert output.unsupervised_loss is not None
        losses.append(output.unsupervised_loss)
    return {**method.state_dict(), "losses": torch.stack(losses)}


def run_all(rank: int, world: int, first: float = 0.5) -> dict[str, dict[str, Tensor]]:
    return {name: run(name, rank, world, first) for name in METHODS}
