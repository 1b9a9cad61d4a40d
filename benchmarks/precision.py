"""Compare bf16 with float32: test error of the same runs, paired by seed.

    python benchmarks/precision.py --fashion-mnist fashion_mnist.npz --cifar10 cifar10.npz

Each pair has the same labels, initial weights, batches and views. The recipe is sprint with a small network, few steps and no
baseline. On a CPU without bf16 units the arithmetic is emulated: inputs and outputs of convolutions and matrix products are
rounded to bf16 and sums are kept in float32, as the units do, but slowly. Prints Markdown: test error in %, mean ± standard
deviation over the seeds, and the mean difference with its 95 % interval (t distribution).
"""

import argparse
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from softmatch.experiments.results.statistics import paired_difference
from softmatch.networks.prediction import predict_probabilities
from softmatch.training.opening import open_job
from softmatch.training.setup import build_method, make_trainer, prepare_job, restored_state

SMALL = {"recipe": "sprint", "network": "shallow-8", "labeled_batch": 32, "unlabeled_batch": 64, "threads": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"labels": 40, "steps": 300},
    "fashion-mnist": {"labels": 40, "steps": 100},
    "cifar10": {"labels": 250, "steps": 80},
}


@restored_state()
def error(source: str, data: Path | None, seed: int, precision: str) -> float:
    """Test error of one run in percent."""
    job = open_job(source, {**SMALL, **SETTINGS[source], "data": data, "seed": seed, "precision": precision})
    task = prepare_job(job)
    trainer = make_trainer(task, build_method(task, job.config.method))
    for _ in trainer.run():
        pass
    items, labels = task.test
    wrong = predict_probabilities(trainer.result, task.views, items, task.device).argmax(-1) != labels
    return 100 * float(wrong.double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fashion-mnist", type=Path, help="file of the data; left out without it")
    parser.add_argument("--cifar10", type=Path, help="file of the data; left out without it")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, seeds 0 … {options.seeds - 1}\n")
    print("| data | labels | steps | float32 | bf16 | difference in points | 95 % interval |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for source, setting in SETTINGS.items():
        data = getattr(options, source.replace("-", "_"), None)
        if data is None and source != "digits":
            continue
        exact, half = ({s: error(source, data, s, kind) for s in range(options.seeds)} for kind in ("float32", "bf16"))
        found = paired_difference(half, exact)
        errors = (f"{mean(each.values()):.2f} ± {stdev(each.values()):.2f}" for each in (exact, half))
        interval = "–" if found.interval is None else "{:+.2f} to {:+.2f}".format(*found.interval)
        figures = f"{' | '.join(errors)} | {found.mean:+.2f} | {interval}"
        print(f"| {source} | {setting['labels']} | {setting['steps']} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
