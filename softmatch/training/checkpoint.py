"""Checkpoints: one safetensors file with every tensor of a run, its step in the header; written whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from softmatch.errors import InputError

NAME = re.compile(r"step-(\d{9})\.safetensors")


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, flush to the disk, rename: a reader sees the old file or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The permissions that new files do without; temporary files are private, finished ones are like any other."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_checkpoint(folder: Path, step: int, tensors: dict[str, Tensor], keep: int = 2) -> Path:
    """Write the state after `step` steps, and delete all but the newest `keep` checkpoints."""
    path = folder / f"step-{step:09d}.safetensors"
    owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, save(owned, metadata={"step": str(step)}))
    for old in list_checkpoints(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a run, oldest first."""
    return sorted(path for path in folder.glob("step-*.safetensors") if NAME.fullmatch(path.name))


def load_checkpoint(path: Path) -> tuple[int, dict[str, Tensor]]:
    """Step and tensors of a checkpoint."""
    match = NAME.fullmatch(path.name)
    if match is None:
        raise InputError(f"{path} is not the name of a checkpoint (step-000000100.safetensors)")
    try:
        return int(match[1]), load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"checkpoint {path} cannot be read: {error}") from error


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's tensors as "3.momentum_buffer", 3 being the number of the parameter."""
    found: dict[str, Tensor] = {}
    for number, state in optimizer.state_dict()["state"].items():
        found |= {f"{number}.{key}": value for key, value in state.items() if isinstance(value, Tensor)}
    return found


def unflatten_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Inverse of `flatten_optimizer`, into an optimiser of the same parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
