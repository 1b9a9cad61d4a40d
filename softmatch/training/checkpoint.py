"""Checkpoints: the state of a run after a step as one checked file, written in the background."""

import math
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.files.tensors import read_checked, read_notes, write_checked

NAME = re.compile(r"step-(\d{9,18})\.safetensors")
LEFTOVER = re.compile(r"\.step-\d{9,18}\.safetensors\..+")


@dataclass(frozen=True)
class Checkpoint:
    """State of a run after a step."""

    step: int
    tensors: dict[str, Tensor]
    notes: dict[str, Any]


class CheckpointWriter:
    """Writes checkpoints of one run into a folder, and deletes those that are no longer needed.

    Training waits while its tensors are copied, not while they are written. An error of a write is raised by the next
    `write`, or by `close`. Leaving a `with` block closes.

    Args:
        folder: created if missing; temporary files of killed processes are deleted.
        keep: number of the newest checkpoints to keep, in addition to the one with the lowest error.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        if keep < 1:
            raise InputError(f"keep = {keep}: at least one checkpoint must be kept.")
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if LEFTOVER.fullmatch(path.name):
                path.unlink(missing_ok=True)
        self.folder, self.keep = folder, keep
        self._errors = {path: _error_of(path) for path in list_checkpoints(folder)}
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._under_way: Future[None] | None = None
        self._copies: dict[str, Tensor] = {}

    def write(
        self, step: int, tensors: Mapping[str, Tensor], notes: Mapping[str, Any], error: float | None = None, wait: bool = False
    ) -> None:
        """Write the state after `step` steps. The tensors may change as soon as this returns.

        Args:
            notes: values that are not tensors, for JSON.
            error: error at this step; the checkpoint with the lowest is the best.
            wait: return when the file is on disk.
        """
        self.finish()
        self._copies = {name: self._copy(name, value) for name, value in tensors.items()}
        measured = None if error is None or not math.isfinite(error) else float(error)
        about = {"step": step, "error": measured, "notes": deepcopy(dict(notes))}
        self._under_way = self._thread.submit(self._write, self.folder / f"step-{step:09d}.safetensors", self._copies, about)
        if wait:
            self.finish()

    def finish(self) -> None:
        """Wait until the file is on disk; raise the error of the write, if any."""
        under_way = self._under_way
        if under_way is not None:
            wait([under_way])  # an interruption here loses nothing
            self._under_way = None
            under_way.result()

    def close(self) -> None:
        """Finish; nothing can be written afterwards."""
        try:
            self.finish()
        finally:
            self._thread.shutdown()

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            with suppress(Exception):  # the first error is the one to report
                self.close()

    def _copy(self, name: str, value: Tensor) -> Tensor:
        """Copy to the host, into the memory of the last copy: new memory takes longer to allocate than to fill."""
        room = self._copies.get(name)
        if room is None or room.shape != value.shape or room.dtype != value.dtype:
            room = torch.empty(value.shape, dtype=value.dtype)
        return room.copy_(value.detach())

    def _write(self, path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        write_checked(path, tensors, about)
        self._errors[path] = about["error"]
        for old in self._needless(path):
            old.unlink(missing_ok=True)
            self._errors.pop(old, None)

    def _needless(self, written: Path) -> list[Path]:
        """Checkpoints to delete. One newer than the one just written was damaged when the run was resumed."""
        found = list_checkpoints(self.folder)
        valid = [path for path in found if _step_of(path) <= _step_of(written)]
        measured = [(error, _step_of(path), path) for path in valid if (error := self._errors.get(path)) is not None]
        kept = {*valid[-self.keep :], *(path for _, _, path in sorted(measured)[:1])}
        return [path for path in found if path not in kept]


def list_checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints in a folder, oldest first."""
    return sorted((path for path in folder.glob("step-*") if NAME.fullmatch(path.name) and path.is_file()), key=_step_of)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint. Raises InputError for a damaged one."""
    if NAME.fullmatch(path.name) is None:
        raise InputError(f"{path} is not the name of a checkpoint, such as step-000000100.safetensors.")
    try:
        tensors, about = read_checked(path)
    except InputError as error:
        raise InputError(f"checkpoint {error}") from error
    step, notes = about.get("step"), about.get("notes")
    if type(step) is not int or not isinstance(notes, dict):
        raise InputError(f"checkpoint {path} is damaged: it does not name its step.")
    if step != _step_of(path):
        raise InputError(f"checkpoint {path} is damaged: it is of step {step}.")
    return Checkpoint(step, tensors, notes)


def newest_good(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Read the newest undamaged checkpoint, if any; and explain what is wrong with each newer one."""
    wrong: list[str] = []
    for path in reversed(list_checkpoints(folder)):
        try:
            return load_checkpoint(path), wrong
        except InputError as error:
            wrong.append(str(error))
    return None, wrong


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-").removesuffix(".safetensors"))


def _error_of(path: Path) -> float | None:
    """Error that a checkpoint was written with; None where it cannot be read."""
    try:
        error = read_notes(path).get("error")
    except InputError:
        return None
    return error if isinstance(error, float) and math.isfinite(error) else None


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Tensors of an optimiser, named "3.momentum_buffer" for parameter 3."""
    found: dict[str, Tensor] = {}
    for number, state in optimizer.state_dict()["state"].items():
        found |= {f"{number}.{key}": value for key, value in state.items() if isinstance(value, Tensor)}
    return found


def unflatten_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Inverse of `flatten_optimizer`, for an optimiser of the same parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    known = {str(number): number for number in range(len(parameters))}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        if number not in known or not key.isidentifier():
            raise InputError(f"{name!r} is not a tensor of an optimiser with {len(parameters)} parameters.")
        shape = parameters[known[number]].shape
        if tensor.shape not in (shape, torch.Size()):  # a single number is a count of steps
            raise InputError(f"{name!r} of the optimiser has shape {tuple(tensor.shape)}, its parameter {tuple(shape)}.")
        state.setdefault(known[number], {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
