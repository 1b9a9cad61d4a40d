"""Measure CIFAR-10 with 250 labels in a setting small enough for two cores, in which other systems were measured too.

    python benchmarks/cifar10_small.py --data cifar10.npz --seeds 5 --out small-runs > cifar10_small.md

WRN-10-1, 16 labelled + 112 unlabelled images, 1,500 steps of SGD 0.03 with Nesterov momentum, weight decay 5e-4. Each run is the
command printed under the table, in a process of its own with one thread, two at a time. Runs that are finished in --out are not
repeated. The curves are drawn if matplotlib is installed.
"""

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

METHODS = ("supervised", "fixmatch", "flexmatch", "softmatch")


def command(method: str, seed: int, arguments: argparse.Namespace) -> list[str]:
    """Return the command line of one run, without the program's name."""
    settings = {
        "--data": arguments.data,
        "--labels": 250,
        "--method": method,
        "--seed": seed,
        "--network": "wrn-10-1",
        "--labeled-batch": 16,
        "--unlabeled-batch": 112,
        "--steps": arguments.steps,
        "--evaluate-every": max(arguments.steps // 10, 1),
        "--threads": 1,
        "--out": folder(method, seed, arguments),
    }
    given = (str(part) for pair in settings.items() for part in pair)
    return ["train", "cifar10", *given, "--no-baseline", *arguments.also.split()]


def folder(method: str, seed: int, arguments: argparse.Namespace) -> Path:
    found: Path = arguments.out / f"{method}-{seed}"
    return found


def run(method: str, seed: int, arguments: argparse.Namespace) -> None:
    """Train, unless the run is finished."""
    if (folder(method, seed, arguments) / "result.json").exists():
        return
    done = subprocess.run([sys.executable, "-m", "softmatch", *command(method, seed, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{method}, seed {seed}: {done.stderr}")
    print(f"{method}, seed {seed}: {done.stdout.strip().splitlines()[-1]}", file=sys.stderr, flush=True)


def records(method: str, seed: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    lines = (folder(method, seed, arguments) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def spread(values: list[float]) -> str:
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {sd:.1f}"


def draw(seeds: list[int], arguments: argparse.Namespace) -> None:
    """Draw the test error over steps: a line for the mean of each method, a band from the best to the worst seed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        print("matplotlib is not installed: no picture of the curves.", file=sys.stderr)
        return
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for method in METHODS:
        runs = [records(method, seed, arguments) for seed in seeds]
        steps = [record["step"] for record in runs[0]]
        errors = [[100 * one[position]["test_error"] for one in runs] for position in range(len(steps))]
        (line,) = axes.plot(steps, [statistics.mean(row) for row in errors], label=method)
        axes.fill_between(steps, [min(row) for row in errors], [max(row) for row in errors], color=line.get_color(), alpha=0.15)
    axes.set(xlabel="step", ylabel="test error, %", title=f"CIFAR-10, 250 labels, WRN-10-1, {len(seeds)} seeds")
    axes.legend(frameon=False)
    figure.savefig(arguments.picture, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10: a folder with its files, or an .npz file")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--also", default="", help="further options of `softmatch train` for all runs")
    parser.add_argument("--out", type=Path, default=Path("small-runs"), help="folder for the run folders")
    parser.add_argument("--picture", type=Path, default=Path("cifar10_small.png"))
    parser.add_argument("--parallel", type=int, default=2)
    arguments = parser.parse_args()
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    with ThreadPoolExecutor(arguments.parallel) as pool:
        jobs = [pool.submit(run, method, seed, arguments) for seed in seeds for method in METHODS]
        for job in jobs:
            job.result()
    print(f"CIFAR-10, 250 labels, WRN-10-1, 16 + 112, {arguments.steps} steps, seeds {seeds[0]}–{seeds[-1]}.\n")
    print("| method | test error, % (mean ± sd) | best – worst | quantity f | quality g |")
    print("|---|---|---|---|---|")
    for method in METHODS:
        last = [records(method, seed, arguments)[-1] for seed in seeds]
        errors = [100 * record["test_error"] for record in last]
        f, g = ([record[key] for record in last if record.get(key) is not None] for key in ("quantity", "quality"))
        shares = " | ".join(f"{statistics.mean(values):.2f}" if values else "–" for values in (f, g))
        print(f"| {method} | {spread(errors)} | {min(errors):.1f} – {max(errors):.1f} | {shares} |")
    print("\n```\nsoftmatch " + " ".join(command("METHOD", 0, arguments)) + "\n```")
    draw(seeds, arguments)


if __name__ == "__main__":
    main()
