"""Kill, stop and damage training runs at random, resume them until they finish, and count results that are lost or differ.

    python benchmarks/faults.py                       # about a quarter of an hour on one core
    python benchmarks/faults.py --quick               # about a minute; writes no file
    python benchmarks/faults.py --only signal --rounds 10 --seed 3

Each run is trained once without faults and then with them: whenever its process has ended, `softmatch train --resume auto`
resumes it. The exit code is 1 if any run is lost or differs from the undisturbed one.
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random
from signal import SIGKILL, Signals
from typing import Any, Literal, NamedTuple

import torch
from fault_injection import Case, Damage, Ended, Endurance, Fault, Strike, Tally, warm_up
from tiny_data import NUMBERS, write_photos

from softmatch.methods import METHODS
from softmatch.training import stop as stopping
from softmatch.training.checkpoint import list_checkpoints

SIGNALS = tuple(Signals[name] for name in stopping.SIGNALS)
RESULTS = Path(__file__).parent / "results" / "faults.md"
TINY: dict[str, Any] = {"steps": 29, "evaluate_every": 7, "checkpoint_every": 4, "device": "cpu", "threads": 1}
TINY |= {"labeled_batch": 8, "unlabeled_batch": 16}
DIGITS: dict[str, Any] = {**TINY, "labels": 20, "network": "small-conv-4", "baseline": False}
LOW: dict[str, Any] = {"threshold": 0.2}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("fixmatch", "flexmatch", "uda", "debiaspl", "sequencematch", "abc", "simmatch"), LOW),
    "comatch": {**LOW, "memory": 3, "graph_threshold": 0.1},
    "cgmatch": {"warmup": 3},
    "dash": {"warmup": 3, "every": 2},
    "meta_pseudo_labels": {**LOW, "finetune": 0.25, "baseline": 0.5},
    "influence": {"every": 2, "base_options": LOW},
    "semireward": {"warmup": 3, "every": 2, "base_options": LOW},
    "darp": {"warmup": 0.0, "every": 5, "base_options": LOW},
    "cossl": {"teach_from": 0.5, "base_options": LOW},
    "crest": {"generations": 3},
    "crest_plus": {"generations": 3},
    "semireward+adamatch": {"warmup": 3, "every": 2},
    "darp+flexmatch": {"warmup": 0.0, "every": 5, "base_options": LOW},
    "crest+freematch": {"generations": 2},
    "cossl+adamatch": {"teach_from": 0.5},
}
"""Options with which every term of a method takes effect within a few steps."""
WRAPPED = ("saw+softmatch", "abc+freematch", "influence+flexmatch", *(name for name in OPTIONS if "+" in name))
TWIN = Case("with a baseline", "digits", {**DIGITS, "baseline": True, "steps": 17})
MOONS = Case("two-moons", "two-moons", TINY)
UNEVEN: dict[str, Any] = {"labeled_batch": 7, "unlabeled_batch": 13, "steps": 200, "checkpoint_every": 10}
TWO = Case("two processes", "digits", {**DIGITS, **UNEVEN, "network": "mlp-16"}, processes=2)
VARIANTS = (
    TWIN,
    Case("batch normalisation", "digits", {**DIGITS, "network": "wrn-10-1"}),
    Case("batch normalisation, joint", "digits", {**DIGITS, "network": "wrn-10-1", "batch_statistics": "joint"}),
    Case("fp16", "digits", {**DIGITS, "network": "mlp", "precision": "fp16", "clip": 1.0, "optimizer": "adamw", "lr": 1.0}),
    Case("bf16", "digits", {**DIGITS, "precision": "bf16"}),
    Case("adam", "two-moons", {**TINY, "optimizer": "adam"}),
    Case("adamw, shrink", "two-moons", {**TINY, "optimizer": "adamw", "decay": "shrink", "baseline": False}),
    Case("averages as in the paper", "two-moons", {**TINY, "averages": "paper", "baseline": False}),
)


def own_data(folder: Path) -> tuple[Case, Case]:
    """Write a table, measured by a cross-fit, and image files, read by worker processes."""
    (folder / "table.csv").write_text(NUMBERS)
    few = {**TINY, "steps": 11, "evaluate_every": 5, "checkpoint_every": 3}
    crossfit = {**few, "evaluation": "crossfit", "folds": 2}
    files = {**few, "workers": 2, "network": "small-conv-4", "baseline": False, "batch_statistics": "joint"}
    files["test"] = str(write_photos(folder / "tests", labeled=30))
    images = write_photos(folder / "images", labeled=30, unlabeled=90)
    return Case("cross-fit", str(folder / "table.csv"), crossfit), Case("image files", str(images), files)


def at_a(of: Literal["steps", "writes"], *signals: int) -> Fault:
    """Strike after a random step, or in place of a random flush to disk."""
    return Fault(lambda chance, end: Strike(chance.choice(signals), count=chance.randint(1, getattr(end, of)), of=of))


def at_write(number: int) -> Fault:
    return Fault(lambda chance, end: Strike(SIGKILL, count=number, of="writes"))


def damaged(damage: Damage) -> Fault:
    """Kill after a random step, once there is something to damage."""
    return Fault(lambda chance, end: Strike(SIGKILL, count=chance.randint(5, end.steps)), damage)


def at_a_moment(*signals: int, patience: float | None = None) -> Fault:
    """Strike from outside, and kill the process at random within `patience` seconds after that."""

    def strike(chance: Random, reference: Ended) -> Strike:
        seconds, left = chance.uniform(0.0, reference.seconds), None if patience is None else chance.uniform(0.0, patience)
        return Strike(chance.choice(signals), seconds=seconds, patience=left)

    return Fault(strike)


def no_room(chance: Random, reference: Ended) -> Strike:
    return Strike(file_size=chance.choice((0, 100, 1000, 10_000, 30_000)), count=chance.randint(1, reference.steps))


def damage_checkpoint(chance: Random, out: Path) -> str | None:
    """Cut, change or empty the newest checkpoint; sometimes all of them."""
    under_way = [folder for folder in sorted(out.rglob("checkpoints")) if not (folder.parent / "outcome.safetensors").exists()]
    saved = [path for folder in under_way for path in list_checkpoints(folder)]
    for path in saved[-chance.choice((1, 1, 1, 9)) :]:
        _spoil(chance, path)
    return "is damaged" if saved else None


def damage_outcome(chance: Random, out: Path) -> str | None:
    found = sorted(out.rglob("outcome.safetensors"))
    if found:
        _spoil(chance, chance.choice(found))
    return "is damaged" if found else None


def _spoil(chance: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    way = chance.choice(("cut", "change", "empty"))
    if way == "change":
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content if way == "change" else content[: chance.randrange(len(content)) if way == "cut" else 0])


def damage_metrics(chance: Random, out: Path) -> str | None:
    """Tear the last line, cut the file anywhere, or delete it."""
    for path in chance.sample(found := sorted(out.rglob("metrics.jsonl")), min(1, len(found))):
        content, way = path.read_bytes(), chance.choice(("tear", "cut", "delete"))
        path.write_bytes(content + b'{"step": 9, "los' if way == "tear" else content[: chance.randrange(len(content) + 1)])
        if way == "delete":
            path.unlink()
    return "" if found else None


def leave_files(chance: Random, out: Path) -> str | None:
    """Leave temporary files, as processes that are killed while writing do."""
    names = ("result.json", "metrics.jsonl", "model/model.safetensors", "checkpoints/step-000000008.safetensors", "split.json")
    for path in (out / name for name in names):
        if path.parent.is_dir():
            path.with_name(f".{path.name}.{chance.randbytes(4).hex()}").write_bytes(chance.randbytes(100))
    return ""


MEANINGS = """\
- Lost: the run does not finish.
- Mismatch: a file of the finished run differs from that of the undisturbed run, bit for bit, is missing or is left over.
- Unclean: a traceback, an unexpected exit code, nothing said about damage or how to resume, or a step lost after a signal."""


class Row(NamedTuple):
    """A kind of fault, and the runs each of its faults is injected into.

    Attributes:
        rounds: repetitions per round that is asked for.
        times: strikes per run; by default 1 to 3.
    """

    name: str
    cases: Sequence[Case]
    faults: Sequence[Fault]
    rounds: int = 1
    times: int | None = None


def make_rows(folder: Path, quick: bool, endurance: Endurance) -> list[Row]:
    """List all kinds of fault; with --quick, the same ones in fewer runs."""
    (table, files), several = own_data(folder), 1 if quick else 6
    names = ("softmatch", "comatch", "crest", "darp+flexmatch") if quick else (*METHODS, *WRAPPED)
    methods = [Case(name, "digits", {**DIGITS, "method": name, "method_options": OPTIONS.get(name, {})}) for name in names]
    some = methods[:1] if quick else methods
    others = [TWIN, table, files] if quick else [*VARIANTS, table, files]
    each_write = [at_write(number) for number in range(1, endurance.reference(MOONS)[0].writes + 1, 16 if quick else 1)]
    signals = ", ".join(stopping.SIGNALS)
    return [
        Row("kill −9 at a random step, every method", methods, [at_a("steps", SIGKILL)]),
        Row("kill −9 at a random moment, every method", some, [at_a_moment(SIGKILL)]),
        Row("kill −9 at a random moment, other settings and data", others, [at_a_moment(SIGKILL)], several),
        Row("kill −9 in place of each flush to the disk", [MOONS], each_write, times=1),
        Row("kill −9 in place of a random flush, cross-fit", [table], [at_a("writes", SIGKILL)], several),
        Row(f"signal ({signals}) at a random step, every method", some, [at_a("steps", *SIGNALS)]),
        Row("signal at a random moment", [MOONS, TWIN, table, files], [at_a_moment(*SIGNALS)], several),
        Row("signal in place of a flush to the disk", [MOONS, table], [at_a("writes", *SIGNALS)], several),
        Row("signal, and kill −9 within 0.2 s", [MOONS, table], [at_a_moment(*SIGNALS, patience=0.2)], several),
        Row("newest checkpoint cut, changed or emptied", [MOONS, TWIN, table], [damaged(damage_checkpoint)], several),
        Row("outcome of a trained part cut, changed or emptied", [MOONS, table], [damaged(damage_outcome)], several),
        Row("metrics torn, cut or deleted", [MOONS, table], [damaged(damage_metrics)], several),
        Row("temporary files left behind", [MOONS], [damaged(leave_files)], several),
        Row("launcher of --processes 2 killed −9 at a random moment", [TWO], [at_a_moment(SIGKILL)], several),
        Row("signal to --processes 2 at a random moment", [TWO], [at_a_moment(*SIGNALS)], several),
        Row("no room on the disk from a random step on", [MOONS, TWIN, table], [Fault(no_room)], several),
    ]


def inject(endurance: Endurance, row: Row, rounds: int) -> Tally:
    tally = Tally()
    for fault in list(row.faults) * rounds * row.rounds:
        for case in row.cases:
            started = time.perf_counter()
            endurance.endure(case, fault, tally, row.times)
            taken = f"run {tally.runs}, {time.perf_counter() - started:.1f} s, {tally.faults} faults so far"
            print(f"{row.name}: {case.name}, {taken}", file=sys.stderr, flush=True)
    return tally


def table(tallies: Mapping[str, Tally]) -> str:
    rows = [(name, each.runs, each.faults, each.lost, each.mismatches, each.unclean) for name, each in tallies.items()]
    totals = [sum(numbers) for numbers in list(zip(*rows, strict=True))[1:]]
    lines = ["| fault | runs | faults injected | lost results | mismatches | unclean ends |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in (*rows, ["all", *totals]))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1, help="repetitions of everything")
    parser.add_argument("--only", default="", help="only rows whose name contains this; writes no file")
    parser.add_argument("--quick", action="store_true", help="few runs; writes no file")
    parser.add_argument("--folder", type=Path, help="folder for the runs, where those that differ are kept (default: temporary)")
    options = parser.parse_args()
    warm_up()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="faults-") if options.folder is None else nullcontext(options.folder) as place:
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        endurance = Endurance(folder, Random(options.seed))
        rows = [row for row in make_rows(folder, options.quick, endurance) if options.only in row.name]
        tallies = {row.name: inject(endurance, row, options.rounds) for row in rows}
    problems = [f"- {name}: {problem}" for name, tally in tallies.items() for problem in tally.problems]
    page = (
        f"# Runs that are killed, stopped and damaged\n\n`python benchmarks/faults.py {shlex.join(sys.argv[1:])}`\n\n"
        "Each run is trained without faults and with them, in processes of one thread on a CPU; "
        f"torch {torch.__version__}, {(time.perf_counter() - started) / 60:.0f} minutes.\n\n{MEANINGS}\n\n"
    )
    page += "\n\n".join([table(tallies), *problems]) + "\n"
    print(page)
    if not options.quick and not options.only:
        RESULTS.write_text(page, encoding="utf-8")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
