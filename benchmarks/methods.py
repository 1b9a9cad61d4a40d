"""Every method on the same draws: test error, quantity f, quality g, time of a step, state.

    python benchmarks/methods.py --store runs.jsonl                                          # digits and long-tailed digits
    python benchmarks/methods.py --store runs.jsonl --settings fashion-mnist --data fashion_mnist.npz
    python benchmarks/methods.py --store runs.jsonl --settings digits --methods softmatch vat --seeds 3
    python benchmarks/methods.py --store runs.jsonl --only-print --cards docs/methods        # fill in the cards

Seed s draws the labelled and test samples, the weights, the batches and the views; every method sees the same draws. Each
run is one line of the store; what stands there is not run again, so an interrupted benchmark goes on. Prints Markdown: error as
mean ± standard deviation over the seeds in per cent; f and g of the second half of the run (mean over seeds); wall time of a
step as the median of several, taken when no run is going on here, and as a multiple of FixMatch's; and the bytes that a
checkpoint holds beyond those of the supervised network (statistics, registries, further heads and networks).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import softmatch
from softmatch.data import find_source
from softmatch.methods import METHODS
from softmatch.recipes import complete
from softmatch.training.loop import Trainer
from softmatch.training.task import build_method, make_trainer, prepare

LONG_TAILED = ("darp", "crest", "crest_plus", "abc", "cossl", "saw", "adsh", "debiaspl")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "digits": {"source": "digits", "labels": 40, "model": "small-conv-16", "steps": 500},
    "digits-long-tailed": {
        "source": "digits",
        "imbalance": 10,
        "head_labels": 20,
        "head_unlabeled": 80,
        "model": "small-conv-16",
        "steps": 500,
    },
    "fashion-mnist": {
        "source": "fashion-mnist",
        "labels": 40,
        "model": "small-conv-8",
        "labeled_batch": 32,
        "unlabeled_batch": 48,
        "steps": 300,
    },
}
"""What differs from the source's defaults."""
EVALUATIONS = 2
MARK = "<!-- measured -->"
Row = dict[str, Any]


def settings_of(setting: str, data: Path | None) -> tuple[str, dict[str, Any]]:
    """Source and settings."""
    found = dict(SETTINGS[setting])
    source = found.pop("source")
    if source != "digits":
        found["data"] = data
    return source, {**found, "threads": 1, "evaluate_every": found["steps"] // EVALUATIONS, "twin": False}


def run(setting: str, method: str, seed: int, data: Path | None) -> Row:
    """One run of the product itself, run folder and all."""
    source, options = settings_of(setting, data)
    with tempfile.TemporaryDirectory() as folder:
        result = softmatch.train(source, method=method, seed=seed, out=Path(folder) / "run", **options)
        records = softmatch.runs.RunFolder(result.run).records()
    return {
        "setting": setting,
        "method": method,
        "seed": seed,
        "error": result.test_error,
        "quantity": result.quantity,
        "quality": result.quality,
        "seconds": result.seconds,
        "errors": [record["test_error"] for record in records],
        "class_errors": list(result.class_errors.values()),
    }


def trainer_of(setting: str, method: str, data: Path | None) -> Trainer:
    source, options = settings_of(setting, data)
    config = complete(source, find_source(source).defaults, options, {"method": method})
    task = prepare(source, config)
    return make_trainer(task, build_method(task, method))


def checkpoint_bytes(trainer: Trainer) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in trainer.state().values())


def time_steps(setting: str, methods: Iterable[str], data: Path | None, rounds: int, steps: int = 5) -> list[Row]:
    """Seconds of a step of each method, in rounds over all methods so that a busy moment does not hit one method alone."""
    torch.set_num_threads(1)
    plain = trainer_of(setting, "supervised", data)
    plain.advance()
    base = checkpoint_bytes(plain)
    trainers = {method: trainer_of(setting, method, data) for method in methods}
    seconds: dict[str, list[float]] = {method: [] for method in trainers}
    for trainer in trainers.values():
        trainer.network.train()
        for _ in range(2):
            trainer.advance()
    for _ in range(rounds):
        for method, trainer in trainers.items():
            for _ in range(steps):
                started = time.perf_counter()
                trainer.advance()
                seconds[method].append(time.perf_counter() - started)
    return [
        {
            "setting": setting,
            "method": method,
            "step": statistics.median(seconds[method]),
            "state": checkpoint_bytes(trainers[method]) - base,
            "steps_timed": len(seconds[method]),
        }
        for method in trainers
    ]


def read(store: Path) -> list[Row]:
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def append(store: Path, row: Row) -> None:
    with store.open("a") as file:
        file.write(json.dumps(row) + "\n")


def spread(values: list[float]) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
    return f"{100 * statistics.mean(values):.1f} ± {100 * deviation:.1f}"


def share(rows: list[Row], key: str) -> str:
    found = [row[key] for row in rows if row[key] is not None]
    return f"{100 * statistics.mean(found):.0f} %" if found else "–"


def size(number: int) -> str:
    """'13 kB'; a difference below a kilobyte is given in bytes."""
    return f"{number} B" if number < 1000 else f"{number / 1000:.0f} kB" if number < 1e6 else f"{number / 1e6:.1f} MB"


def summarize(rows: list[Row], setting: str) -> dict[str, dict[str, Any]]:
    """Of each method: its runs, its timing, and the cells of its row."""
    found: dict[str, dict[str, Any]] = {}
    timed = {row["method"]: row for row in rows if row["setting"] == setting and "step" in row}
    reference = timed.get("fixmatch", {}).get("step")
    for method in METHODS:
        runs = [row for row in rows if row["setting"] == setting and row["method"] == method and "error" in row]
        if not runs:
            continue
        errors = [row["error"] for row in runs]
        timing = timed.get(method)
        found[method] = {
            "mean": statistics.mean(errors),
            "n": len(errors),
            "error": spread(errors),
            "worst": f"{100 * max(errors):.1f}",
            "f": share(runs, "quantity"),
            "g": share(runs, "quality"),
            "step": "–" if timing is None else f"{1000 * timing['step']:.0f} ms",
            "times": "–" if timing is None or reference is None else f"{timing['step'] / reference:.1f}",
            "state": "–" if timing is None else size(timing["state"]),
        }
    return found


def table(rows: list[Row], setting: str) -> str:
    """Markdown, best first."""
    found = summarize(rows, setting)
    seeds = sorted({entry["n"] for entry in found.values()})
    described = ", ".join(f"{key} {value}" for key, value in SETTINGS[setting].items())
    lines = [
        f"### {setting}",
        "",
        f"{described}; {' or '.join(map(str, seeds))} seeds.",
        "",
        "| method | test error % | worst seed | f | g | step | × FixMatch | state |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, entry in sorted(found.items(), key=lambda item: float(item[1]["mean"])):
        cells = [entry[key] for key in ("error", "worst", "f", "g", "step", "times", "state")]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill_cards(rows: list[Row], folder: Path) -> None:
    """Write each method's figures below the mark in its card."""
    found = {setting: summarize(rows, setting) for setting in SETTINGS}
    for method in METHODS:
        card = folder / f"{method}.md"
        lines = []
        for setting, entries in found.items():
            if method not in entries:
                continue
            entry, rank = entries[method], sorted(entries, key=lambda name: float(entries[name]["mean"])).index(method) + 1
            beside = [f"{name} {entries[name]['error']}" for name in ("supervised", "fixmatch", "softmatch")]
            beside = [text for text in beside if not text.startswith(f"{method} ")]
            lines.append(
                f"- {setting}: {entry['error']} % test error over {entry['n']} seeds, rank {rank} of {len(entries)} "
                f"({', '.join(beside)}); f {entry['f']}, g {entry['g']}; a step takes {entry['times']} × FixMatch's; "
                f"state {entry['state']}."
            )
        if lines:
            head = card.read_text(encoding="utf-8").partition(MARK)[0]
            source = "Printed by `benchmarks/methods.py`; the settings stand beside the [whole table](../methods.md)."
            card.write_text(f"{head}{MARK}\n{source}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="JSON lines; runs found there are not run again")
    parser.add_argument("--settings", nargs="*", default=["digits", "digits-long-tailed"], choices=list(SETTINGS))
    parser.add_argument("--methods", nargs="*", default=None, help="default: all; the long-tailed ones where the data are")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="fashion_mnist.npz, or a folder of its files")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, one thread each")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of five timed steps; 0 times nothing")
    parser.add_argument("--only-print", action="store_true", help="run nothing")
    parser.add_argument("--cards", type=Path, help="folder of the cards to fill in")
    arguments = parser.parse_args()
    for setting in [] if arguments.only_print else arguments.settings:
        chosen = arguments.methods or list(METHODS)
        if setting == "digits-long-tailed" and not arguments.methods:
            chosen = ["supervised", "fixmatch", "softmatch", *LONG_TAILED]
        rows = read(arguments.store)
        done = {(row["setting"], row["method"], row.get("seed")) for row in rows}
        timed = [method for method in chosen if arguments.rounds and (setting, method, None) not in done]
        if timed:
            for row in time_steps(setting, dict.fromkeys(["fixmatch", *timed]), arguments.data, arguments.rounds):
                append(arguments.store, row)
        todo = [(m, s) for s in range(arguments.seeds) for m in chosen if (setting, m, s) not in done]
        with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
            waiting = [pool.submit(run, setting, method, seed, arguments.data) for method, seed in todo]
            for number, future in enumerate(as_completed(waiting), 1):
                row = future.result()
                append(arguments.store, row)
                shown = f"{number}/{len(waiting)} {setting} {row['method']} seed {row['seed']}: {100 * row['error']:.1f} %"
                print(f"{shown}, {row['seconds']:.0f} s", file=sys.stderr, flush=True)
    rows = read(arguments.store)
    print("\n\n".join(table(rows, setting) for setting in arguments.settings))
    if arguments.cards is not None:
        fill_cards(rows, arguments.cards)


if __name__ == "__main__":
    main()
