"""The run folder: the one contract between commands. Whatever reads a run needs this folder and nothing else.

config.yaml     every effective setting            split.json      positions of labelled, unlabelled, test samples
metrics.jsonl   one record per evaluation          checkpoints/    full training state, newest two and best
model/          weights, classes, preparation      result.json     the final figures, as fractions
report.html     the report, self-contained         twin/           metrics and model of the supervised twin
boundary.json   points and decision regions, for two-dimensional data
folds/          metrics of each part of a cross-fit held_out.csv   predictions of samples that were not trained on
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor, device, nn

from softmatch.calibration import scale
from softmatch.data.image_files import ImageFiles
from softmatch.data.preparations import Preparation, plain_preparation, preparation_from
from softmatch.errors import InputError
from softmatch.foreign_text import parse_json, read_text
from softmatch.model_description import FORMAT, describe, refuse_other_weights
from softmatch.networks import Network, build_network, is_own
from softmatch.networks.lora import merged
from softmatch.training.checked_files import LEFTOVER, read_tensors, write_atomically, write_checked
from softmatch.training.evaluate import predict_probabilities
from softmatch.views import Views, views_from_settings

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

DIGITS = 6
LOCK = ".lock"
LONGEST_WAIT = 15.0
"""Seconds for a lock: processes that read images for one that was killed hold it until they notice, which takes 5."""
ITEMS = {"image": torch.uint8, "vector": torch.float32, "text": torch.int64}
"""Kinds of numbers that saved items are, by the kind of their views."""


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make the folder. One that holds anything is refused: runs are never overwritten."""
        refuse_used(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the run folder {path} cannot be made: {error.strerror or error}.") from error
        return cls(path)

    @classmethod
    def create_new(cls, root: Path, name: str) -> RunFolder:
        """root/name, or root/name-2, -3, … where that exists."""
        number = 1
        while True:
            path = root / (name if number == 1 else f"{name}-{number}")
            try:
                root.mkdir(parents=True, exist_ok=True)
                path.mkdir()  # which one process alone can do
                return cls(path)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise InputError(f"the run folder {path} cannot be made: {error.strerror or error}.") from error

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def outcome(self) -> Path:
        """What later parts of a run need of a network that is trained."""
        return self.path / "outcome.safetensors"

    def drop_checkpoints(self) -> None:
        """Of a network that is trained and not kept."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held by the process that trains in this folder; the system lets go of it however that process ends."""
        if fcntl is None:
            yield
            return
        path, latest = self.path / LOCK, time.monotonic() + LONGEST_WAIT
        while True:
            with path.open("w") as file:
                if lock_now(file) and _is_still(path, file):
                    yield
                    path.unlink(missing_ok=True)
                    return
            if time.monotonic() > latest:
                raise InputError(f"{self.path} is being trained by another process at this moment.")
            time.sleep(0.1)

    def remove_leftovers(self) -> None:
        """What was being written when an earlier process was killed. Only while the folder is locked."""
        for path in self.path.rglob(".*"):
            if LEFTOVER.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def finish(self) -> None:
        """All figures are written: what was kept to go on from is not needed any more."""
        for path in self.path.rglob(self.outcome.name):
            path.unlink()

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def twin(self) -> RunFolder:
        """The folder of the supervised twin."""
        return RunFolder(self.path / "twin")

    def fold(self, number: int) -> RunFolder:
        """The folder of a part of a cross-fit."""
        return RunFolder(self.path / "folds" / str(number))

    def append_record(self, record: dict[str, Any]) -> bytes:
        """One line of metrics.jsonl, without the seconds: the rest is the same whenever the run is repeated. Gives the line."""
        kept = {key: value for key, value in record.items() if key != "seconds"}
        line = (json.dumps(_plain(kept, DIGITS), ensure_ascii=False) + "\n").encode()
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "metrics.jsonl").open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return line

    def put_records(self, lines: bytes) -> None:
        """Let metrics.jsonl be these lines: those after a checkpoint are made again, and what was lost or torn is mended."""
        path = self.path / "metrics.jsonl"
        if lines != (path.read_bytes() if path.is_file() else b""):
            self.path.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lines)

    def records(self) -> list[dict[str, Any]]:
        """Records of metrics.jsonl in the order of their steps; of a step that stands twice, the later one.

        A line that is not a record is left out: it is what an interruption in the middle of writing leaves behind.
        """
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        found: dict[int, dict[str, Any]] = {}
        for line in read_text(path, errors="replace").split("\n"):
            if (record := read_record(line)) is not None:
                found[record["step"]] = record
        return [found[step] for step in sorted(found)]

    def write_json(self, name: str, value: Any) -> None:
        text = json.dumps(_plain(value), ensure_ascii=False, indent=1) + "\n"
        write_atomically(self.path / name, text.encode())

    def read_json(self, name: str) -> Any:
        """The content of a JSON file of the run, or None where it has none."""
        path = self.path / name
        if not path.exists():
            return None
        return parse_json(read_text(path), path)


def _is_still(path: Path, file: IO[str]) -> bool:
    """Whether the file has that path: one that has finished meanwhile has removed it, and another may have made a new one."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def lock_now(file: IO[Any]) -> bool:
    """Take the lock of a file, if nobody has it; false if somebody has. It is let go when the file is closed, by whatever.

    Where there are no locks, on Windows or on a file system without them, everybody has it.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: go on without
        pass
    return True


def refuse_used(path: Path) -> None:
    """Raise InputError for a place of a run folder where something is already; what a killed process has left is nothing."""
    if path.exists() and not (path.is_dir() and all(_is_left_behind(each.name) for each in path.iterdir())):
        raise InputError(f"{path} exists already and is never overwritten: choose another --out.")


def _is_left_behind(name: str) -> bool:
    return name == LOCK or LEFTOVER.fullmatch(name) is not None


def read_record(line: str) -> dict[str, Any] | None:
    """The record of a line of metrics.jsonl; None for a line that holds none."""
    try:
        found = parse_json(line, "a record")
    except InputError:
        return None
    return found if isinstance(found, dict) and type(found.get("step")) is int and found["step"] >= 0 else None


def _plain(value: Any, digits: int | None = None) -> Any:
    """NaN and infinity are not JSON: they become null. Floats keep `digits` significant digits, if given."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: _plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, digits) for item in value]
    return value


@dataclass(frozen=True)
class Model:
    """A trained network with what comes before and after it.

    Attributes:
        preparation: from files, rows or texts to items.
        temperature: that its logits are divided by, so that a confidence is a share of right answers; 1 where unknown.
        samples: some items that it was trained on, to try an exported copy with.
    """

    network: nn.Module
    views: Views
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    preparation: Preparation
    temperature: float = 1.0
    samples: Tensor | None = None

    def predict_proba(self, given: Any) -> Tensor:
        """p(y | x), (N, C), of items or of what items are made of.

        Args:
            given: prepared items (a tensor or array of uint8 images (N, C, H, W) or float vectors (N, D)); for a model of your
                own data also a list of files or Pillow images, a list of texts, or a frame or dict of columns.
        """
        items = self._items(given)
        where = next((parameter.device for parameter in self.network.parameters()), device("cpu"))
        probs = predict_probabilities(self.network, self.views, items, where)
        return probs if self.temperature == 1.0 else scale(probs, self.temperature)

    def predict(self, given: Any) -> list[str]:
        """The most likely class of each; see `predict_proba`."""
        return [self.classes[position] for position in self.predict_proba(given).argmax(-1)]

    def _items(self, given: Any) -> Tensor | ImageFiles:
        if isinstance(given, np.ndarray):
            given = torch.from_numpy(np.ascontiguousarray(given))
        if isinstance(given, (Tensor, ImageFiles)):
            if tuple(given.shape[1:]) != self.shape:
                raise InputError(f"items are {tuple(given.shape[1:])}, the model takes {self.shape}.")
            return given
        if hasattr(given, "columns") or isinstance(given, Mapping):
            columns = {str(name): _cells(given[name]) for name in getattr(given, "columns", given)}
            return self.preparation(columns[self.preparation.columns[0]] if self.preparation.takes == "text" else columns)
        if isinstance(given, (str, Path)):
            raise InputError("give a list, even of one; whole folders and tables go through `softmatch predict`.")
        files = self.preparation.takes == "image"
        return self.preparation([Path(each) if files and isinstance(each, str) else each for each in given])


def _cells(column: Any) -> Any:
    """A column as a preparation takes it: numbers, or texts of which an empty one is missing."""
    cells = np.asarray(column)
    if cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    return ["" if cell is None or cell != cell else str(cell) for cell in cells.tolist()]  # NaN is no text


def save_model(
    run: RunFolder,
    network: nn.Module,
    name: str,
    shape: tuple[int, ...],
    views: Views,
    classes: tuple[str, ...],
    preparation: Preparation,
    samples: Tensor | None = None,
) -> None:
    """Write model/: weights as safetensors, the rest as JSON. Adapters of an encoder (LoRA) become part of its weights."""
    folder, network = run.path / "model", merged(network)
    folder.mkdir(exist_ok=True)
    _write_tensors(folder / "model.safetensors", network.state_dict())
    _write_tensors(folder / "preparation.safetensors", preparation.tensors())
    _write_tensors(folder / "samples.safetensors", {} if samples is None else {"items": samples.to(ITEMS[views.kind])})
    about = {
        "format": FORMAT,
        "network": name,
        "architecture": architecture() if callable(architecture := getattr(network, "architecture", None)) else None,
        "shape": list(shape),
        "classes": list(classes),
        "views": views.settings(),
        "preparation": preparation.settings(),
        "temperature": 1.0,
    }
    run.write_json("model/model.json", about)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Nothing is written where there are none."""
    if tensors:
        write_checked(path, tensors, {})


def _read_tensors(path: Path) -> dict[str, Tensor]:
    return read_tensors(path) if path.exists() else {}


def set_temperature(run: RunFolder, temperature: float) -> None:
    """Let the saved model divide its logits by this number."""
    run.write_json("model/model.json", {**run.read_json("model/model.json"), "temperature": temperature})


def load_model(run: Path | str, network: Network | None = None) -> Model:
    """The model of a run folder, on the CPU, ready to predict. Nothing in the folder is executed.

    Args:
        network: for a run with a network of your own: that network, or what makes it. A name in the folder would let
            the folder choose what code is run.
    """
    folder = RunFolder(Path(run))
    files, about = folder.path / "model", folder.read_json("model/model.json")
    if about is None:
        raise InputError(f"{run} has no model: it is not the folder of a finished run.")
    found = describe(about, run)
    classes, shape = tuple(found.classes), tuple(found.shape)
    if network is None and is_own(found.network):
        raise InputError(f"{run} has a network of your own, {found.network}: give it to load_model as `network`.")
    views = views_from_settings(found.views)
    if found.preparation is None:
        preparation = plain_preparation(views.kind, shape)
    else:
        preparation = preparation_from(found.preparation, _read_tensors(files / "preparation.safetensors"))
    accept = None if network is not None else partial(refuse_other_weights, found, where=run)
    weights = read_tensors(files / "model.safetensors", accept)
    chosen = found.network if network is None else network
    built = build_network(chosen, shape, len(classes), architecture=found.architecture)
    try:
        built.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"the model in {run} cannot be read: {error}") from error
    samples = _read_tensors(files / "samples.safetensors").get("items")
    if samples is not None and (samples.shape[1:] != shape or samples.dtype != ITEMS[views.kind]):
        raise InputError(f"the model in {run} cannot be read: its samples are {samples.dtype} {tuple(samples.shape[1:])}.")
    return Model(built.eval(), views, classes, shape, preparation, found.temperature, samples)
