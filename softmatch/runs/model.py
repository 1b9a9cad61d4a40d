"""The trained model in a run folder: saved, loaded, and used on new data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, device, nn

from softmatch.calibration import scale
from softmatch.data.image_files import ImageFiles
from softmatch.data.preparations import Preparation, plain_preparation, preparation_from
from softmatch.errors import InputError
from softmatch.files.tensors import read_tensors, write_checked
from softmatch.networks import Network, build_network, is_own
from softmatch.networks.heads import merged
from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.runs.schema import FORMAT, describe, refuse_other_weights
from softmatch.views import Views, views_from_settings

ITEMS = {"image": torch.uint8, "vector": torch.float32, "text": torch.int64}
"""Kinds of numbers that saved items are, by the kind of their views."""


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
