"""Run as a script by tests/test_seen.py: one process of two (or the only one), each with its share of every batch."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

from softmatch.methods import Match, Problem, build

METHODS = ("softmatch", "flexmatch", "freematch", "adamatch", "dash", "sla", "debiaspl", "darp", "saw", "darp+softmatch")
CLASSES, UNLABELED, STEPS = 4, 24, 6
PROBLEM = Problem(
    num_classes=CLASSES,
    num_unlabeled=UNLABELED,
    class_counts=(3, 1, 1, 1),
    class_prior=(0.5, 0.2, 0.2, 0.1),
    total_steps=80,
    momentum=0.8,
)
OPTIONS = {"darp": {"warmup": 0.0, "every": 2}, "darp+softmatch": {"warmup": 0.0, "every": 3}}


def share(value: Tensor, rank: int, world: int) -> Tensor:
    return value.chunk(world)[rank]


def run(name: str, rank: int, world: int) -> dict[str, Tensor]:
    """State and losses after a few steps, by name."""
    method, generator = build(name, PROBLEM, OPTIONS.get(name)), torch.Generator().manual_seed(7)
    assert isinstance(method, Match)
    losses = []
    for _ in range(STEPS):
        labeled, weak, strong = (3.0 * torch.randn(n, CLASSES, generator=generator) for n in (6, 12, 12))
        labels = torch.randint(0, CLASSES, (6,), generator=generator)
        index = torch.randint(0, UNLABELED, (12,), generator=generator)  # with duplicates, also across processes
        output = method.compute(*(share(value, rank, world) for value in (labeled, labels, weak, strong, index)))
        assert output.unsupervised_loss is not None
        losses.append(output.unsupervised_loss)
    return {**method.state_dict(), "losses": torch.stack(losses)}


def run_all(rank: int, world: int) -> dict[str, dict[str, Tensor]]:
    return {name: run(name, rank, world) for name in METHODS}


def main(rank: int, directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory / 'meeting'}", rank=rank, world_size=2)
    torch.save(run_all(rank, 2), directory / f"rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
