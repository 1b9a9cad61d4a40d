"""Measure `softmatch predict --on ray`: rows per second with 1 and 2 workers, and rows lost or doubled when processes are killed.

    python benchmarks/ray_predict.py --kills 200 --minutes 60 > benchmarks/results/ray_predict.md     # --repeats 0: kills only

Everything runs on one cluster of this machine. Speed: local predictions and those of 1 and of 2 workers take turns; the time is
that from the first finished piece to the last. Kills: `softmatch predict` is started as a command; whenever a further piece is
done, a random process is killed with SIGKILL: a worker, loading or predicting, or (one time in twenty) the command, which is
then started again. The finished table is compared, row by row, with that of an undisturbed local prediction. The program stops
after the kills, or the minutes.
"""

import argparse
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch

import softmatch
from softmatch.experiments.executors.predict_on_ray import parts_of, predict_on_ray
from softmatch.inference.predict import predict

COMMANDS = 0.05
"""Share of kills that hit the command."""
SIDE, CLASSES = 32, 10


def prepare(folder: Path, rows: int) -> tuple[Path, Path]:
    """A run of a small convolutional network, hardly trained, and images to predict."""
    generator = np.random.default_rng(0)
    for name, number in (("train", 200), ("new", rows)):
        images = generator.integers(0, 256, (number, SIDE, SIDE, 3), dtype=np.uint8)
        np.savez(folder / f"{name}.npz", x=images, y=np.arange(number) % CLASSES)
    quick: dict[str, Any] = {"baseline": False, "labeled_batch": 16, "unlabeled_batch": 16, "evaluation": "none", "device": "cpu"}
    softmatch.train(str(folder / "train.npz"), steps=2, network="small-conv-32", out=folder / "run", **quick)
    return folder / "run", folder / "new.npz"


def rate(call: Callable[..., Any], rows: int) -> float:
    """Rows per second from the first finished piece to the last."""
    seen: list[tuple[float, int]] = []
    call(progress=lambda done: seen.append((time.perf_counter(), done)), rows=rows)
    return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])


def workers() -> list[int]:
    """Processes of this cluster that load or predict."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::Predictor") and _parent(_parent(int(path.parent.name))) == os.getpid():
                found.append(int(path.parent.name))
        except OSError:  # it has just ended
            continue
    return found


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def disturb(command: list[str], out: Path, kills: int, until: float, draws: random.Random) -> Counter[str]:
    """Run a command to its end, and kill a process whenever a further piece is done."""
    struck, seen = Counter[str](), 0
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        code = child.poll()
        if code == 0:
            return struck
        if code is not None:
            struck["command"] += 1
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        number = len([*parts_of(out).glob("*.safetensors")])
        if number > seen and struck.total() < kills and time.monotonic() < until:
            seen = number
            time.sleep(draws.random())
            alive = workers()
            if draws.random() < COMMANDS:
                child.kill()
                child.wait()
            elif alive:
                os.kill(draws.choice(alive), signal.SIGKILL)
                struck["worker"] += 1
        time.sleep(0.02)


def compare(table: Path, expected: Path) -> tuple[int, int, int]:
    """Rows lost, doubled and changed."""
    found, wanted = (Counter(path.read_text().splitlines()[1:]) for path in (table, expected))
    names, known = (Counter(row.split(",")[0] for row in rows.elements()) for rows in (found, wanted))
    return (known - names).total(), (names - known).total(), (found - wanted).total()


def start_ray(cpus: int) -> None:
    """Start a cluster on this machine; Ray gives up after 30 seconds, which may be too few where others work."""
    for left in range(9, -1, -1):
        try:
            ray.init("local", num_cpus=cpus, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)
            return
        except Exception:  # Ray raises Exception itself
            ray.shutdown()
            if not left:
                raise


def show_rates(rates: dict[str, list[float]], repeats: int) -> None:
    print("## Speed\n")
    print(f"Rows per second once the model is loaded, medians of {repeats} rounds; ratios are within a round.\n")
    print("| | rows/s | times local |\n|---|---|---|")
    for name, found in rates.items():
        ratios = [value / local for value, local in zip(found, rates["local"], strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        print(f"| {name} | {statistics.median(found):,.0f} | {spread} |")
    print()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2, help="while processes are killed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    until, draws = time.monotonic() + 60 * given.minutes, random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, source = prepare(folder, given.rows)
        expected, piece = folder / "expected.csv", max(given.rows // 200, 1)
        predict(run, source, expected, rows=piece)
        start_ray(max(given.workers, 2))
        rates: dict[str, list[float]] = {"local": [], "1 worker": [], "2 workers": []}
        for repeat in range(given.repeats):
            out = [folder / f"{repeat}-{k}.csv" for k in range(3)]
            rates["local"].append(rate(lambda out=out, **more: predict(run, source, out[0], **more), piece))
            for number in (1, 2):
                on_ray: Any = lambda out=out, number=number, **more: predict_on_ray(  # noqa: E731  # bound at once
                    run, source, out[number], workers=number, address=None, **more
                )
                rates[f"{number} worker{'s' * (number > 1)}"].append(rate(on_ray, piece))
            print(f"repeat {repeat + 1} of {given.repeats}", {k: round(v[-1]) for k, v in rates.items()}, file=sys.stderr)
        struck, wrong, tables = Counter[str](), [0, 0, 0], 0
        while struck.total() < given.kills and time.monotonic() < until:
            out_file = folder / f"struck-{tables}.csv"
            command = [sys.executable, "-m", "softmatch", "predict", str(run), str(source), "--out", str(out_file), "--rows"]
            command += [
                str(piece),
                "--on",
                "ray",
                "--workers",
                f"{given.workers}",
                "--address",
                ray.get_runtime_context().gcs_address,
            ]
            struck += disturb(command, out_file, given.kills - struck.total(), until, draws)
            tables += 1
            wrong = [before + now for before, now in zip(wrong, compare(out_file, expected), strict=True)]
            print(f"table {tables}: {dict(struck)} killed, lost, doubled, changed {wrong}", file=sys.stderr, flush=True)
        ray.shutdown()
    print("# Predictions on Ray\n\n`python benchmarks/ray_predict.py`\n")
    print(
        f"{given.rows:,} images of 3×{SIDE}×{SIDE} in pieces of {piece}, small-conv-32, {os.cpu_count()} cores, "
        f"torch {torch.__version__}, Ray {ray.__version__}, Python {platform.python_version()}; load average at the end "
        f"{os.getloadavg()[2]:.1f} over 15 minutes: other programs were running, so only ratios say something.\n"
    )
    if given.repeats:
        show_rates(rates, given.repeats)
    print("## Kills\n")
    kills = f"{struck.total()} kills (SIGKILL), {struck['worker']} of workers and {struck['command']} of the command"
    print(f"{kills}, in {tables} table{'s' * (tables > 1)} of {given.rows:,} rows.", end=" ")
    print(f"Rows lost: **{wrong[0]}**. Rows doubled: **{wrong[1]}**. Rows changed: **{wrong[2]}**.")
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
