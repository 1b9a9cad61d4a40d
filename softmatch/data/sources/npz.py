"""A dataset as one .npz: x_train, y_train, x_test, y_test, and x_unlabeled where there are images without labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softmatch.data.readers.array_files import FAILURES, refuse_unfit
from softmatch.data.sources.originals import damaged
from softmatch.data.sources.pieces import Data, Images, Labels, Piece, unlabeled
from softmatch.errors import InputError

KEYS = ("x_train", "y_train", "x_test", "y_test")


def read(path: Path, shape: tuple[int, ...]) -> Data:
    """Images may be N×H×W×C, N×C×H×W, or N×H×W where `shape` (C, H, W) is grey. Nothing in the file is unpickled."""
    found = _load(path)
    pieces = {
        part: Piece(_images(found, path, f"x_{part}", shape), _labels(found, path, f"y_{part}"), f"{path}, x_{part} and y_{part}")
        for part in ("train", "test")
    }
    train = [pieces["train"]]
    if "x_unlabeled" in found:
        train.append(unlabeled(_images(found, path, "x_unlabeled", shape), f"{path}, x_unlabeled"))
    return Data(train, [pieces["test"]])


def _load(path: Path) -> dict[str, Any]:
    refuse_unfit(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in KEYS if key not in archive.files]
            if missing:
                raise InputError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(archive.files) or 'nothing'}.")
            return {key: archive[key] for key in (*KEYS, "x_unlabeled") if key in archive.files}
    except InputError:
        raise
    except FAILURES as error:
        raise damaged(path, error) from error


def _images(found: Mapping[str, Any], path: Path, key: str, shape: tuple[int, ...]) -> Images:
    """As N×C×H×W where the layout is one of those that are known; `arrays.check` says what is wrong with others."""
    images: Images = found[key]
    channels, height, width = shape
    if images.dtype != np.uint8:
        raise InputError(f"{path}: {key} must be uint8 (levels 0 … 255), it is {images.dtype}.")
    if images.shape[1:] == (height, width, channels):
        return images.transpose(0, 3, 1, 2)
    if images.shape[1:] == (height, width) and channels == 1:
        return images[:, None]
    if images.shape[1:] != shape:
        layouts = f"N×{height}×{width}" if channels == 1 else f"N×{height}×{width}×{channels} or N×{channels}×{height}×{width}"
        raise InputError(f"{path}: {key} must be {layouts}, it is {'×'.join(map(str, images.shape)) or 'a single number'}.")
    return images


def _labels(found: Mapping[str, Any], path: Path, key: str) -> Labels:
    labels = found[key]
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{path}: {key} must be whole numbers, it is {labels.dtype}.")
    if labels.ndim != 1 and labels.shape[1:] != (1,):
        raise InputError(f"{path}: {key} must have one dimension, it is {'×'.join(map(str, labels.shape)) or 'a single number'}.")
    flat: Labels = labels.reshape(-1).astype(np.int64)
    return flat
