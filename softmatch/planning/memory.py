"""Memory of one process by part: on its device, and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from softmatch.config import Config
from softmatch.planning.methods import MethodState
from softmatch.planning.networks import NetworkCost
from softmatch.planning.probe import Tally
from softmatch.planning.setting import Data

FLOAT, INDEX = 4, 8
MOMENTS = {"sgd": 1, "adam": 2, "adamw": 2}
"""Numbers that an optimiser keeps for each number of the weights."""
AT_WORK = 5
"""Tensors of the largest size that are there at once: input and output of an operation, their gradients, that of a shortcut."""
PATH = 350
"""Bytes of a file's path and its object in a list; measured (benchmarks/results/plan.md)."""


def optimizer_bytes(config: Config, trained: float) -> float:
    """What the optimiser keeps for so many numbers."""
    return FLOAT * MOMENTS[config.optimizer] * trained


def device_memory(
    config: Config,
    data: Data,
    cost: NetworkCost,
    tally: Tally,
    state: MethodState,
    views: tuple[Sequence[str], Sequence[str]],
    processes: int = 1,
) -> dict[str, float]:
    """Bytes on the device of each process.

    Weights, optimiser and data are whole on each; activations and views are of its share. What CUDA itself takes, and what its
    memory is scattered by, is not in it.

    Args:
        views: names of the labelled and of the unlabelled views of the method.
    """
    trained, half = cost.trained + tally.heads, 0.5 if config.precision != "float32" else 1.0
    kept = cost.saved * half * tally.learned_rows / tally.steps / processes
    largest_pass = tally.forward_rows / max(tally.forward, 1) / processes
    rows = (config.labeled_batch * len(views[0]) + config.unlabeled_batch * len(views[1])) / processes
    item = FLOAT * prod(data.shape)
    joint = 2 if config.batch_statistics == "joint" else 1  # all views once more, one after the other
    found = {
        "weights": float(cost.state + FLOAT * tally.heads),
        "gradients": float(FLOAT * trained),
        "optimiser": optimizer_bytes(config, trained),
        "averaged weights": float(cost.state - FLOAT * (cost.parameters - cost.trained) + FLOAT * tally.heads),
        "activations": kept,
        "work on the largest layer": AT_WORK * cost.largest * half * largest_pass,
        "views of the batch": rows * item * joint,
        "data": float(data.held + INDEX * data.unlabeled + data.labeled * data.item_bytes * (data.files is None)),
        "the method's state": float(state.held) + optimizer_bytes(config, state.trained / FLOAT) + state.trained,
    }
    if processes > 1:
        found["gradients as one message"] = float(FLOAT * trained)
    return found


def host_memory(data: Data, device_is_host: bool = False) -> dict[str, float]:
    """Bytes on the host of each process that grow with the data.

    Args:
        device_is_host: the data are counted there.
    """
    found = {
        "shuffles of two epochs": 2.0 * INDEX * data.unlabeled,
        "positions of the unlabelled set": float(INDEX * data.unlabeled),
        "labels": float(INDEX * data.train),
    }
    if data.files is not None:
        found["paths of files"] = float(PATH * data.train)
    elif not device_is_host:
        found["data"] = float(data.held)
    return found
