"""Sound inputs, and how softmatch reads them: settings, command lines, tables, images, run folders and checkpoints."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import fuzz_mutations as damage
import numpy as np
import torch
from PIL import Image
from tiny_data import NUMBERS, texts, write_photos

import softmatch
from softmatch.cli import main
from softmatch.config import make_config, read_file, write_config
from softmatch.data.own.reading import Reading, read_own
from softmatch.data.split import Split
from softmatch.errors import InputError, SoftmatchError
from softmatch.report import write_report
from softmatch.runs import RunFolder, load_model
from softmatch.training.checked_files import read_checked, read_notes, read_tensors, write_checked
from softmatch.training.checkpoint import load_checkpoint, newest_good
from softmatch.training.resuming import reopen

WORK = (
    *("softmatch.cli_training.run_job", "softmatch.cli_training.plan", "softmatch.training.bench.plan"),
    *("softmatch.training.bench.bench", "softmatch.training.launching.launch", "softmatch.using.exporting.export"),
)
"""What commands do once they have read their arguments."""
COMMANDS = (
    "train t.csv --steps 5 --labels 4 --method fixmatch --method-options.threshold 0.9 --views.swap 0.1 --dry-run",
    "train digits --labels 40 --lr 0.1 --optimizer adam --no-twin --out x --seed 3 --split-seed 4",
    "train -c s.yaml --test t.csv --evaluation holdout --folds 3 --device cpu --threads 1",
    "train two-moons --imbalance 10 --unlabeled-imbalance -5 --head-labels 9 --head-unlabeled 90",
    "train --resume run --checkpoint-every 5 --processes 1",
    "check t.csv --label label --features width,height --unlabeled none --model mlp-8",
    "check photos --image-size 16 --model small-conv-4 --labeled-batch 4 --precision bf16",
    "bench --side 8 --channels 1 --classes 3 --images 50 --repeats 1 --json --model mlp",
    "methods flexmatch",
    "report run",
    "predict run t.csv --no-probabilities --rows 7 --device cpu",
    "pseudo-labels run --order certain --source t.csv",
    "suggest t.csv --number 3 --label label --seed 2",
    "export run --to safetensors",
)
STRUCTURED: dict[str, damage.Mutation] = {
    **dict.fromkeys((".csv", ".tsv"), damage.mutate_table),
    ".json": damage.mutate_json,
    ".jsonl": damage.mutate_json_lines,
    ".npz": damage.mutate_archive,
    ".safetensors": damage.mutate_tensor_header,
    ".yaml": damage.mutate_yaml,
}
"""Ways to damage a file that leave its format intact."""


def mutations(name: str) -> tuple[damage.Mutation, ...]:
    """List the ways to damage the file with this name."""
    structured = STRUCTURED.get(Path(name).suffix, damage.mutate_bytes)
    return damage.mutate_bytes, structured, structured


@dataclass(frozen=True)
class Reader:
    """Sound inputs, ways to damage them, and what reads them.

    Attributes:
        share: this reader's part of all inputs, relative to the other readers.
        read: raises InputError if it refuses the input; anything else it raises is a bug.
    """

    share: int
    corpus: Sequence[bytes]
    mutations: Sequence[damage.Mutation]
    read: Callable[[bytes], object]

    def make(self, random: Random) -> bytes:
        """Make one damaged input."""
        content = random.choice(self.corpus)
        for _ in range(random.choice((1, 1, 2))):
            with contextlib.suppress(Exception):  # a second mutation may be unable to read the result of the first
                content = random.choice(self.mutations)(random, content, self.corpus)
        return content


class _Reached(Exception):  # noqa: N818  # an event
    """The command line was understood, and its work begins."""


def make_readers(folder: Path) -> dict[str, Reader]:
    """Make all readers, and the files they need in a folder."""
    photos = [write_photos(folder / name, labeled=8, side=9) for name in ("photos", "damaged")]
    run, unfinished = _make_run(folder)
    files, states = _files(run), _files(unfinished, ".safetensors")
    commands = [line.encode().replace(b" ", b"\0") for line in COMMANDS]
    messages = texts(16, labeled=9)
    csvs = [NUMBERS.encode(), messages.encode(), NUMBERS.replace(",", ";").encode("utf-8-sig")]
    tsvs = [NUMBERS.replace(",", "\t").encode(), messages.replace(",", "\t").encode("utf-16")]
    rows = [{"text": f"my {('card', 'parcel')[k % 2]} of day {k}", "label": ("a", "b", None)[k % 3], "n": k} for k in range(9)]
    points = [{"x": k / 3, "y": k % 5, "kind": None if k % 4 == 0 else "uv"[k % 2], "label": k % 2} for k in range(12)]

    def table(share: int, name: str, corpus: Sequence[bytes]) -> Reader:
        return Reader(share, corpus, mutations(name), partial(_read_table, folder / name))

    return {
        "settings": Reader(30, _settings(folder), mutations("s.yaml"), partial(_read_settings, folder / "settings.yaml")),
        "command line": Reader(5, commands, (damage.mutate_words,), partial(_read_command, folder, run)),
        "csv": table(26, "t.csv", csvs),
        "csv.gz": table(3, "t.csv.gz", [gzip.compress(text, mtime=0) for text in csvs]),
        "tsv": table(3, "t.tsv", tsvs),
        "jsonl": table(10, "t.jsonl", ["\n".join(map(json.dumps, each)).encode() for each in (rows, points)]),
        "json": table(4, "t.json", [json.dumps(each).encode() for each in (rows, points)]),
        "npz": table(10, "t.npz", _archives()),
        "image": Reader(4, _images(), (damage.mutate_bytes,), partial(_read_image, photos[1])),
        "run folder": Reader(4, files, (_mutate_file,), partial(_read_run, run, folder / "scratch")),
        "checkpoint": Reader(40, states, (_mutate_file,), partial(_read_checkpoint, folder / "checkpoint")),
        "resumed run": Reader(1, states, (partial(_mutate_state, folder),), partial(_resume, unfinished, folder / "resumed")),
    }


def _settings(folder: Path) -> list[bytes]:
    whole = make_config({"labels": 40, "method_options": {"k": 3}, "views": {"names": ["rotate"], "pad": 2}, "out": "runs/x"})
    write_config(folder / "whole.yaml", "digits", whole)
    short = b"source: t.csv\nlabel: kind\nsteps: 100\nmethod: saw+softmatch\nmethod_options: {base_options: {k: 2.5}}\nlr: 1e-3\n"
    return [(folder / "whole.yaml").read_bytes(), short, b"recipe: paper\nlabels: 40\nviews:\n  cutout: 0.3\n  flip: no\n"]


def _read_settings(path: Path, content: bytes) -> None:
    """Read settings; what is accepted is written, and must be read again as the same."""
    path.write_bytes(content)
    layer = read_file(path)
    source = layer.pop("source", None)
    config = make_config(layer, where=str(path))
    write_config(path, str(source), config)
    again = read_file(path)
    assert again.pop("source") == str(source)
    assert make_config(again).model_dump_json() == config.model_dump_json()  # where NaN equals itself


def _read_command(folder: Path, run: Path, content: bytes) -> None:
    """Do all of a command except its work: read its arguments and the files they name. Its output must be printable."""
    place = folder / "here"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place / "run")
    shutil.copytree(folder / "photos", place / "photos")
    (place / "t.csv").write_text(NUMBERS)
    (place / "s.yaml").write_text("source: t.csv\nsteps: 3\n")
    words = [os.fsdecode(word) for word in content.split(b"\0")]
    output, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.ExitStack() as stack:
        for name in (*WORK, "socket.getaddrinfo"):
            stack.enter_context(patch(name, side_effect=_Reached))
        stack.enter_context(contextlib.chdir(place))
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(errors))
        stack.enter_context(contextlib.suppress(_Reached))
        if main(words):
            raise InputError(errors.getvalue())


def _read_table(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    read_own(str(path), Reading())


def _archive(**arrays: Any) -> bytes:
    np.savez(out := io.BytesIO(), **arrays)
    return out.getvalue()


def _archives() -> list[bytes]:
    points, few = np.arange(40.0).reshape(20, 2) % 7, np.array(list("abababab"))
    return [
        _archive(x=points, y=np.array([0, 1, -1, -1] * 5)),
        _archive(x_train=points[:8], y_train=few, x_unlabeled=points, x_test=points[:4], y_test=few[:4]),
        _archive(images=np.zeros((6, 8, 8)), labels=np.array([0.0, 1.0, np.nan] * 2)),
    ]


def _images() -> list[bytes]:
    found, pixels = [], np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    for kind in ("PNG RGB", "PNG P", "JPEG RGB", "GIF P", "BMP RGB", "TIFF L", "WEBP RGB"):
        out, (name, mode) = io.BytesIO(), kind.split()
        with contextlib.suppress(OSError, KeyError):  # a Pillow without this format
            Image.fromarray(pixels).convert(mode).save(out, name)
            found.append(out.getvalue())
    return found


def _read_image(folder: Path, content: bytes) -> None:
    (folder / "cat" / "damaged.png").write_bytes(content)
    read_own(str(folder), Reading())


def _make_run(folder: Path) -> tuple[Path, Path]:
    """Train a run with everything a run folder may hold; returns it finished and a moment before it was finished."""
    table, run, unfinished = folder / "data.csv", folder / "run", folder / "unfinished"
    table.write_text(NUMBERS)
    settings: dict[str, Any] = {
        "features": "width,height",
        "steps": 2,
        "model": "mlp-4",
        "evaluate_every": 1,
        "threads": 1,
        "unlabeled_batch": 8,
    }
    with patch.object(RunFolder, "finish"):
        softmatch.train(str(table), **settings, evaluation="crossfit", folds=2, out=run)
    shutil.copytree(run, unfinished, ignore=shutil.ignore_patterns("result.json", "report.html"))
    RunFolder(run).finish()
    return run, unfinished


def _files(run: Path, suffix: str = "") -> list[bytes]:
    """List the files of a run, each as its path in the run folder, a line end, and what it holds."""
    paths = [path for path in sorted(run.rglob(f"*{suffix}")) if path.is_file() and path.stat().st_size]
    return [_join(str(path.relative_to(run)), path.read_bytes()) for path in paths if path.name != "report.html"]


def _join(name: str, inside: bytes) -> bytes:
    return name.encode() + b"\n" + inside


def _split(content: bytes) -> tuple[str, bytes]:
    name, _, inside = content.partition(b"\n")
    return name.decode(), inside


def _put(run: Path, scratch: Path, content: bytes) -> Path:
    """Copy the run and replace the file in the copy."""
    name, inside = _split(content)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(run, scratch)
    (scratch / name).write_bytes(inside)
    return scratch / name


def _mutate_file(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    name, inside = _split(content)
    return _join(name, random.choice(mutations(name))(random, inside, others))


def _read_run(run: Path, scratch: Path, content: bytes) -> None:
    """Do everything that is done with a finished run, even where one part refuses it."""
    _put(run, scratch, content)

    def predict() -> None:
        model = load_model(scratch)
        model.predict_proba(torch.zeros(2, *model.shape, dtype=torch.uint8 if model.views.kind == "image" else torch.float32))

    def resume() -> None:
        (scratch / "report.html").unlink()
        reopen(scratch)

    folder, refused = RunFolder(scratch), []
    split = lambda: Split.from_dict(folder.read_json("split.json") or {})  # noqa: E731
    for work in (predict, lambda: write_report(folder), split, resume):
        try:
            work()
        except InputError as error:
            refused.append(str(error))
    if refused:
        raise InputError("; ".join(refused))


def _read_checkpoint(folder: Path, content: bytes) -> None:
    name, inside = _split(content)
    path = folder / Path(name).name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path.write_bytes(inside)
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


def _mutate_state(folder: Path, random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Make a state with a correct checksum that this run would never have written."""
    name, inside = _split(content)
    path = folder / "state.safetensors"
    path.write_bytes(inside)
    tensors, notes = read_checked(path)
    if random.random() < 0.4:
        notes = damage.mutate_value(random, notes)
    else:
        value = tensors.pop(key := random.choice(sorted(tensors)))
        dtype = random.choice((torch.float64, torch.int32, torch.bool, torch.bfloat16, torch.uint8))
        whole = value[None], value.to(dtype), torch.full_like(value, random.randrange(99)), value.flatten()[: random.randrange(3)]
        tensors |= random.choice(({}, {str(random.choice(damage.VALUES)): value}, *({key: changed} for changed in whole)))
    write_checked(path, tensors, notes if isinstance(notes, dict) else {})
    return _join(name, path.read_bytes())


def _resume(unfinished: Path, scratch: Path, content: bytes) -> None:
    """Resume from there, to the end. A state that training cannot use stops it with an error of its own."""
    path = _put(unfinished, scratch, content)
    if path.parent.name == "checkpoints":  # otherwise it would not be read
        path.parent.with_name("outcome.safetensors").unlink()
    try:
        softmatch.train(resume=scratch)
    except SoftmatchError as error:
        raise InputError(str(error)) from error
