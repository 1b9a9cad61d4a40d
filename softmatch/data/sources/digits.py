"""scikit-learn's 1,797 real handwritten digits: grey images of 8×8 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from softmatch.data.examples import Examples, refuse_files

# Digits are not mirrored, and shifted by one pixel of eight into black; how this was chosen stands in benchmarks/LOG.md.
# Such small tensors do not gain from a second thread, and lose by it on a busy machine.
DEFAULTS: Mapping[str, Any] = {
    "labels": 40,
    "steps": 800,
    "labeled_batch": 40,
    "unlabeled_batch": 96,
    "batch_statistics": "joint",
    "threads": 1,
    "views": {"pad": 1, "flip": False, "reflect": False, "operations": 2},
}


def load(seed: int, where: Path | None = None) -> Examples:
    """Levels 0 … 16 become bytes 0 … 255. The data are fixed: the seed is not used."""
    refuse_files("digits", where)
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.from_numpy(data.images * (255.0 / 16.0)).round().to(torch.uint8)
    labels = torch.from_numpy(data.target).to(torch.int64)
    return Examples(images[:, None], labels, tuple("0123456789"), "image")
