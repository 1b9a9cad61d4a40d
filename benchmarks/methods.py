"""Measure every method on the same splits: test error, quantity f, quality g, time per step, size of the state.

    python benchmarks/methods.py --store runs.jsonl                                          # digits and long-tailed digits
    python benchmarks/methods.py --store runs.jsonl --settings fashion-mnist --data fashion_mnist.npz
    python benchmarks/methods.py --store runs.jsonl --settings digits --methods softmatch vat --seeds 3
    python benchmarks/methods.py --store runs.jsonl --only-print --cards docs/methods        # fill in the cards

Seed s decides the labelled and test samples, the weights, the batches and the views; every method uses the same ones. Each
run is one line of the store; runs in the store are not repeated, so an interrupted benchmark resumes. Prints Markdown: error as
mean ± standard deviation over the seeds in per cent; f and g of the second half of the run (mean over seeds); wall time of
training over the number of steps, all phases of a method included, of the fastest seed (other work on the machine slows the
rest), and as a multiple of FixMatch's; and the bytes that a checkpoint holds beyond the supervised run's (statistics,
registries, further heads and networks).
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import softmatch
from softmatch.methods import METHODS
from softmatch.runs.folder import RunFolder

LONG_TAILED = ("darp", "crest", "crest_plus", "abc", "cossl", "saw", "adsh", "debiaspl")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "digits": {"source": "digits", "labels": 40, "network": "small-conv-16", "steps": 500},
    "digits-long-tailed": {
        "source": "digits",
        "imbalance": 10,
        "largest_class_labels": 20,
        "largest_class_unlabeled": 80,
        "network": "small-conv-16",
        "steps": 500,
    },
    "fashion-mnist": {
        "source": "fashion-mnist",
        "labels": 40,
        "network": "small-conv-8",
        "labeled_batch": 32,
        "unlabeled_batch": 48,
        "steps": 300,
    },
}
"""Settings that differ from the source's defaults."""
EVALUATIONS = 2
MARK = "<!-- measured -->"
Row = dict[str, Any]


def settings_of(setting: str, data: Path | None) -> tuple[str, dict[str, Any]]:
    """Return source and settings."""
    found = dict(SETTINGS[setting])
    source = found.pop("source")
    if source != "digits":
        found["data"] = data
    return source, {**found, "threads": 1, "evaluate_every": found["steps"] // EVALUATIONS, "baseline": False}


def run(setting: str, method: str, seed: int, data: Path | None) -> Row:
    """Train once with softmatch itself, run folder included."""
    source, options = settings_of(setting, data)
    with tempfile.TemporaryDirectory() as folder:
        result = softmatch.train(source, method=method, seed=seed, out=Path(folder) / "run", **options)
        records = RunFolder(result.run).records()
        checkpoint = max(path.stat().st_size for path in (result.run / "checkpoints").iterdir())
    return {
        "setting": setting,
        "method": method,
        "seed": seed,
        "error": result.test_error,
        "quantity": result.quantity,
        "quality": result.quality,
        "seconds_per_step": records[-1]["seconds"] / records[-1]["step"],
        "checkpoint": checkpoint,
        "seconds": result.seconds,
        "errors": [record["test_error"] for record in records],
        "class_errors": list(result.class_errors.values()),
    }


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
    """Format a number of bytes, such as '13 kB'; a difference below a kilobyte is given in bytes."""
    return f"{number} B" if number < 1000 else f"{number / 1000:.0f} kB" if number < 1e6 else f"{number / 1e6:.1f} MB"


def quickest(rows: list[Row], setting: str, method: str) -> float | None:
    """Return the seconds per step of the fastest run."""
    found = [
        row["seconds_per_step"]
        for row in rows
        if (row["setting"], row["method"]) == (setting, method) and "seconds_per_step" in row
    ]
    return min(found, default=None)


def summarize(rows: list[Row], setting: str) -> dict[str, dict[str, Any]]:
    """Return the runs, the timing and the cells of the row of each method."""
    found: dict[str, dict[str, Any]] = {}
    reference = quickest(rows, setting, "fixmatch")
    plain = [
        row["checkpoint"] for row in rows if (row["setting"], row["method"]) == (setting, "supervised") and "checkpoint" in row
    ]
    for method in METHODS:
        runs = [row for row in rows if row["setting"] == setting and row["method"] == method]
        if not runs:
            continue
        errors = [row["error"] for row in runs]
        step, checkpoint = quickest(rows, setting, method), [row["checkpoint"] for row in runs if "checkpoint" in row]
        found[method] = {
            "mean": statistics.mean(errors),
            "n": len(errors),
            "error": spread(errors),
            "worst": f"{100 * max(errors):.1f}",
            "f": share(runs, "quantity"),
            "g": share(runs, "quality"),
            "step": "–" if step is None else f"{1000 * step:.0f} ms",
            "times": "–" if step is None or reference is None else f"{step / reference:.1f}",
            "state": size(max(checkpoint) - max(plain)) if checkpoint and plain else "–",
        }
    return found


def table(rows: list[Row], setting: str) -> str:
    """Format a Markdown table, best method first."""
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
            source = "Printed by `benchmarks/methods.py`; the settings are given with the [whole table](../methods.md)."
            card.write_text(f"{head}{MARK}\n{source}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="file of JSON lines; runs in it are not repeated")
    parser.add_argument("--settings", nargs="*", default=["digits", "digits-long-tailed"], choices=list(SETTINGS))
    parser.add_argument("--methods", nargs="*", default=None, help="default: all; long-tailed methods only on long-tailed data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="fashion_mnist.npz, or a folder with its files")
    parser.add_argument("--jobs", type=int, default=2, help="number of runs at the same time, one thread each")
    parser.add_argument("--only-print", action="store_true", help="only print what is in the store")
    parser.add_argument("--cards", type=Path, help="folder of the method cards to fill in")
    arguments = parser.parse_args()
    for setting in [] if arguments.only_print else arguments.settings:
        chosen = arguments.methods or list(METHODS)
        if setting == "digits-long-tailed" and not arguments.methods:
            chosen = ["supervised", "fixmatch", "softmatch", *LONG_TAILED]
        rows = read(arguments.store)
        done = {(row["setting"], row["method"], row.get("seed")) for row in rows}
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
