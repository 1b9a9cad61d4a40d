"""Features of pretrained encoders from files, as `softmatch train --encoder` prepares them and trains on them."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import hadamard
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from softmatch.data.preparations.encoder_features import DIRECTIONS

VIEWS = {
    "image": {"weak_noise": 0.1, "strong_noise": 2.0, "swap": 0.0},
    "text": {"weak_noise": 0.1, "strong_noise": 1.0, "swap": 0.2},
}
"""Settings of the views in softmatch/data/defaults.py."""


def read_features(path: Path, kind: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
    """Read x (N, D) and y (N) of a file .npz; also gives the settings of training.

    Features of images get length 1 and are reduced to 128 principal directions, of all samples, without their labels. The
    columns of an array are standardised one by one; those of an encoder are not, since directions that hardly vary would count as
    much as the others. A rotation in which all columns have the same variance makes both alike.
    """
    with np.load(path, allow_pickle=False) as file:
        items, classes = file["x"].astype(np.float32), file["y"].astype(int)
    if kind == "image":
        items = PCA(DIRECTIONS, random_state=0).fit_transform(normalize(items)) @ hadamard(DIRECTIONS).astype(np.float32)
    return items, classes, {"unlabeled_batch": 512, "views": VIEWS[kind]}


def given_features(options: Namespace) -> dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]]:
    """Read the files of the options --image-features and --text-features NAME=FILE, by name."""
    given = [(kind, *text.partition("=")[::2]) for kind in VIEWS for text in vars(options)[f"{kind}_features"]]
    return {name: read_features(Path(path), kind) for kind, name, path in given}
