"""Is a run ever lost? Processes that train are killed, stopped and damaged at random, and their runs go on until they end.

    python benchmarks/faults.py                       # about a quarter of an hour on one core
    python benchmarks/faults.py --quick               # about a minute; writes no file
    python benchmarks/faults.py --only signal --rounds 10 --seed 3

Each run is trained once without faults and then with them: every time its process has ended, `softmatch train --resume auto`
goes on. In the end its files must be those of the undisturbed run, bit for bit: models, metrics, last checkpoints and predictions
of the run, of its twin and of all folds, and result.json but for the seconds. Exit code 1 if any run is lost or differs.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from signal import SIGKILL, Signals
from typing import Any

import torch
from fault_injection import Case, Damage, Ended, Endurance, Fault, Strike, Tally, warm_up

from softmatch.methods import METHODS
from softmatch.training import stop as stopping
from softmatch.training.checkpoint import list_checkpoints

SIGNALS = tuple(Signals[name] for name in stopping.SIGNALS)
RESULTS = Path(__file__).parent / "results" / "faults.md"
TINY: dict[str, Any] = {
    "steps": 29,
    "evaluate_every": 7,
    "checkpoint_every": 4,
    "labeled_batch": 8,
    "unlabeled_batch": 16,
    "device": "cpu",
    "threads": 1,
}
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
"""With which every term of a method has set in after a few steps."""
WRAPPED = ("saw+softmatch", "abc+freematch", "influence+flexmatch", *(name for name in OPTIONS if "+" in name))


def of_method(name: str) -> Case:
    return Case(name, "digits", {**DIGITS, "method": name, "method_options": OPTIONS.get(name, {})})


def own_data(folder: Path) -> dict[str, Case]:
    """A table of which the error is measured by a cross-fit, and image files that other processes read."""
    from PIL import Image
    from sklearn.datasets import load_digits

    random = Random(0)
    with (folder / "table.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("width", "height", "label"))
        for number in range(80):
            side = number % 2
            table.writerow((*(random.gauss(3.0 * side, 1.0) for _ in range(2)), "ab"[side] if number < 20 else ""))
    digits = load_digits(n_class=2)
    for number, (pixels, digit) in enumerate(zip(digits.images[:150], digits.target, strict=False)):
        place = folder / ("tests" if number < 30 else "images") / (str(digit) if number < 60 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype("uint8")).resize((16, 16)).save(place / f"{number}.png")
    few = {**TINY, "steps": 11, "evaluate_every": 5, "checkpoint_every": 3}
    files = {
        **few,
        "workers": 2,
        "network": "small-conv-4",
        "baseline": False,
        "test": str(folder / "tests"),
        "batch_statistics": "joint",
    }
    return {
        "cross-fit": Case("cross-fit", str(folder / "table.csv"), {**few, "evaluation": "crossfit", "folds": 2}),
        "image files": Case("image files", str(folder / "images"), files),
    }


VARIANTS = (
    Case("with a twin", "digits", {**DIGITS, "baseline": True, "steps": 17}),
    Case("batch normalisation", "digits", {**DIGITS, "network": "wrn-10-1"}),
    Case("batch normalisation, joint", "digits", {**DIGITS, "network": "wrn-10-1", "batch_statistics": "joint"}),
    Case("fp16", "digits", {**DIGITS, "network": "mlp", "precision": "fp16", "clip": 1.0, "optimizer": "adamw", "lr": 1.0}),
    Case("bf16", "digits", {**DIGITS, "precision": "bf16"}),
    Case("adam", "two-moons", {**TINY, "optimizer": "adam"}),
    Case("adamw, shrink", "two-moons", {**TINY, "optimizer": "adamw", "decay": "shrink", "baseline": False}),
    Case("averages as in the paper", "two-moons", {**TINY, "averages": "paper", "baseline": False}),
)
MOONS = Case("two-moons", "two-moons", TINY)


def at_a_step(*signals: int) -> Fault:
    return Fault(lambda chance, reference: Strike(chance.choice(signals), count=chance.randint(1, reference.steps)))


def at_a_moment(*signals: int, patience: float | None = None) -> Fault:
    """Struck from outside; within `patience` seconds after that, at random, it is killed."""

    def strike(chance: Random, reference: Ended) -> Strike:
        seconds, left = chance.uniform(0.0, reference.seconds), None if patience is None else chance.uniform(0.0, patience)
        return Strike(chance.choice(signals), seconds=seconds, patience=left)

    return Fault(strike)


def at_a_write(*signals: int) -> Fault:
    return Fault(lambda chance, reference: Strike(chance.choice(signals), count=chance.randint(1, reference.writes), of="writes"))


def at_each_write(reference: Ended, stride: int) -> list[Fault]:
    def at(number: int) -> Fault:
        return Fault(lambda chance, reference: Strike(SIGKILL, count=number, of="writes"))

    return [at(number) for number in range(1, reference.writes + 1, stride)]


def late(damage: Damage) -> Fault:
    """Killed when there is something to damage."""
    return Fault(lambda chance, reference: Strike(SIGKILL, count=chance.randint(5, reference.steps)), damage)


def no_room(chance: Random, reference: Ended) -> Strike:
    size = chance.choice((0, 100, 1000, 10_000, 30_000))
    return Strike(file_size=size, count=chance.randint(1, reference.steps))


def _networks(out: Path) -> Iterator[Path]:
    """Folders of networks that are trained or under way."""
    yield from (path.parent for path in sorted(out.rglob("checkpoints")))


def damage_checkpoint(chance: Random, out: Path) -> str | None:
    """Cut short, change a byte of, or empty the newest; sometimes all there are."""
    under_way = [folder for folder in _networks(out) if not (folder / "outcome.safetensors").exists()]
    saved = [path for folder in under_way for path in list_checkpoints(folder / "checkpoints")]
    for path in saved[-chance.choice((1, 1, 1, 9)) :]:
        _spoil(chance, path)
    return "is damaged" if saved else None


def damage_outcome(chance: Random, out: Path) -> str | None:
    found = sorted(out.rglob("outcome.safetensors"))
    if not found:
        return None
    _spoil(chance, chance.choice(found))
    return "is damaged"


def _spoil(chance: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    way = chance.choice(("cut", "change", "empty"))
    if way == "change":
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content if way == "change" else content[: chance.randrange(len(content)) if way == "cut" else 0])


def damage_metrics(chance: Random, out: Path) -> str | None:
    """Tear the last line, cut the file anywhere, or delete it."""
    found = sorted(out.rglob("metrics.jsonl"))
    if not found:
        return None
    path, way = chance.choice(found), chance.choice(("tear", "cut", "delete"))
    if way == "delete":
        path.unlink()
        return ""
    content = path.read_bytes()
    path.write_bytes(content + b'{"step": 9, "los' if way == "tear" else content[: chance.randrange(len(content) + 1)])
    return ""


def leave_files(chance: Random, out: Path) -> str | None:
    """As processes do that were killed while they wrote."""
    names = ("result.json", "metrics.jsonl", "model/model.safetensors", "checkpoints/step-000000008.safetensors", "split.json")
    for name in names:
        path = out / name
        if path.parent.is_dir():
            path.with_name(f".{path.name}.{chance.randbytes(4).hex()}").write_bytes(chance.randbytes(100))
    return ""


@dataclass(frozen=True)
class Row:
    """A kind of fault, and the runs that it is injected into.

    Attributes:
        faults: each is injected into each of the runs.
        rounds: how often, for each of the rounds that are asked for.
        times: how often each run is struck; by default once to three times.
    """

    name: str
    cases: Sequence[Case]
    faults: Sequence[Fault]
    rounds: int = 1
    times: int | None = None


def make_rows(folder: Path, quick: bool, endurance: Endurance) -> list[Row]:
    """All kinds of fault. Those of --quick are the same in fewer runs."""
    own, several = own_data(folder), 1 if quick else 6
    table, files, twin = own["cross-fit"], own["image files"], VARIANTS[0]
    few = ("softmatch", "comatch", "crest", "darp+flexmatch")
    methods = [of_method(name) for name in (few if quick else (*METHODS, *WRAPPED))]
    others = [twin, table, files] if quick else [*VARIANTS, table, files]
    each_write = at_each_write(endurance.reference(MOONS)[0], 16 if quick else 1)
    return [
        Row("kill −9 at a random step, every method", methods, [at_a_step(SIGKILL)]),
        Row("kill −9 at a random moment, every method", methods[:1] if quick else methods, [at_a_moment(SIGKILL)]),
        Row("kill −9 at a random moment, other settings and data", others, [at_a_moment(SIGKILL)], several),
        Row("kill −9 in place of each flush to the disk", [MOONS], each_write, times=1),
        Row("kill −9 in place of a random flush, cross-fit", [table], [at_a_write(SIGKILL)], several),
        Row(
            f"signal ({', '.join(stopping.SIGNALS)}) at a random step, every method",
            methods[:1] if quick else methods,
            [at_a_step(*SIGNALS)],
        ),
        Row("signal at a random moment", [MOONS, twin, table, files], [at_a_moment(*SIGNALS)], several),
        Row("signal in place of a flush to the disk", [MOONS, table], [at_a_write(*SIGNALS)], several),
        Row("signal, and kill −9 within 0.2 s", [MOONS, table], [at_a_moment(*SIGNALS, patience=0.2)], several),
        Row("newest checkpoint cut, changed or emptied", [MOONS, twin, table], [late(damage_checkpoint)], several),
        Row("outcome of a trained part cut, changed or emptied", [MOONS, table], [late(damage_outcome)], several),
        Row("metrics torn, cut or deleted", [MOONS, table], [late(damage_metrics)], several),
        Row("temporary files left behind", [MOONS], [late(leave_files)], several),
        Row("no room on the disk from a random step on", [MOONS, twin, table], [Fault(no_room)], several),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1, help="how often everything is gone through")
    parser.add_argument("--only", default="", help="rows whose name has this in it; writes no file")
    parser.add_argument("--quick", action="store_true", help="few runs; writes no file")
    parser.add_argument("--folder", type=Path, help="where to leave the runs that differ; else they are deleted")
    options = parser.parse_args()
    warm_up()
    started, tallies = time.perf_counter(), dict[str, Tally]()
    with tempfile.TemporaryDirectory(prefix="faults-") if options.folder is None else nullcontext(options.folder) as place:
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        endurance = Endurance(folder, Random(options.seed))
        for row in make_rows(folder, options.quick, endurance):
            if options.only in row.name:
                tallies[row.name] = go_through(endurance, row, options.rounds)
    page = as_page(tallies, options.rounds, options.seed, time.perf_counter() - started)
    print(page)
    if not options.quick and not options.only:
        RESULTS.write_text(page, encoding="utf-8")
    return int(any(tally.problems for tally in tallies.values()))


def go_through(endurance: Endurance, row: Row, rounds: int) -> Tally:
    tally = Tally()
    for _ in range(rounds * row.rounds):
        for fault in row.faults:
            for case in row.cases:
                known, started = len(tally.problems), time.perf_counter()
                endurance.endure(case, fault, tally, row.times)
                taken = f"run {tally.runs}, {time.perf_counter() - started:.1f} s, {tally.faults} faults so far"
                print(f"{row.name}: {case.name}, {taken}", file=sys.stderr, flush=True)
                for problem in tally.problems[known:]:
                    print(f"  PROBLEM {problem}", file=sys.stderr, flush=True)
    return tally


def as_page(tallies: Mapping[str, Tally], rounds: int, seed: int, seconds: float) -> str:
    """What was done, the table, and every problem."""
    rows = [(name, each.runs, each.faults, each.lost, each.mismatches, each.unclean) for name, each in tallies.items()]
    total = ("all", *(sum(row[column] for row in rows) for column in range(1, 6)))  # type: ignore[misc]  # numbers from 1 on
    lines = [
        "# Runs that are killed, stopped and damaged",
        "",
        f"`python benchmarks/faults.py --rounds {rounds} --seed {seed}`",
        "",
        f"Each run is trained without faults and with them, in processes of one thread on a CPU; torch {torch.__version__}, "
        f"{seconds / 60:.0f} minutes.",
        "",
        "- Lost: it does not come to its end.",
        "- Mismatch: a file of the finished run is not, bit for bit, that of the undisturbed one (models, metrics, last "
        "checkpoints, predictions, result.json but for the seconds; of the run, its twin and folds), or there is one too many.",
        "- Unclean: a traceback, an exit code that does not fit, nothing said about damage or how to go on, or a step "
        "lost although a signal asked for it to be saved.",
        "",
        "| fault | runs | faults injected | lost results | mismatches | unclean ends |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(map(str, row))} |" for row in (*rows, total)),
    ]
    problems = [f"- {name}: {problem}" for name, tally in tallies.items() for problem in tally.problems]
    return "\n".join([*lines, *([""] if problems else []), *problems]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
