"""Kill and stop the workers and launchers of runs in two processes, resume the runs, and count results that are lost or differ.

    python benchmarks/fault_processes.py --rounds 6           # about a quarter of an hour on two cores

Uses the real `torchrun` and `softmatch train --processes 2`. The exit code is 1 if any run is lost or differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM, Signals

import torch
from fault_injection import LONGEST, Tally, finish
from safetensors.torch import load_file

from softmatch.errors import STOPPED
from softmatch.training.checkpoint import list_checkpoints

RESULTS = Path(__file__).parent / "results" / "fault_processes.md"
STEPS = 200
SETTINGS = (
    "digits --labels 40 --evaluate-every 60 --checkpoint-every 10 --network mlp-16 --lr 0.01 --threads 1 --no-baseline "
    f"--labeled-batch 7 --unlabeled-batch 13 --steps {STEPS}"
)
AGENT = "--standalone --nproc-per-node 2 --max-restarts 5 -m"
MODEL = "model/model.safetensors"


def command(out: Path, before: str = "", after: str = "") -> list[str]:
    return [sys.executable, *f"-m {before} softmatch train {SETTINGS} --resume auto {after}".split(), "--out", str(out)]


def start(out: Path, words: list[str]) -> subprocess.Popen[bytes]:
    with out.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log, start_new_session=True)


def wait_past(step: int, out: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait for a new checkpoint after a step; returns False if the process ends before."""
    old, until = list_checkpoints(out / "checkpoints")[-1:], time.monotonic() + LONGEST
    while process.poll() is None and time.monotonic() < until:
        new = list_checkpoints(out / "checkpoints")[-1:]
        if new != old and new and int(new[0].stem.removeprefix("step-")) > step:
            return True
        time.sleep(0.005)
    return False


def disturb(words: list[str], number: Signals, worker: bool, out: Path, chance: Random, tally: Tally) -> None:
    """Send a signal to the launcher or a worker at one or two random steps; start a launcher that has ended again."""
    steps, process = sorted(chance.sample(range(0, STEPS - 40), chance.randint(1, 2))), start(out, words)
    for _ in range(12):
        if steps and wait_past(steps.pop(0), out, process):
            time.sleep(chance.uniform(0.0, 0.05))
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(chance.choice(children)) if worker else process.pid, number)
            tally.faults += 1
            if worker:  # torchrun restarts it
                continue
        if process.wait(LONGEST) == 0:
            return
        if process.returncode not in (STOPPED, -SIGKILL):
            tally.report("unclean", f"{out.name}: exit code {process.returncode}")
        wait_for_orphans(out)
        process = start(out, words)


def wait_for_orphans(out: Path) -> None:
    """Wait until the workers of a killed launcher have ended by themselves; they must not hold the folder."""
    until = time.monotonic() + 60
    while time.monotonic() < until and subprocess.run(["pgrep", "-f", str(out)], capture_output=True).returncode == 0:
        time.sleep(0.1)


def compare(out: Path, whole: Path, one: Path, tally: Tally) -> None:
    """Compare a run with the undisturbed runs in two processes and in one."""
    if not (out / "result.json").is_file():
        tally.report("lost", f"{out.name}: not finished: {out.with_suffix('.log').read_text()[-500:]}")
        return
    wrong = [name for name in ("metrics.jsonl", MODEL) if (out / name).read_bytes() != (whole / name).read_bytes()]
    mine, theirs = load_file(out / MODEL), load_file(one / MODEL)
    most = max(float((mine[name] - theirs[name]).abs().max()) for name in theirs)
    if wrong or most > 1e-6:
        tally.report("mismatches", f"{out.name}: {wrong} differ; weights differ from one process by {most:.1e}")


ROWS = {
    "worker of two killed −9, torchrun --max-restarts": ("torch.distributed.run " + AGENT, "", SIGKILL, True),
    "SIGTERM to --processes 2, started again": ("", "--processes 2", SIGTERM, False),
    "launcher of --processes 2 killed −9, started again": ("", "--processes 2", SIGKILL, False),
}
"""Words before and after `softmatch train`, the signal, and whether it goes to a worker or to the launcher."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, tallies = Random(options.seed), {name: Tally() for name in ROWS}
    with tempfile.TemporaryDirectory(prefix="fault-processes-") as place:
        whole, one = Path(place, "whole"), Path(place, "one")
        for words in (command(whole, after="--processes 2"), command(one)):
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        for row, (name, tally) in enumerate(tallies.items()):
            for number in range(options.rounds):
                out = Path(place, f"{row}-{number}")
                before, after, number_of, worker = ROWS[name]
                disturb(command(out, before, after), number_of, worker, out, chance, tally)
                tally.runs += 1
                compare(out, whole, one, tally)
                print(f"{name}: run {tally.runs}, {tally.faults} faults so far", file=sys.stderr, flush=True)
    heading = [
        "# Runs in two processes whose processes are killed and stopped",
        f"`python benchmarks/fault_processes.py --rounds {options.rounds} --seed {options.seed}`",
        f"Digits, {STEPS} steps of 7 + 13 samples in unequal shares, gloo on one machine, torch {torch.__version__}. Files are "
        "compared with an undisturbed run in two processes, bit for bit, and the weights with one process (within 1e-6).",
    ]
    return finish(heading, tallies, RESULTS)


if __name__ == "__main__":
    sys.exit(main())
