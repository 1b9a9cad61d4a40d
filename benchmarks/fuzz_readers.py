"""Sound files, and how softmatch reads them: settings, command lines, tables, images, run folders and checkpoints."""

import contextlib
import gzip
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from softmatch.cli.app import main
from softmatch.config import make_config, read_file, write_config
from softmatch.data.split import Split
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.tensors import read_checked, read_notes, read_tensors, write_checked
from softmatch.report import write_report
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.checkpoint import load_checkpoint, newest_good
from softmatch.training.resume import reopen

WORK = (
    *("softmatch.cli.running.run_job", "softmatch.cli.running.plan", "softmatch.training.bench.bench"),
    *("softmatch.distributed.launching.launch", "softmatch.inference.export.export"),
)
"""What commands do once they have read their arguments."""
COMMANDS = (
    "train t.csv --steps 5 --labels 4 --method fixmatch --method-options.threshold 0.9 --views.swap 0.1 --dry-run",
    "train digits --labels 40 --lr 0.1 --optimizer adam --no-baseline --out x --seed 3 --split-seed 4",
    "train -c s.yaml --test t.csv --evaluation holdout --folds 3 --device cpu --threads 1",
    "train two-moons --imbalance 10 --unlabeled-imbalance -5 --largest-class-labels 9 --largest-class-unlabeled 90",
    "train --resume run --checkpoint-every 5 --processes 1",
    "check t.csv --label-column label --feature-columns width,height --unlabeled none --network mlp-8",
    "check photos --image-size 16 --network small-conv-4 --labeled-batch 4 --precision bf16",
    "bench --side 8 --channels 1 --classes 3 --images 50 --repeats 1 --json --network mlp",
    "methods flexmatch",
    "report run",
    "predict run t.csv --no-probabilities --rows 7 --device cpu",
    "pseudo-labels run --order certain --source t.csv",
    "suggest t.csv --number 3 --label-column label --seed 2",
    "export run --to safetensors",
)
SETTINGS = (
    "source: t.csv\nlabel_column: kind\nsteps: 100\nmethod: saw+softmatch\nmethod_options: {base_options: {k: 2.5}}\nlr: 1e-3\n",
    "recipe: paper\nlabels: 40\nviews:\n  cutout: 0.3\n  flip: no\n",
)
STRUCTURED: dict[str, damage.Mutation] = {
    **dict.fromkeys((".csv", ".tsv"), damage.mutate_table),
    ".json": damage.mutate_json,
    ".jsonl": damage.mutate_json_lines,
    ".npz": damage.mutate_archive,
    ".safetensors": damage.mutate_tensor_header,
    ".words": damage.mutate_words,
    ".yaml": damage.mutate_yaml,
}
"""Ways to damage a file that leave its format intact."""


@dataclass(frozen=True)
class Reader:
    """Sound files, and what reads them. An input is the name of a file, a line end, and its damaged content.

    Attributes:
        share: this reader's part of all inputs, relative to the other readers.
        pattern: the files of `folder` that are damaged.
        read_file: reads the damaged file, which is in the folder for this time; raises InputError to refuse it.
        mutation: a way to damage the files other than by their format.
    """

    share: int
    folder: Path
    pattern: str
    read_file: Callable[[Path], object]
    mutation: damage.Mutation | None = None

    @cached_property
    def corpus(self) -> list[bytes]:
        files = [path for path in sorted(self.folder.glob(self.pattern)) if path.is_file() and path.stat().st_size]
        return [f"{path.relative_to(self.folder)}\n".encode() + path.read_bytes() for path in files]

    def make(self, random: Random) -> bytes:
        """Make one damaged input."""
        name, _, content = random.choice(self.corpus).partition(b"\n")
        structured = self.mutation or STRUCTURED.get(Path(name.decode()).suffix, damage.mutate_bytes)
        for _ in range(random.choice((1, 1, 2))):
            with contextlib.suppress(Exception):  # a second mutation may be unable to read the result of the first
                mutation = self.mutation or random.choice((damage.mutate_bytes, structured, structured))
                content = mutation(random, content, self.corpus)
        return name + b"\n" + content

    def read(self, content: bytes) -> None:
        name, _, inside = content.partition(b"\n")
        path = self.folder / name.decode()
        sound = path.read_bytes()
        path.write_bytes(inside)
        try:
            self.read_file(path)
        finally:
            path.write_bytes(sound)


def _copied(path: Path, top: str) -> tuple[Path, Path]:
    """Copy the folder `top` above a file; returns the copy and the file in it."""
    folder = next(each for each in path.parents if each.name == top)
    scratch = folder.with_name("scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(folder, scratch)
    return scratch, scratch / path.relative_to(folder)


def make_readers(folder: Path) -> dict[str, Reader]:
    """Make all readers, and their sound files in a folder."""
    tables, here, photos = _write_tables(folder / "tables"), folder / "here", write_photos(folder / "photos", labeled=8, side=9)
    for kind in ("PNG RGB", "PNG P", "JPEG RGB", "GIF P", "BMP RGB", "TIFF L", "WEBP RGB"):
        name, mode = kind.split()
        with contextlib.suppress(OSError, KeyError):  # a Pillow without this format
            Image.open(photos / "cat/0.png").convert(mode).save(photos / f"cat/{mode}.{name.lower()}")
    run, unfinished = _make_run(folder)
    shutil.copytree(run, here / "run")
    shutil.copytree(photos, here / "photos")
    (here / "t.csv").write_text(NUMBERS)
    (here / "s.yaml").write_text("source: t.csv\nsteps: 3\n")
    for number, line in enumerate(COMMANDS):
        (here / f"{number}.words").write_bytes(line.encode().replace(b" ", b"\0"))
    return {
        "settings": Reader(30, tables, "*.yaml", _read_settings),
        "command line": Reader(5, here, "*.words", _read_command),
        "csv": Reader(26, tables, "*.csv", _read_table),
        "csv.gz": Reader(3, tables, "*.gz", _read_table),
        "tsv": Reader(3, tables, "*.tsv", _read_table),
        "jsonl": Reader(10, tables, "*.jsonl", _read_table),
        "json": Reader(4, tables, "*.json", _read_table),
        "npz": Reader(10, tables, "*.npz", _read_table),
        "image": Reader(4, photos, "cat/[A-Z]*", lambda path: read_own(str(path.parents[1]), Reading())),
        "run folder": Reader(4, run, "**/*[!l]", _read_run),  # without report.html
        "checkpoint": Reader(40, unfinished, "**/*.safetensors", _read_checkpoint),
        "resumed run": Reader(1, unfinished, "**/*.safetensors", _resume, _mutate_state),
    }


def _write_tables(folder: Path) -> Path:
    folder.mkdir()
    csvs = {"numbers": NUMBERS, "texts": texts(16, labeled=9), "semicolons": "\ufeff" + NUMBERS.replace(",", ";")}
    for name, text in csvs.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        (folder / f"{name}.tsv").write_text(text.replace(",", "\t"), encoding="utf-16" if name == "texts" else "utf-8")
    rows = [{"text": f"my {('card', 'parcel')[k % 2]} of day {k}", "label": ("a", "b", None)[k % 3], "n": k} for k in range(9)]
    points = [{"x": k / 3, "y": k % 5, "kind": None if k % 4 == 0 else "uv"[k % 2], "label": k % 2} for k in range(12)]
    for name, values in (("rows", rows), ("points", points)):
        (folder / f"{name}.json").write_text(json.dumps(values))
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, values)))
    array, few = np.arange(40.0).reshape(20, 2) % 7, np.array(list("abababab"))
    np.savez(folder / "a.npz", x=array, y=np.array([0, 1, -1, -1] * 5))
    np.savez(folder / "b.npz", x_train=array[:8], y_train=few, x_unlabeled=array, x_test=array[:4], y_test=few[:4])
    np.savez(folder / "c.npz", images=np.zeros((6, 8, 8)), labels=np.array([0.0, 1.0, np.nan] * 2))
    whole = make_config({"labels": 40, "method_options": {"k": 3}, "views": {"names": ["rotate"], "pad": 2}, "out": "runs/x"})
    write_config(folder / "whole.yaml", "digits", whole)
    for number, text in enumerate(SETTINGS):
        (folder / f"{number}.yaml").write_text(text)
    return folder


def _make_run(folder: Path) -> tuple[Path, Path]:
    """Train a run with everything a run folder may hold; returns it finished and a moment before it was finished."""
    table, run, unfinished = folder / "data.csv", folder / "run", folder / "unfinished"
    table.write_text(NUMBERS)
    settings: dict[str, Any] = {"feature_columns": "width,height", "steps": 2, "network": "mlp-4", "evaluate_every": 1}
    with patch.object(RunFolder, "finish"):
        softmatch.train(str(table), **settings, threads=1, unlabeled_batch=8, evaluation="crossfit", folds=2, out=run)
    shutil.copytree(run, unfinished, ignore=shutil.ignore_patterns("result.json", "report.html"))
    RunFolder(run).finish()
    return run, unfinished


def _read_settings(path: Path) -> None:
    """Read settings; accepted ones are written, and must be read again as the same."""
    layer = read_file(path)
    source = layer.pop("source", None)
    config = make_config(layer, where=str(path))
    write_config(path, str(source), config)
    again = read_file(path)
    assert again.pop("source") == str(source)
    assert make_config(again).model_dump_json() == config.model_dump_json()  # where NaN equals itself


def _read_command(path: Path) -> None:
    """Do all of a command except its work: read its arguments and the files they name. Its output must be printable."""
    words = [os.fsdecode(word) for word in path.read_bytes().split(b"\0")]
    output, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()

    class Reached(Exception):  # noqa: N818  # an event
        """The command line was understood, and its work begins."""

    with contextlib.ExitStack() as stack:
        for name in (*WORK, "socket.getaddrinfo"):
            stack.enter_context(patch(name, side_effect=Reached))
        stack.enter_context(contextlib.chdir(_copied(path, "here")[0]))
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(errors))
        stack.enter_context(contextlib.suppress(Reached))
        if main(words):
            raise InputError(errors.getvalue())


def _read_table(path: Path) -> None:
    read_own(str(path), Reading())


def _read_run(path: Path) -> None:
    """Do everything that is done with a finished run, even where one part refuses it."""
    top, _ = _copied(path, "run")
    folder, refused = RunFolder(top), []

    def predict() -> None:
        model = load_model(top)
        model.predict_proba(torch.zeros(2, *model.shape, dtype=torch.uint8 if model.views.kind == "image" else torch.float32))

    def resume() -> None:
        (top / "report.html").unlink()
        reopen(top)

    for work in (predict, lambda: write_report(folder), lambda: Split.from_dict(folder.read_json("split.json") or {}), resume):
        try:
            work()
        except InputError as error:
            refused.append(str(error))
    if refused:
        raise InputError("; ".join(refused))


def _read_checkpoint(path: Path) -> None:
    for read in (read_tensors, read_notes):
        with contextlib.suppress(InputError):
            read(path)
    if not path.name.startswith("step-"):
        read_checked(path)
        return
    with tempfile.TemporaryDirectory(dir=path.parents[1]) as folder:
        shutil.copy(path, folder)
        found, wrong = newest_good(Path(folder))
        if found is None:
            raise InputError("; ".join(wrong))
        load_checkpoint(path)


def _mutate_state(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Make a state with a correct checksum that this run would never have written."""
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        path = Path(file.name)
        path.write_bytes(content)
        tensors, notes = read_checked(path)
        if random.random() < 0.4:
            notes = damage.mutate_value(random, notes)
        else:
            value = tensors.pop(key := random.choice(sorted(tensors)))
            dtype = random.choice((torch.float64, torch.int32, torch.bool, torch.bfloat16, torch.uint8))
            same = torch.full_like(value, random.randrange(99))
            changed = value[None], value.to(dtype), same, value.flatten()[: random.randrange(3)]
            tensors |= random.choice(({}, {str(random.choice(damage.VALUES)): value}, *({key: each} for each in changed)))
        write_checked(path, tensors, notes if isinstance(notes, dict) else {})
        return path.read_bytes()


def _resume(path: Path) -> None:
    """Resume from there, to the end. A state that training cannot use stops it with an error of its own."""
    top, path = _copied(path, "unfinished")
    if path.parent.name == "checkpoints":  # otherwise it would not be read
        path.parent.with_name("outcome.safetensors").unlink()
    try:
        softmatch.train(resume=top)
    except SoftmatchError as error:
        raise InputError(str(error)) from error
