"""The trained model in a run folder: saved, loaded, and used on new data."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, device, nn

from softmatch.calibration import scale
from softmatch.data.pictures import ImageFiles
from softmatch.data.preparations import Preparation, plain_preparation, preparation_from
from softmatch.errors import InputError
from softmatch.files.tensors import read_tensors, write_checked
from softmatch.networks import Network, build_network, is_own
from softmatch.networks.heads import merged
from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.runs.hub_models import find_run
from softmatch.runs.schema import FORMAT, describe, refuse_other_weights
from softmatch.views import Views, views_from_settings
from softmatch.views.own_views import OwnCode

ITEMS = {"array": torch.float32, "image": torch.uint8, "series": torch.float32, "vector": torch.float32, "text": torch.int64}
"""Number types of saved items, by the kind of their views."""


@dataclass(frozen=True)
class Model:
    """A trained network with its preparation and calibration.

    Attributes:
        network: the trained network, on the CPU.
        views: turn items into the input of the network.
        classes: names, in the order of the probabilities.
        shape: shape of an item.
        preparation: turns files, rows or texts into items.
        temperature: divisor of the logits that calibrates the confidence; 1 where unknown.
        samples: some training items, to test an exported copy with.
    """

    network: nn.Module
    views: Views
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    preparation: Preparation
    temperature: float = 1.0
    samples: Tensor | None = None

    def predict_proba(self, given: Any) -> Tensor:
        """Predict p(y | x), (N, C).

        Args:
            given: prepared items (a tensor or array of uint8 images (N, C, H, W) or float vectors (N, D)); for a model of your
                own data also a list of files or Pillow images, a list of texts, or a frame or dict of columns.

        Returns:
            The calibrated probabilities, in the order of `classes`.
        """
        items = self._items(given)
        where = next((parameter.device for parameter in self.network.parameters()), device("cpu"))
        return self.calibrated(predict_probabilities(self.network, self.views, items, where))

    def calibrated(self, probs: Tensor) -> Tensor:
        """Apply the temperature to predictions of the network."""
        return probs if self.temperature == 1.0 else scale(probs, self.temperature)

    def predict(self, given: Any) -> list[str]:
        """Predict the most likely class of each sample; see `predict_proba`."""
        return [self.classes[position] for position in self.predict_proba(given).argmax(-1)]

    def _items(self, given: Any) -> Tensor | ImageFiles:
        if isinstance(given, np.ndarray):
            given = torch.from_numpy(np.ascontiguousarray(given))
        if isinstance(given, (Tensor, ImageFiles)):
            if tuple(given.shape[1:]) != self.shape:
                raise InputError(f"items have shape {tuple(given.shape[1:])}; the model takes {self.shape}.")
            return given
        if hasattr(given, "columns") or isinstance(given, Mapping):
            columns = {str(name): _cells(given[name]) for name in getattr(given, "columns", given)}
            return self.preparation(columns[self.preparation.columns[0]] if self.preparation.takes == "text" else columns)
        if isinstance(given, (str, Path)):
            raise InputError("give a list, even for one sample. For whole folders and tables, use `softmatch predict`.")
        files = self.preparation.takes in ("image", "sound")
        return self.preparation([Path(each) if files and isinstance(each, str) else each for each in given])


def _cells(column: Any) -> Any:
    """Convert a column for a preparation: to numbers, or to texts with "" for a missing one."""
    cells = np.asarray(column)
    if cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    return ["" if cell is None or cell != cell else str(cell) for cell in cells.tolist()]  # NaN is not a text


def save_model(run: RunFolder, model: Model, name: str) -> None:
    """Write model/: weights as safetensors, the rest as JSON. LoRA adapters are merged into the encoder's weights."""
    folder, network, samples = run.path / "model", merged(model.network), model.samples
    folder.mkdir(exist_ok=True)
    items = {} if samples is None else {"items": samples.to(ITEMS[model.views.kind])}
    for file, tensors in ("model", network.state_dict()), ("preparation", model.preparation.tensors()), ("samples", items):
        if tensors:
            write_checked(folder / f"{file}.safetensors", tensors, {})
    about = {
        "format": FORMAT,
        "network": name,
        "architecture": architecture() if callable(architecture := getattr(network, "architecture", None)) else None,
        "shape": list(model.shape),
        "classes": list(model.classes),
        "views": model.views.settings(),
        "preparation": model.preparation.settings(),
        "temperature": 1.0,
    }
    run.write_json("model/model.json", about)


def copy_model(source: RunFolder, target: RunFolder) -> None:
    """Replace the model of a run, and its decision boundary if it has one, by those of another run."""
    shutil.copytree(source.path / "model", target.path / "model", dirs_exist_ok=True)
    if (source.path / "boundary.json").exists():
        shutil.copyfile(source.path / "boundary.json", target.path / "boundary.json")


def _read_tensors(path: Path) -> dict[str, Tensor]:
    return read_tensors(path) if path.exists() else {}


def set_temperature(run: RunFolder, temperature: float) -> None:
    """Set the temperature of the saved model."""
    run.write_json("model/model.json", {**run.read_json("model/model.json"), "temperature": temperature})


def load_model(run: Path | str, network: Network | None = None, views: OwnCode | None = None) -> Model:
    """Load the model of a run folder on the CPU. Nothing in the folder is executed.

    Args:
        run: the folder; or hf://owner/name or hf://owner/name@revision, a model on the Hugging Face hub.
        network: for a run with a network of your own: that network, or a function that makes it. A name in the folder
            is not followed: it would let the folder choose which code runs.
        views: for a run with views of your own: file.py:name of these, or the class or function that makes them.

    Returns:
        The model, ready to predict.

    Raises:
        InputError: the folder has no model, or one that cannot be used.

    Example:
        >>> load_model("runs/mine").classes
        ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """
    folder = RunFolder(find_run(run))
    files, about = folder.path / "model", folder.read_json("model/model.json")
    if about is None:
        raise InputError(f"{run} has no model: it is not the folder of a finished run.")
    found = describe(about, run)
    classes, shape = tuple(found.classes), tuple(found.shape)
    if network is None and is_own(found.network):
        raise InputError(f"{run} has a network of your own, {found.network}. Pass it to load_model as `network`.")
    try:
        own = views_from_settings(found.views, views)
    except InputError as error:
        raise InputError(f"the model in {run} cannot be used: {error}") from error
    if found.preparation is None:
        preparation = plain_preparation(own.kind, shape)
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
    if samples is not None and (samples.shape[1:] != shape or samples.dtype != ITEMS[own.kind]):
        raise InputError(f"the model in {run} cannot be read: its samples are {samples.dtype} {tuple(samples.shape[1:])}.")
    return Model(built.eval(), own, classes, shape, preparation, found.temperature, samples)
