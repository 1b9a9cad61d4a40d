"""Is a run in several processes ever lost? Workers and launchers are killed and stopped at random, and the runs go on.

    python benchmarks/fault_processes.py --rounds 6           # about a quarter of an hour on two cores

Real `torchrun` and `softmatch train --processes 2`. In the end the files of each run must be those of an undisturbed run in two
processes, bit for bit, and its weights those of one process within 1e-6. Ends with exit code 1 if any run is lost or differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file

from softmatch.errors import STOPPED
from softmatch.training.checkpoint import list_checkpoints

RESULTS = Path(__file__).parent / "results" / "fault_processes.md"
STEPS = 200
SETTINGS = (
    "digits --labels 40 --evaluate-every 60 --checkpoint-every 10 --network mlp-16 --lr 0.01 --threads 1 --no-baseline "
    f"--labeled-batch 7 --unlabeled-batch 13 --steps {STEPS}"
).split()
FILES = ("metrics.jsonl", "model/model.safetensors")
TWO = ("--processes", "2")
LONGEST = 300.0
TRIES = 12


@dataclass
class Tally:
    """What came of the runs of one kind of fault."""

    runs: int = 0
    faults: int = 0
    lost: int = 0
    mismatches: int = 0
    problems: list[str] = field(default_factory=list)


def softmatch(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "softmatch", "train", *SETTINGS, "--out", str(out), "--resume", "auto", *more]


def torchrun(out: Path) -> list[str]:
    agent = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "5"]
    return [sys.executable, "-m", *agent, *softmatch(out)[1:]]


def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)


def newest(out: Path) -> int:
    """Step of the newest checkpoint; 0 without one."""
    saved = list_checkpoints(out / "checkpoints")
    return int(saved[-1].stem.removeprefix("step-")) if saved else 0


def wait_until(step: int, out: Path, process: subprocess.Popen[bytes]) -> bool:
    """Until that step is saved; false if the process has ended before."""
    until = time.monotonic() + LONGEST
    while process.poll() is None and time.monotonic() < until:
        if newest(out) >= step:
            return True
        time.sleep(0.005)
    return False


def workers(of: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{of.pid}/task/{of.pid}/children").read_text().split()]


def kill_workers(out: Path, chance: Random, tally: Tally) -> None:
    """One or two workers of torchrun, at random; it starts them again by itself."""
    process = start(torchrun(out), out.with_suffix(".log"))
    for step in sorted(chance.sample(range(0, STEPS - 40), chance.randint(1, 2))):
        if wait_until(max(step, newest(out) + 1), out, process):
            time.sleep(chance.uniform(0.0, 0.05))
            children = workers(process)
            if children:
                os.kill(chance.choice(children), signal.SIGKILL)
                tally.faults += 1
    if process.wait(LONGEST) != 0:
        tally.problems.append(f"{out.name}: torchrun ended with {process.returncode}")


def strike_launcher(number: signal.Signals) -> Callable[[Path, Random, Tally], None]:
    """`softmatch train --processes 2` is sent a signal at random, and started again until the run is finished."""

    def strike(out: Path, chance: Random, tally: Tally) -> None:
        steps = sorted(chance.sample(range(0, STEPS - 20), chance.randint(1, 2)))
        for _ in range(TRIES):
            process = start(softmatch(out, *TWO), out.with_suffix(".log"))
            if steps and wait_until(max(steps.pop(0), newest(out) + 1), out, process):
                process.send_signal(number)
                tally.faults += 1
                code = process.wait(LONGEST)
                if number == signal.SIGTERM and code not in (STOPPED, 0):
                    tally.problems.append(f"{out.name}: SIGTERM gave exit code {code}")
                wait_for_orphans(out)
            elif process.wait(LONGEST) == 0:
                return

    return strike


def wait_for_orphans(out: Path) -> None:
    """The workers of a launcher that was killed end by themselves; they must not hold the folder."""
    until = time.monotonic() + 60
    while time.monotonic() < until and subprocess.run(["pgrep", "-f", str(out)], capture_output=True).returncode == 0:
        time.sleep(0.1)


def same(out: Path, whole: Path, one: Path) -> str:
    """What differs from the undisturbed runs in two processes and in one."""
    for name in FILES:
        if (out / name).read_bytes() != (whole / name).read_bytes():
            return f"{name} differs"
    mine, theirs = (load_file(folder / "model" / "model.safetensors") for folder in (out, one))
    most = max(float((mine[name] - theirs[name]).abs().max()) for name in theirs)
    return f"weights differ from one process by {most:.1e}" if most > 1e-6 else ""


ROWS: dict[str, Callable[[Path, Random, Tally], None]] = {
    "worker of two killed −9, torchrun --max-restarts": kill_workers,
    "SIGTERM to --processes 2, started again": strike_launcher(signal.SIGTERM),
    "launcher of --processes 2 killed −9, started again": strike_launcher(signal.SIGKILL),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, tallies = Random(options.seed), dict[str, Tally]()
    with tempfile.TemporaryDirectory(prefix="fault-processes-") as place:
        folder = Path(place)
        whole, one = folder / "whole", folder / "one"
        for command in (softmatch(whole, *TWO), softmatch(one)):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name, inject in ROWS.items():
            tally = tallies[name] = Tally()
            for number in range(options.rounds):
                out = folder / f"{len(tallies)}-{number}"
                inject(out, chance, tally)
                tally.runs += 1
                if not (out / "result.json").is_file():
                    tally.lost += 1
                    tally.problems.append(f"{out.name}: not finished: {out.with_suffix('.log').read_text()[-500:]}")
                elif difference := same(out, whole, one):
                    tally.mismatches += 1
                    tally.problems.append(f"{out.name}: {difference}")
                print(f"{name}: run {tally.runs}, {tally.faults} faults so far", file=sys.stderr, flush=True)
    rows = [(name, each.runs, each.faults, each.lost, each.mismatches, len(each.problems)) for name, each in tallies.items()]
    page = "\n".join(
        [
            "# Runs in two processes whose processes are killed and stopped",
            "",
            f"`python benchmarks/fault_processes.py --rounds {options.rounds} --seed {options.seed}`",
            "",
            f"Digits, {STEPS} steps of 7 + 13 samples in unequal shares, gloo on one machine, torch {torch.__version__}. "
            "Mismatch: metrics or weights are not, bit for bit, those of an undisturbed run in two processes, or the weights are "
            "not those of one process within 1e-6.",
            "",
            "| fault | runs | faults injected | lost results | mismatches | problems |",
            "|---|---|---|---|---|---|",
            *(f"| {' | '.join(map(str, row))} |" for row in rows),
            *(f"\n- {problem}" for tally in tallies.values() for problem in tally.problems),
            "",
        ]
    )
    print(page)
    RESULTS.write_text(page, encoding="utf-8")
    return int(any(tally.problems for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
