"""Run folders and checkpoints: a run that is right, ways to damage its files, and everything that is done with them.

An input is bytes: the path of the damaged file in the run folder, a line end, and what the file holds.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

import torch
from fuzz_files import NUMBERS
from fuzz_mutations import (
    VALUES,
    Mutation,
    Reader,
    mutate_bytes,
    mutate_json,
    mutate_json_lines,
    mutate_table,
    mutate_tensor_header,
    mutate_value,
    mutate_yaml,
)

import softmatch
from softmatch.data.split import Split
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.tensors import read_checked, read_notes, read_tensors, write_checked
from softmatch.report import write_report
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.checkpoint import load_checkpoint, newest_good
from softmatch.training.resume import reopen

KINDS = (torch.float64, torch.int32, torch.bool, torch.bfloat16, torch.uint8)
BY_SUFFIX: dict[str, Sequence[Mutation]] = {
    ".json": (mutate_bytes, mutate_json, mutate_json, mutate_json),
    ".jsonl": (mutate_bytes, mutate_json_lines, mutate_json_lines),
    ".yaml": (mutate_bytes, mutate_yaml, mutate_yaml),
    ".csv": (mutate_bytes, mutate_table),
    ".safetensors": (mutate_bytes, mutate_tensor_header, mutate_tensor_header),
}


def make_run(folder: Path) -> tuple[Path, Path]:
    """A finished run with everything that a run folder may hold, and the same run a moment before it was finished."""
    table, run, unfinished = folder / "data.csv", folder / "run", folder / "unfinished"
    table.write_text(NUMBERS)
    with patch.object(RunFolder, "finish"):
        softmatch.train(
            str(table),
            feature_columns="width,height",
            steps=2,
            network="mlp-4",
            evaluate_every=1,
            threads=1,
            evaluation="crossfit",
            folds=2,
            unlabeled_batch=8,
            out=run,
        )
    shutil.copytree(run, unfinished)
    for name in ("result.json", "report.html"):
        (unfinished / name).unlink()
    RunFolder(run).finish()
    return run, unfinished


def run_readers(folder: Path, run: Path, unfinished: Path) -> dict[str, Reader]:
    """Readers of run folders."""
    states = _files(unfinished, ".safetensors")
    return {
        "run folder": Reader(4, _files(run), (_mutate_file,), partial(_read_run, run, folder / "scratch")),
        "checkpoint": Reader(40, states, (_mutate_file,), partial(_read_checkpoint, folder / "checkpoint")),
        "resumed run": Reader(1, states, (partial(_mutate_state, folder),), partial(_resume, unfinished, folder / "resumed")),
    }


def _files(run: Path, suffix: str = "") -> list[bytes]:
    found = []
    for path in sorted(run.rglob(f"*{suffix}")):
        if path.is_file() and path.name != "report.html" and path.stat().st_size:
            found.append(str(path.relative_to(run)).encode() + b"\n" + path.read_bytes())
    return found


def _apart(content: bytes) -> tuple[str, bytes]:
    name, _, inside = content.partition(b"\n")
    return name.decode(), inside


def _put(run: Path, scratch: Path, content: bytes) -> None:
    """A copy of the run with this file in it."""
    name, inside = _apart(content)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(run, scratch)
    (scratch / name).write_bytes(inside)


def _mutate_file(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    name, inside = _apart(content)
    mutation = random.choice(BY_SUFFIX.get(Path(name).suffix, (mutate_bytes,)))
    return name.encode() + b"\n" + mutation(random, inside, others)


def _read_run(run: Path, scratch: Path, content: bytes) -> None:
    """Everything that is done with a finished run; each is tried, even where another refuses it."""
    _put(run, scratch, content)
    refused: list[str] = []

    def predict() -> None:
        model = load_model(scratch)
        model.predict_proba(torch.zeros(2, *model.shape, dtype=torch.uint8 if model.views.kind == "image" else torch.float32))

    def go_on() -> None:
        (scratch / "report.html").unlink()
        reopen(scratch)

    for work in (
        predict,
        lambda: write_report(RunFolder(scratch)),
        lambda: Split.from_dict(RunFolder(scratch).read_json("split.json") or {}),
        go_on,
    ):
        try:
            work()
        except InputError as error:
            refused.append(str(error))
    if refused:
        raise InputError("; ".join(refused))


def _read_checkpoint(folder: Path, content: bytes) -> None:
    name, inside = _apart(content)
    folder.mkdir(exist_ok=True)
    path = folder / Path(name).name
    path.write_bytes(inside)
    try:
        for read in (read_tensors, read_notes):
            with contextlib.suppress(InputError):
                read(path)
        if path.name.startswith("step-"):
            found, wrong = newest_good(folder)
            if found is None:
                raise InputError("; ".join(wrong))
            load_checkpoint(path)
        else:
            read_checked(path)
    finally:
        path.unlink()


def _mutate_state(folder: Path, random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A state whose checksum is right, and which is not what this run would have written."""
    name, inside = _apart(content)
    path = folder / "state.safetensors"
    path.write_bytes(inside)
    tensors, notes = read_checked(path)
    if random.random() < 0.4:
        notes = mutate_value(random, notes)
    else:
        key = random.choice(sorted(tensors))
        value, kind = tensors.pop(key), random.randrange(6)
        if kind == 0:
            tensors[str(random.choice(VALUES))] = value
        elif kind == 1:
            tensors[key] = value.reshape(-1)[: random.randrange(3)]
        elif kind == 2:
            tensors[key] = value.to(random.choice(KINDS))
        elif kind == 3:
            tensors[key] = torch.full_like(value, random.choice((0, 1, 2, 3, 100)))
        elif kind == 4:
            tensors[key] = value[None]
    write_checked(path, tensors, notes if isinstance(notes, dict) else {})
    return name.encode() + b"\n" + path.read_bytes()


def _resume(unfinished: Path, scratch: Path, content: bytes) -> None:
    """Go on from there, to the end. A state that training cannot go on with stops it with an error of its own."""
    _put(unfinished, scratch, content)
    name = _apart(content)[0]
    if "checkpoints/" in name:  # or it would not be looked at
        (scratch / name).parent.parent.joinpath("outcome.safetensors").unlink()
    try:
        softmatch.train(resume=scratch)
    except SoftmatchError as error:
        raise InputError(str(error)) from error
