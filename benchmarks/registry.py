"""Measure whether a step slows down as the unlabelled set grows, with what methods remember about 10⁴ … 10⁷ samples.

    python benchmarks/registry.py > benchmarks/results/registry.md

Measures a step without the network: drawing the positions of the batch, learning from the predictions (448 × 10), weights and
targets. The sizes take turns within a round, each with a few hundred batches of its own, so that a busy machine slows
all of them alike; the time is that of the process on one thread, the median over the rounds. A registry beyond the processor's
cache costs some cache misses for each sample of the batch, and nothing for those that are not in it.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from safetensors.torch import save
from torch import Tensor

from softmatch.data.batches import Sampler
from softmatch.methods import Match, Method, Problem, build
from softmatch.methods.consistency import TemporalEnsembling
from softmatch.methods.longtail_weights import ClassWeighted
from softmatch.step import Seen
from softmatch.weightings import Constant

BATCH, CLASSES, PREDICTIONS = 448, 10, 16
METHODS = {
    "softmatch": "remembers nothing of single samples: what the others are compared with",
    "flexmatch": "the last confident label of each sample",
    "saw": "the last label of each sample; they are counted anew once an epoch, see the last table",
    "temporal_ensembling": "the average prediction of each sample",
}

Step = Callable[[Tensor, int], object]


def make_step(method: Method) -> Step:
    """Return what the method does with the predictions for these positions; a few batches of predictions take turns."""
    logits = 8.0 * torch.randn(PREDICTIONS, BATCH, CLASSES, generator=torch.Generator().manual_seed(0))
    probs = torch.softmax(logits, -1)
    if isinstance(method, TemporalEnsembling):
        labels = torch.zeros(64, dtype=torch.int64)
        return lambda index, number: method.ensemble(logits[0, :64], labels, logits[number % PREDICTIONS], index)
    assert isinstance(method, Match)
    weighting = method.weighting

    def step(index: Tensor, number: int) -> Tensor:
        weighting.update(Seen(probs[number % PREDICTIONS], index=index))
        weights: Tensor = weighting(probs[number % PREDICTIONS])
        return weights

    return step


@dataclass
class Measured:
    """Measurements of one method with one size."""

    state: int
    checkpoint: int
    copying: float
    seconds: list[float] = field(default_factory=list)


def problem(size: int) -> Problem:
    return Problem(num_classes=CLASSES, num_unlabeled=size, num_labeled=40, class_counts=(4,) * CLASSES)


def measure(name: str, sizes: list[int], rounds: int, steps: int) -> dict[int, Measured]:
    """Measure the seconds of a step for each size, and the bytes that are remembered."""
    found: dict[int, Measured] = {}
    ready: dict[int, tuple[Step, Sampler]] = {}
    for size in sizes:
        method = build(name, problem(size), {"every": 10**9} if name == "saw" else None)
        ready[size] = make_step(method), Sampler(size, BATCH, seed=0)
        tensors = method.state_dict()
        started = time.process_time()
        copied = {key: tensor.clone() for key, tensor in tensors.items()}
        seconds = time.process_time() - started
        found[size] = Measured(sum(tensor.nbytes for tensor in tensors.values()), len(save(copied)), seconds)
    for number in range(-1, rounds):  # the first round is to warm up
        for size, (step, sampler) in ready.items():
            first = (number + 1) * steps
            sampler(first), sampler(first + steps)  # an epoch is shuffled once, outside of the time of a step
            started = time.process_time()
            for position in range(first, first + steps):
                step(sampler(position), position)
            if number >= 0:
                found[size].seconds.append((time.process_time() - started) / steps)
        print(f"{name}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def once_an_epoch(size: int) -> tuple[float, float]:
    """Measure the seconds to shuffle the samples and to count the labels that SAW remembers: only these grow with the set."""
    started = time.process_time()
    Sampler(size, BATCH, seed=1)(0)
    shuffled = time.process_time()
    weighting = ClassWeighted(Constant(), CLASSES, size, every=1)
    made = time.process_time()
    weighting.counts()
    return shuffled - started, time.process_time() - made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=200, help="steps per round")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("# What methods remember about every unlabelled sample\n")
    print(f"`python benchmarks/registry.py {' '.join(sys.argv[1:])}`".replace(" `", "`") + "\n")
    print(
        f"A step beside the network, {BATCH} × {CLASSES} predictions, one thread, torch {torch.__version__}; medians of "
        f"{options.rounds} rounds of {options.steps} steps in which the sizes take turns. Ratios are within a round, to the "
        "smallest size, with the range of the middle half of the rounds.\n"
    )
    for name in options.methods:
        found = measure(name, options.sizes, options.rounds, options.steps)
        base = found[options.sizes[0]].seconds
        print(f"## {name}\n\n{METHODS[name][0].upper()}{METHODS[name][1:]}.\n")
        print("| unlabelled samples | ms per step | times the smallest | state MB | checkpoint MB | copying it, ms |")
        print("|---|---|---|---|---|---|")
        for size, row in found.items():
            ratios = sorted(own / other for own, other in zip(row.seconds, base, strict=True))
            times = f"{statistics.median(ratios):.2f} ({ratios[len(ratios) // 4]:.2f}–{ratios[-1 - len(ratios) // 4]:.2f})"
            print(
                f"| {size:,} | {1e3 * statistics.median(row.seconds):.3f} | {times} | {row.state / 1e6:.2f} "
                f"| {row.checkpoint / 1e6:.2f} | {1e3 * row.copying:.1f} |"
            )
        print(flush=True)
    print(
        "## Once an epoch\n\n| unlabelled samples | steps of an epoch | shuffling, s | counting for SAW, s | both, ms per step |"
    )
    print("|---|---|---|---|---|")
    for size in options.sizes:
        (shuffled, counted), steps = once_an_epoch(size), size / BATCH
        print(f"| {size:,} | {steps:,.0f} | {shuffled:.3f} | {counted:.3f} | {1e3 * (shuffled + counted) / steps:.3f} |")


if __name__ == "__main__":
    main()
