"""Bytes on disk: of one run folder, and of what several runs share."""

from __future__ import annotations

from math import ceil

from softmatch.config import Config
from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.planning.memory import optimizer_bytes
from softmatch.planning.methods import MethodState
from softmatch.planning.networks import NetworkCost
from softmatch.planning.probe import Tally
from softmatch.planning.setting import Data, Setting, split_is_listed
from softmatch.training.setup import RECORDS_PER_RUN

FLOAT, INDEX = 4, 8
KEPT = 3
"""Checkpoints of a network: the newest two and the best, which may be one of them."""
RECORD, CURVE, RECORD_OF_A_CLASS = 860, 1700, 69
"""Bytes of a line of metrics.jsonl with its histograms, of the weight curve of methods that have one, and of the figures of each
class and the marginal. Measured on real runs; of short ones the histograms are shorter (benchmarks/results/plan.md)."""
RECORD_OF_LABELS, FIGURE_OF_A_CLASS = 140, 8
"""The same of labels alone, which have one figure of a class."""
REPORT = 160_000
"""report.html; it grows little with the run. Measured."""
HEADER_OF_A_TENSOR, RANDOM_STATE = 100, 5056
"""Of a tensor in a checkpoint's header, about; of torch's generator."""
SAMPLES = 16


def records(config: Config) -> int:
    """Evaluations of a run, each of which is a line of metrics.jsonl."""
    every = config.evaluate_every or max(config.steps // RECORDS_PER_RUN, 1)
    return ceil(config.steps / every)


def metrics_bytes(config: Config, classes: int, tally: Tally | None) -> float:
    """metrics.jsonl of a whole run.

    Args:
        tally: of the method; None: labels alone, as of the twin.
    """
    if tally is None:
        return records(config) * (RECORD_OF_LABELS + FIGURE_OF_A_CLASS * classes)
    return records(config) * (RECORD + CURVE * tally.curve + RECORD_OF_A_CLASS * classes)


def checkpoint_bytes(
    setting: Setting, cost: NetworkCost, tally: Tally | None, state: MethodState | None, tensors: int = 0
) -> float:
    """One checkpoint: weights, averaged weights, optimiser, state of the method, the last predictions, and the records so far.

    Args:
        tally, state: of the method; None: labels alone.
        tensors: of the network's state, for the file's header.
    """
    config, data, heads = setting.config, setting.data, 0 if tally is None else tally.heads
    extra, trained = FLOAT * heads, cost.trained + heads
    averaged = cost.state - FLOAT * (cost.parameters - cost.trained) + extra
    own = 0.0 if state is None else state.saved + optimizer_bytes(config, state.trained / FLOAT)
    tested = FLOAT * data.tested * data.classes
    lines = metrics_bytes(config, data.classes, tally)
    header = HEADER_OF_A_TENSOR * 3 * tensors + RANDOM_STATE
    return cost.state + extra + averaged + optimizer_bytes(config, trained) + own + tested + lines + header


def split_bytes(data: Data) -> float:
    """split.json: a line for each position, unless the set is a long row of successive ones."""
    listed = data.labeled + data.held_out
    listed += data.unlabeled if split_is_listed(data) else 0
    return 280 + listed * (4 + mean_digits(data.train))


def mean_digits(number: int) -> float:
    """Of the positions 0 … number − 1."""
    total, low, digits = 0, 0, 1
    while low < number:
        high = min(10**digits, number)
        total += (high - low) * digits
        low, digits = high, digits + 1
    return total / max(number, 1)


def run_storage(
    setting: Setting, cost: NetworkCost, tally: Tally, state: MethodState, twin: bool, tensors: int = 0
) -> dict[str, float]:
    """A finished run folder; while it is written, another checkpoint comes and goes."""
    config, data = setting.config, setting.data
    found = {
        "checkpoints": KEPT * checkpoint_bytes(setting, cost, tally, state, tensors),
        "model": float(cost.state + SAMPLES * data.item_bytes),
        "metrics": metrics_bytes(config, data.classes, tally),
        "split.json": split_bytes(data),
        "report": float(REPORT),
    }
    if twin:
        found["twin"] = metrics_bytes(config, data.classes, None)
    if twin and not data.folds:
        found["twin"] += KEPT * checkpoint_bytes(setting, cost, None, None, tensors) + cost.state
    if data.folds:  # of each only the records stay
        each = found["metrics"] + found.get("twin", 0.0)
        found["records of the folds"] = data.folds * each
    return found


def shared_storage(setting: Setting) -> dict[str, float]:
    """What all runs on the same data share: the data as they are kept, features, back-translations."""
    config, data, found = setting.config, setting.data, dict[str, float]()
    everything = data.train + data.tested
    if data.files:
        found["files of images"] = float(data.files)
    elif setting.source in PUBLISHED:
        found["cached data"] = float(everything * (data.item_bytes + INDEX))
    if data.lengths is not None:
        found["texts"] = everything * data.lengths.characters
        if data.versions:
            found["back-translations"] = data.versions * data.train * data.lengths.characters
        if data.kind == "vector" and config.encoder is not None:
            found["features of the encoder"] = float(everything * data.item_bytes)
    return found
