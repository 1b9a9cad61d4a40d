"""Measure what a run of some minutes learns from images, from scratch: the default recipe, its rivals, and it without each part.

    python benchmarks/sprint.py --cifar10 cifar10.npz --fashion-mnist fashion_mnist.npz --runs runs/sprint
    python benchmarks/sprint.py --cifar10 cifar10.npz --settings cifar10-250 --seeds 10 11 --minutes 3 --without neighbours muon
    python benchmarks/sprint.py --cifar10 cifar10.npz --settings cifar10-250 --cpu-minutes 2 --without muon all --curves

Each run is the command `softmatch train` with all cores, one after the other, with its baseline. With `--cpu-minutes` it has one
thread, no baseline, and as many steps as that processor time allows, by two short runs of each variant: so variants whose steps
cost differently are compared at equal cost, on a busy machine too. Finished runs are read again, not repeated, so an
interrupted program continues. Prints Markdown: mean ± standard deviation over the seeds in per cent, and the
time and processor time of a run, baseline and evaluation included. `--curves` adds the errors during the runs.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Result = dict[str, Any]
HEADING = ("", "error %", "range", "baseline %", "gain", "n", "steps", "minutes", "CPU-minutes")
SETTINGS: dict[str, tuple[str, int, float]] = {
    "cifar10-250": ("cifar10", 250, 10.0),
    "fashion-mnist-40": ("fashion-mnist", 40, 10.0),
    "cifar10-250-hour": ("cifar10", 250, 60.0),
    "cifar10-4000-hour": ("cifar10", 4000, 60.0),
    "cifar10-40-hour": ("cifar10", 40, 60.0),
}
"""Source, labels and minutes."""
PARTS: dict[str, tuple[str, ...]] = {
    "neighbours": ("--neighbours", "0"),
    "teacher": ("--teacher", "network", "--neighbours", "0"),
    "mirror": ("--views.mirror", "false"),
    "share": ("--strong-share", "1"),
    "small": ("--small-images", "0"),
    "muon": ("--recipe", "sprint", "--optimizer", "sgd", "--lr", "0.2"),
    "all": ("--recipe", "none", "--network", "wrn-10-1"),
}
"""Options that take a part out of the recipe; neighbours need the teacher, and go with it. "all" is the network and optimiser
of the paper, small enough for the time."""
SHORT = (40, 120)
"""Steps of the two runs whose difference tells what a step costs."""


def run(folder: Path, source: str, data: Path, labels: int, minutes: float, seed: int, options: Sequence[str]) -> Result:
    """Train unless it was done before; return the result with the seconds and processor seconds of the command."""
    cost = folder.parent / f"{folder.name}.cost.json"
    if not cost.exists():
        command = [sys.executable, "-m", "softmatch", "train", source, "--data", str(data), "--labels", str(labels)]
        length = () if "--steps" in options else ("--minutes", str(minutes))
        command += ["--seed", str(seed), *length, "--out", str(folder), "--resume", "auto", "--quiet", *options]
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cost.write_text(json.dumps({"wall": time.perf_counter() - started, "cpu": used}))
    found: Result = json.loads((folder / "result.json").read_text())
    return {**found, **json.loads(cost.read_text())}


def affordable_steps(folder: Path, cpu_minutes: float, source: str, data: Path, labels: int, options: Sequence[str]) -> int:
    """Return the steps that so much processor time allows, found once."""
    found = folder / f"steps-{cpu_minutes:g}.json"
    if not found.exists():
        costs = [run(folder / f"short-{n}", source, data, labels, 0.0, 0, (*options, "--steps", str(n)))["cpu"] for n in SHORT]
        found.write_text(json.dumps(round(60 * cpu_minutes * (SHORT[1] - SHORT[0]) / (costs[1] - costs[0]))))
    steps: int = json.loads(found.read_text())
    return steps


def errors_during(folder: Path) -> list[float]:
    """Test errors in per cent after each tenth of a run."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    errors = [100 * record["test_error"] for record in records if record.get("test_error") is not None]
    return [errors[len(errors) * tenth // 10 - 1] for tenth in range(1, 11)]


def spread(values: list[float], digits: int = 1) -> str:
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def row(name: str, results: Sequence[Result]) -> str:
    errors, baselines = ([100 * r[key] for r in results if r[key] is not None] for key in ("test_error", "supervised_test_error"))
    gains = [b - e for b, e in zip(baselines, errors, strict=True)] if baselines else []
    cells = [name, spread(errors), f"{min(errors):.1f}–{max(errors):.1f}", spread(baselines) if baselines else "–"]
    cells += [spread(gains) if gains else "–", str(len(errors)), f"{statistics.mean(r['steps'] for r in results):.0f}"]
    cells += [f"{statistics.mean(r[key] for r in results) / 60:.1f}" for key in ("wall", "cpu")]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, help="CIFAR-10, as `softmatch train cifar10 --data` takes it")
    parser.add_argument("--fashion-mnist", type=Path)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["cifar10-250", "fashion-mnist-40"])
    parser.add_argument("--methods", nargs="+", default=["softmatch"])
    parser.add_argument("--without", nargs="*", choices=PARTS, default=[], help="also the recipe without each of these parts")
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12, 13, 14])
    parser.add_argument("--minutes", type=float, help="instead of those of the setting")
    parser.add_argument("--cpu-minutes", type=float, help="instead of minutes: processor time for the steps of each run")
    parser.add_argument("--curves", action="store_true", help="also the errors during the runs, on 1,000 test images")
    parser.add_argument("--options", default="", help="further options of each run")
    parser.add_argument("--runs", type=Path, default=Path("runs/sprint"))
    options = parser.parse_args()
    for setting in options.settings:
        source, labels, minutes = SETTINGS[setting]
        minutes = options.minutes or minutes
        data = getattr(options, source.replace("-", "_"))
        if data is None:
            parser.error(f"{setting} needs --{source}")
        length = f"{minutes:g} minutes" if options.cpu_minutes is None else f"{options.cpu_minutes:g} CPU-minutes of steps"
        print(f"\n## {source}, {labels:,} labels, {length}, seeds {', '.join(map(str, options.seeds))}\n")
        print(f"| {' | '.join(HEADING)} |\n{'|---' * len(HEADING)}|")
        variants: dict[str, tuple[str, ...]] = {name: ("--method", name) for name in options.methods}
        variants |= {f"without {part}": PARTS[part] for part in options.without}
        curves: dict[str, list[list[float]]] = {}
        for name, extra in variants.items():
            folder = options.runs / f"{setting}-{length.replace(' ', '-')}" / name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            given = [*extra, *options.options.split()]
            if options.cpu_minutes is not None:
                given += ["--threads", "1", "--no-baseline"]
                steps = affordable_steps(folder, options.cpu_minutes, source, data, labels, given)
                given += ["--steps", str(steps)]
            results = [run(folder / str(seed), source, data, labels, minutes, seed, given) for seed in options.seeds]
            curves[name] = [errors_during(folder / str(seed)) for seed in options.seeds]
            print(row(name, results), flush=True)
        if options.curves:
            print(f"\n| after | {' | '.join(f'{tenth}0 %' for tenth in range(1, 11))} |\n{'|---' * 11}|")
            for name, found in curves.items():
                print(f"| {name} | {' | '.join(spread(list(errors)) for errors in zip(*found, strict=True))} |")


if __name__ == "__main__":
    main()
