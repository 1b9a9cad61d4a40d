"""Settings, command lines, tables and images: inputs that are right, and how softmatch reads them.

An input is bytes; in a command line there is a NUL between two words.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from fuzz_mutations import (
    Reader,
    mutate_archive,
    mutate_bytes,
    mutate_json,
    mutate_json_lines,
    mutate_table,
    mutate_words,
    mutate_yaml,
)
from PIL import Image

from softmatch.cli.app import main
from softmatch.config import make_config, read_file, write_config
from softmatch.data.own.reading import Reading, read_own
from softmatch.errors import InputError

NUMBERS = "width,height,colour,label\n" + "".join(
    f"{k / 7:.3f},{k * k % 11},{('red', 'green', 'blue')[k % 3]},{('left', 'right')[k % 2] if k < 24 else ''}\n"
    for k in range(40)
)
TEXTS = "id,message,category\n" + "".join(
    f'{k},"Dear ""{("bank", "post")[k % 2]}"", my card, number {k}, is lost",{("a", "b")[k % 2] if k < 9 else ""}\n'
    for k in range(16)
)
ROWS = [
    {"text": f"my {('card', 'parcel')[k % 2]} of day {k} is lost", "label": ("a", "b", None)[k % 3], "n": k} for k in range(9)
]
POINTS = [{"x": k / 3, "y": k % 5, "kind": None if k % 4 == 0 else "uv"[k % 2], "label": k % 2} for k in range(12)]
WORK = (
    "softmatch.cli.train.run_job",
    "softmatch.cli.train.plan",
    "softmatch.training.bench.plan",
    "softmatch.training.bench.bench",
    "softmatch.distributed.launching.launch",
    "softmatch.inference.export.export",
)
"""What commands do once they know what to do."""


class _Reached(Exception):  # noqa: N818  # what has happened
    """The command line was understood, and begins to work."""


def file_readers(folder: Path, run: Path) -> dict[str, Reader]:
    """Readers of single files.

    Args:
        folder: for the files.
        run: folder of a finished run.
    """
    tables, lines = (mutate_bytes, mutate_table, mutate_table), (mutate_bytes, mutate_json_lines, mutate_json_lines)
    objects, archives = (mutate_bytes, mutate_json, mutate_json), (mutate_bytes, mutate_archive, mutate_archive)
    csvs = [NUMBERS.encode(), TEXTS.encode(), NUMBERS.replace(",", ";").encode("utf-8-sig")]
    tsvs = [NUMBERS.replace(",", "\t").encode(), TEXTS.replace(",", "\t").encode("utf-16")]
    jsonls = ["\n".join(map(json.dumps, rows)).encode() for rows in (ROWS, POINTS)]
    listed = [json.dumps(rows).encode() for rows in (ROWS, POINTS)]
    gzipped = [gzip.compress(text, mtime=0) for text in csvs]
    images = _images(folder / "photos")
    return {
        "settings": Reader(30, _settings(folder), (mutate_bytes, mutate_yaml, mutate_yaml), partial(_read_settings, folder)),
        "command line": Reader(5, _commands(), (mutate_words,), partial(_read_command, folder, run)),
        "csv": Reader(26, csvs, tables, partial(_read_table, folder / "t.csv")),
        "csv.gz": Reader(3, gzipped, (mutate_bytes,), partial(_read_table, folder / "t.csv.gz")),
        "tsv": Reader(3, tsvs, tables, partial(_read_table, folder / "t.tsv")),
        "jsonl": Reader(10, jsonls, lines, partial(_read_table, folder / "t.jsonl")),
        "json": Reader(4, listed, objects, partial(_read_table, folder / "t.json")),
        "npz": Reader(10, _archives(), archives, partial(_read_table, folder / "t.npz")),
        "image": Reader(4, images, (mutate_bytes,), partial(_read_image, folder / "photos")),
    }


def _settings(folder: Path) -> list[bytes]:
    whole = make_config({"labels": 40, "method_options": {"k": 3}, "views": {"names": ["rotate"], "pad": 2}, "out": "runs/x"})
    write_config(folder / "whole.yaml", "digits", whole)
    short = "source: t.csv\nlabel: kind\nsteps: 100\nmethod: saw+softmatch\nmethod_options: {base_options: {k: 2.5}}\nlr: 1e-3\n"
    return [
        (folder / "whole.yaml").read_bytes(),
        short.encode(),
        b"recipe: paper\nlabels: 40\nviews:\n  cutout: 0.3\n  flip: no\n",
    ]


def _read_settings(folder: Path, content: bytes) -> None:
    """What is accepted is written, and read again as the same."""
    path = folder / "settings.yaml"
    path.write_bytes(content)
    layer = read_file(path)
    source = layer.pop("source", None)
    config = make_config(layer, where=str(path))
    write_config(path, str(source), config)
    again = read_file(path)
    assert again.pop("source") == str(source)
    assert make_config(again).model_dump_json() == config.model_dump_json()  # in which NaN is equal to itself


def _commands() -> list[bytes]:
    lines = (
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
        "suggest t.csv --number 3 --label label --seed 2",
        "export run --to safetensors",
    )
    return [line.encode().replace(b" ", b"\0") for line in lines]


def _read_command(folder: Path, run: Path, content: bytes) -> None:
    """All of a command but its work: its arguments, and whatever files they name. Output must be possible to print."""
    place = folder / "here"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place / "run")
    shutil.copytree(folder / "photos", place / "photos")
    (place / "t.csv").write_text(NUMBERS)
    (place / "s.yaml").write_text("source: t.csv\nsteps: 3\n")
    words = [os.fsdecode(word) for word in content.split(b"\0")]
    said, complained = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.ExitStack() as stack:
        for name in WORK:
            stack.enter_context(patch(name, side_effect=_Reached))
        stack.enter_context(patch("socket.getaddrinfo", side_effect=OSError("there is no network here")))
        stack.enter_context(contextlib.chdir(place))
        stack.enter_context(contextlib.redirect_stdout(said))
        stack.enter_context(contextlib.redirect_stderr(complained))
        stack.enter_context(contextlib.suppress(_Reached))
        if main(words):
            raise InputError(complained.getvalue())


def _read_table(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    read_own(str(path), Reading())


def _archives() -> list[bytes]:
    points, few = np.arange(40.0).reshape(20, 2) % 7, np.array(list("abababab"))
    found = []
    for arrays in (
        {"x": points, "y": np.array([0, 1, -1, -1] * 5)},
        {"x_train": points[:8], "y_train": few, "x_unlabeled": points, "x_test": points[:4], "y_test": few[:4]},
        {"images": np.zeros((6, 8, 8)), "labels": np.array([0.0, 1.0, np.nan] * 2)},
    ):
        out = io.BytesIO()
        np.savez(out, **arrays)  # type: ignore[arg-type]  # numpy's own signature mixes names and options
        found.append(out.getvalue())
    return found


def _images(folder: Path) -> list[bytes]:
    """Images of several formats; a folder of sound ones to put them into is made too."""
    random = np.random.default_rng(0)
    for number in range(8):
        place = folder / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(place / f"{number}.png")
    found = []
    for kind, mode in (
        ("PNG", "RGB"),
        ("PNG", "P"),
        ("JPEG", "RGB"),
        ("GIF", "P"),
        ("BMP", "RGB"),
        ("TIFF", "L"),
        ("WEBP", "RGB"),
    ):
        out = io.BytesIO()
        image = Image.fromarray(random.integers(0, 256, (12, 10, 3), dtype=np.uint8)).convert(mode)
        with contextlib.suppress(OSError, KeyError):  # a Pillow without this format
            image.save(out, kind)
            found.append(out.getvalue())
    return found


def _read_image(folder: Path, content: bytes) -> None:
    place = folder / "cat" / "damaged.png"
    place.write_bytes(content)
    try:
        read_own(str(folder), Reading())
    finally:
        place.unlink()
