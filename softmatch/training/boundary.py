"""For two features: the training points, the labelled ones, and the prediction over a grid around them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softmatch.networks.prediction import predict_probabilities
from softmatch.runs.folder import RunFolder
from softmatch.training.task import Task

POINTS = 4000


def _some(task: Task, most: int) -> Tensor:
    """Positions of training samples, in order: all, or of many only some, the first labelled ones among them."""
    pool, labeled = task.split.unlabeled, task.split.labeled[: most // 2]
    if len(pool) <= most:
        return pool
    return torch.tensor(sorted({*pool[:: -(-len(pool) // most)].tolist(), *labeled.tolist()}))


def save_boundary(task: Task, network: nn.Module, run: RunFolder, side: int = 80) -> None:
    """Write boundary.json, where the items are points of a plane and of two classes."""
    items = task.examples.items
    if task.examples.kind != "vector" or not isinstance(items, Tensor) or items.shape[1] != 2 or len(task.examples.classes) != 2:
        return
    low, high = items.amin(0) - 0.3, items.amax(0) + 0.3
    x, y = (torch.linspace(float(low[axis]), float(high[axis]), side) for axis in (0, 1))
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 2)
    probs = predict_probabilities(network, task.views, grid, task.device)
    chosen = _some(task, POINTS)
    run.write_json(
        "boundary.json",
        {
            "x": [round(float(v), 4) for v in x],
            "y": [round(float(v), 4) for v in y],
            "probs": [[round(float(p), 3) for p in row] for row in probs[:, 1].reshape(side, side)],
            "points": [[round(float(v), 3) for v in point] for point in items[chosen]],
            "truth": task.examples.labels[chosen].tolist(),
            "labeled": torch.isin(chosen, task.split.labeled).nonzero().flatten().tolist(),
        },
    )
