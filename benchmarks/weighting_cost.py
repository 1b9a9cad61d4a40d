"""Measure the cost of SoftMatch's alignment, weighting and loss relative to the paper's CIFAR-10 step, and how it grows.

    python benchmarks/weighting_cost.py

Prints the share of a WRN-28-2 step (64 labelled + 448 unlabelled images of 32×32, forward and backward of the joint
batch) taken by alignment, statistics and weights, and their time as the batch B and the number of classes C grow. Both
are measured in the same run; prints the median of the repeats.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from softmatch.methods import softmatch
from softmatch.networks import WideResNet
from softmatch.step import Seen


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def weighting_seconds(batch: int, classes: int, repeats: int = 50) -> float:
    method = softmatch(classes)
    logits = torch.randn(batch, classes)
    seen = Seen(torch.softmax(logits, -1))

    def work() -> None:
        method.learn(seen)
        probs = torch.softmax(logits, -1)
        method.weighting(method.alignment(probs), probs.argmax(-1))

    return median_seconds(work, repeats)


def step_seconds(repeats: int) -> float:
    network = WideResNet(28, 2, 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in stubs
    images = torch.randn(64 + 2 * 448, 3, 32, 32).to(memory_format=torch.channels_last)

    def work() -> None:
        network.zero_grad()
        network(images).square().mean().backward()

    return median_seconds(work, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="repeats of the WRN-28-2 step")
    options = parser.parse_args()
    weighting, step = weighting_seconds(448, 10), step_seconds(options.repeats)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"WRN-28-2 step, forward + backward of 960 images: {step:.2f} s")
    print(f"alignment + statistics + weights, 448 × 10: {1e3 * weighting:.3f} ms = {100 * weighting / step:.4f} % of the step")
    print("\n| B | C | ms | ns per B·C |\n|---|---|---|---|")
    for batch, classes in ((448, 10), (448, 100), (448, 1000), (4480, 1000), (44800, 100), (44800, 1000)):
        seconds = weighting_seconds(batch, classes, 10)
        print(f"| {batch} | {classes} | {1e3 * seconds:.3f} | {1e9 * seconds / (batch * classes):.2f} |")


if __name__ == "__main__":
    main()
