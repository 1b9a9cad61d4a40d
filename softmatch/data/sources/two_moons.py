"""The paper's figure 1: two interleaved half circles with noise 0.1, 1,000 points to train on and 1,000 to test on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from softmatch.data.examples import Examples, refuse_files
from softmatch.seeds import derive

POINTS = 1000
NOISE = 0.1

DEFAULTS: Mapping[str, Any] = {
    "labels": 4,
    "steps": 2000,
    "optimizer": "adam",
    "lr": 0.01,
    "labeled_batch": 4,
    "unlabeled_batch": 512,
    "model_momentum": 0.0,
    "weight_decay": 0.0,
    "threads": 1,
}


def load(seed: int, where: Path | None = None) -> Examples:
    """New points for every seed."""
    refuse_files("two-moons", where)
    test = _draw(derive(seed, "two-moons", "test"))
    train = _draw(derive(seed, "two-moons", "train"))
    return Examples(train.items, train.labels, train.classes, "vector", test=test)


def _draw(seed: int) -> Examples:
    from sklearn.datasets import make_moons

    points, labels = make_moons(POINTS, noise=NOISE, random_state=seed % 2**32)
    return Examples(torch.from_numpy(points).float(), torch.from_numpy(labels).to(torch.int64), ("upper", "lower"), "vector")
