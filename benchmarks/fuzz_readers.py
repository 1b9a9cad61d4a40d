"""Sound files, and how softmatch reads them: settings, tables, images, run folders and checkpoints."""

import contextlib
import gzip
import json
import shutil
from collections.abc import Callable
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
from softmatch.config import make_config, read_file, write_config
from softmatch.data.split import Split
from softmatch.data.understanding import Reading, read_own
from softmatch.errors import InputError
from softmatch.files.tensors import read_checked, read_notes, read_tensors
from softmatch.report import write_report
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.checkpoint import load_checkpoint
from softmatch.training.resume import reopen

SETTINGS = (
    "source: t.csv\nlabel_column: kind\nsteps: 100\nmethod: saw+softmatch\nmethod_options: {base_options: {k: 2.5}}\nlr: 1e-3\n",
    "recipe: paper\nlabels: 40\nviews:\n  cutout: 0.3\n  flip: no\n",
)
TABLES = {"csv": 26, "csv.gz": 3, "tsv": 3, "jsonl": 10, "json": 4, "npz": 10}
"""Kinds of tables, with their shares of the inputs."""
STRUCTURED: dict[str, damage.Mutation] = {
    **dict.fromkeys((".csv", ".tsv"), damage.mutate_table),
    ".json": damage.mutate_json,
    ".jsonl": damage.mutate_json_lines,
    ".npz": damage.mutate_archive,
    ".safetensors": damage.mutate_tensor_header,
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
    """

    share: int
    folder: Path
    pattern: str
    read_file: Callable[[Path], object]

    @cached_property
    def corpus(self) -> list[bytes]:
        files = [path for path in sorted(self.folder.glob(self.pattern)) if path.is_file() and path.stat().st_size]
        return [f"{path.relative_to(self.folder)}\n".encode() + path.read_bytes() for path in files]

    def make(self, random: Random) -> bytes:
        """Make one damaged input."""
        name, _, content = random.choice(self.corpus).partition(b"\n")
        structured = STRUCTURED.get(Path(name.decode()).suffix, damage.mutate_bytes)
        for _ in range(random.choice((1, 1, 2))):
            with contextlib.suppress(Exception):  # a second mutation may be unable to read the result of the first
                content = random.choice((damage.mutate_bytes, structured, structured))(random, content, self.corpus)
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


def make_readers(folder: Path) -> dict[str, Reader]:
    """Make all readers, and their sound files in a folder."""
    tables, photos = _write_tables(folder / "tables"), write_photos(folder / "photos", labeled=8, side=9)
    for kind in ("PNG RGB", "PNG P", "JPEG RGB", "GIF P", "BMP RGB", "TIFF L", "WEBP RGB"):
        name, mode = kind.split()
        with contextlib.suppress(OSError, KeyError):  # a Pillow without this format
            Image.open(photos / "cat/0.png").convert(mode).save(photos / f"cat/{mode}.{name.lower()}")
    table, run = folder / "data.csv", folder / "run"
    table.write_text(NUMBERS)
    settings: dict[str, Any] = {"feature_columns": "width,height", "steps": 2, "network": "mlp-4", "evaluate_every": 1}
    with patch.object(RunFolder, "finish"):  # all that a run folder may hold stays in it
        softmatch.train(str(table), **settings, threads=1, unlabeled_batch=8, evaluation="crossfit", folds=2, out=run)
    return {
        "settings": Reader(30, tables, "*.yaml", _read_settings),
        **{kind: Reader(share, tables, f"*.{kind}", _read_table) for kind, share in TABLES.items()},
        "image": Reader(4, photos, "cat/[A-Z]*", lambda path: read_own(str(path.parents[1]), Reading())),
        "run folder": Reader(4, run, "**/*[!l]", _read_run),  # without report.html
        "checkpoint": Reader(40, run, "**/*.safetensors", _read_checkpoint),
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


def _read_settings(path: Path) -> None:
    """Read settings; accepted ones are written, and must be read again as the same."""
    layer = read_file(path)
    source = layer.pop("source", None)
    config = make_config(layer, where=str(path))
    write_config(path, str(source), config)
    again = read_file(path)
    assert again.pop("source") == str(source)
    assert make_config(again).model_dump_json() == config.model_dump_json()  # where NaN equals itself


def _read_table(path: Path) -> None:
    read_own(str(path), Reading())


def _read_run(path: Path) -> None:
    """Do everything that is done with a finished run, even where one part refuses it."""
    run = next(each for each in path.parents if each.name == "run")
    top = run.with_name("scratch")
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(run, top)
    folder, refused = RunFolder(top), list[str]()

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
    (load_checkpoint if path.name.startswith("step-") else read_checked)(path)
