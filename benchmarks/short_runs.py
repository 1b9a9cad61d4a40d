"""Compare averages for short runs: the paper's momenta and initial values, or values that follow the length of the run.

    python benchmarks/short_runs.py                 # digits, 40 labels, 500 and 2,000 steps, 5 seeds

Compares, on the same splits and from the same initial weights:

- paper: every momentum 0.999, batch statistics 0.001, averages keep their initial values (μ = 1/C, σ² = 1);
- scaled, kept start: averages span a fortieth of the run, but keep the paper's initial values;
- scaled, first value: the same, but they start from the first value seen;
- scaled (the default): averages span a fortieth of the run and are bias-corrected;
- paper's statistics only: the default, with μ, σ² and the marginal as in the paper;
- paper's model average only: the default, with the weights averaged at 0.999 from the first weights;
- paper's batch statistics only: the default, with running batch statistics at 0.001.

Prints Markdown: test error, mean ± standard deviation over the seeds; mean weight over the first quarter of the run.
"""

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

from softmatch.config import make_config
from softmatch.data import find_source
from softmatch.networks.prediction import predict_probabilities
from softmatch.training.opening import open_again
from softmatch.training.setup import build_method, make_trainer, prepare_job

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"averages": "paper"},
    "scaled, kept start": {"method_options": {"start": "paper"}},
    "scaled, first value": {"method_options": {"start": "first"}},
    "scaled (default)": {},
    "paper's statistics only": {"statistics_momentum": 0.999, "method_options": {"start": "paper"}},
    "paper's model average only": {"model_momentum": 0.999},
    "paper's batch statistics only": {"batch_norm_momentum": 0.001},
}


def fit(job: tuple[str, int, int, int]) -> tuple[float, float]:
    """Return the test error and the mean λ over the first quarter of the run."""
    torch.set_num_threads(1)
    variant, steps, labels, seed = job
    base = {"steps": steps, "labels": labels, "seed": seed, "evaluate_every": steps // 4}
    config = make_config(find_source("digits").defaults, base, VARIANTS[variant])
    task = prepare_job(open_again("digits", config))
    trainer = make_trainer(task, build_method(task, config.method))
    if variant == "paper's model average only":
        trainer.average.warm = False
    records = list(trainer.run())
    items, labels_ = task.test
    wrong = predict_probabilities(trainer.average.network, task.views, items, task.device).argmax(-1) != labels_
    return float(wrong.double().mean()), float(records[0]["quantity"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    for steps in options.steps:
        print(f"\n## digits, {options.labels} labels, {steps:,} steps, seeds 0 … {options.seeds - 1}\n")
        print("| averages | test error % | range | λ in the first quarter |\n|---|---|---|---|", flush=True)
        with ProcessPoolExecutor(options.processes) as pool:
            for variant in options.variants:
                jobs = [(variant, steps, options.labels, seed) for seed in range(options.seeds)]
                errors, weights = zip(*pool.map(fit, jobs), strict=True)
                percent = [100 * error for error in errors]
                spread = f"{statistics.mean(percent):.2f} ± {statistics.stdev(percent):.2f}"
                limits = f"{min(percent):.1f}–{max(percent):.1f}"
                print(f"| {variant} | {spread} | {limits} | {statistics.mean(weights):.2f} |", flush=True)


if __name__ == "__main__":
    main()
