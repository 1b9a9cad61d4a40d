"""SVHN's cropped digits: MATLAB files with X (H, W, C, N) and y, in which the digit 0 has the label 10."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmatch.data.sources.originals import File, damaged
from softmatch.data.sources.pieces import Data, Piece, require_range
from softmatch.errors import InputError


def read(files: Mapping[str, File]) -> Data:
    """Train and extra are one training set, in this order."""
    pieces = {name: _read_mat(file) for name, file in files.items()}
    return Data([pieces["train_32x32.mat"], pieces["extra_32x32.mat"]], [pieces["test_32x32.mat"]])


def _read_mat(file: File) -> Piece:
    from scipy.io import loadmat

    try:
        found = loadmat(file.content, variable_names=["X", "y"])
    except Exception as error:  # scipy raises whatever the damaged bytes lead to
        raise damaged(file.name, error) from error
    for name in ("X", "y"):
        if name not in found:
            raise InputError(f"{file.name} lacks the variable {name!r}.")
    images, labels = found["X"], found["y"].reshape(-1).astype(np.int64)
    if images.ndim != 4:
        raise InputError(f"{file.name}: X must be H×W×C×N, it has {images.ndim} dimensions.")
    require_range(labels, 1, 10, f"{file.name}, y")
    return Piece(images.transpose(3, 2, 0, 1), labels % 10, file.name)
