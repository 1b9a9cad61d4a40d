"""A fitted classifier as a folder: model/ as a run has it, and in classifier.json what scikit-learn's side needs besides."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.config import Config
from softmatch.data.samples import LABEL_KINDS
from softmatch.errors import InputError
from softmatch.networks import Network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, load_model, save_model

FORMAT = 1
LONGEST_LABEL = 2**16
"""Bytes: an array of texts takes as many for the shortest of them as for the longest."""


@dataclass(frozen=True)
class Saved:
    """What a folder holds.

    Attributes:
        parameters: of the constructor.
        network: its name.
        features, names: number and names of the features, where scikit-learn knows of any.
    """

    model: Model
    parameters: Mapping[str, Any]
    classes: npt.NDArray[Any]
    network: str
    steps: int
    config: Config
    features: int | None
    names: npt.NDArray[Any] | None


def write_folder(path: Path, saved: Saved) -> None:
    """Write all of it or nothing. Parameters that are objects are left out.

    Raises:
        InputError: where there is something already, or nothing can be written.
    """
    model, run = saved.model, RunFolder.create(path)
    about = {
        "format": FORMAT,
        "parameters": {name: value for name, value in saved.parameters.items() if _is_json(value)},
        "classes": saved.classes.tolist(),
        "dtype": saved.classes.dtype.str,
        "network": saved.network,
        "steps": saved.steps,
        "config": saved.config.model_dump(mode="json"),
        "features": saved.features,
        "names": None if saved.names is None else saved.names.tolist(),
    }
    try:
        save_model(run, model.network, saved.network, model.shape, model.views, model.classes, model.preparation, model.samples)
        run.write_json("classifier.json", about)
    except BaseException as error:
        shutil.rmtree(path, ignore_errors=True)  # it was made above, or was empty
        if isinstance(error, OSError):
            raise InputError(f"the classifier cannot be saved in {path}: {error.strerror or error}.") from error
        raise


def read_folder(path: Path, network: Network | None = None) -> Saved:
    """What `write_folder` has written. Nothing in the folder is executed.

    Args:
        network: where it is the user's own: that network, or what makes it.
    """
    about = RunFolder(path).read_json("classifier.json")
    if about is None:
        raise InputError(f"{path} has no classifier.json: it is not a folder that Classifier.save has written.")
    try:
        if about.get("format") != FORMAT:
            raise InputError(f"{path} has format {str(about.get('format'))[:99]}; this version reads {FORMAT}.")
        dtype = np.dtype(about["dtype"])
        if dtype.kind not in LABEL_KINDS or dtype.itemsize > LONGEST_LABEL:
            raise InputError(f"{path}: classes of type {dtype} are none that a classifier saves.")
        return Saved(
            load_model(path, network),
            dict(about["parameters"]),
            np.array(about["classes"], dtype=dtype),
            str(about["network"]),
            int(about["steps"]),
            Config(**about["config"]),
            about["features"],
            None if about["names"] is None else np.array(about["names"], dtype=object),
        )
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, SyntaxError) as error:
        raise InputError(f"the classifier in {path} cannot be read: {type(error).__name__} {error}") from error


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
