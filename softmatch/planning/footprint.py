"""Bytes of a run: in the memory of each process, in its run folder, and in files that all runs share."""

from __future__ import annotations

from math import prod

from softmatch.data.sources.image_datasets import PUBLISHED
from softmatch.data.split import LONGEST_LIST
from softmatch.planning.counts import Counted, records
from softmatch.planning.network_costs import FLOAT
from softmatch.planning.setting import Setting

INDEX, MOMENTS = 8, {"sgd": 1, "adam": 2, "adamw": 2}
"""Bytes of a position; numbers that an optimiser keeps for each number of the weights."""
AT_WORK, PATH, CHARACTERS = 5, 350, 4.5
"""Tensors of the largest size at work at once, bytes of a file's path, characters of a token (benchmarks/results/plan.md)."""
RECORD, RECORD_OF_A_CLASS, RECORD_OF_LABELS, FIGURE_OF_A_CLASS = 2560, 69, 140, 8
"""Bytes of a line of metrics.jsonl and of its figures per class; the same two of a baseline. Measured."""
KEPT, SAMPLES, REPORT, HEADER, RANDOM_STATE = 3, 16, 160_000, 300, 5056
"""Checkpoints that are kept, samples in a model's folder; bytes of report.html, of a tensor's headers, of a generator."""


def device_memory(counted: Counted, processes: int = 1) -> dict[str, float]:
    """Bytes on the device of each process, without CUDA's own part: weights and data are whole, activations are its share."""
    (_, config, data), cost, passes = counted.setting, counted.cost, counted.passes
    trained, half = cost.trained + counted.heads, 0.5 if config.precision != "float32" else 1.0
    moments, joint = MOMENTS[config.optimizer], 2 if config.batch_statistics == "joint" else 1  # all views once more
    found: dict[str, float] = {
        "weights": cost.state + FLOAT * counted.heads,
        "gradients": FLOAT * trained * (1 if processes == 1 else 2),  # once more as one message
        "optimiser": FLOAT * trained * moments,
        "averaged weights": cost.state - FLOAT * (cost.parameters - trained),
        "activations": cost.saved * half * passes.learned_rows / passes.steps / processes,
        "work on the largest layer": AT_WORK * cost.largest * half * passes.forward_rows / max(passes.forward, 1) / processes,
        "views of the batch": passes.views / processes * FLOAT * prod(data.shape) * joint,
        "data": data.held + INDEX * counted.unlabeled + counted.labeled * data.item_bytes * (data.files is None),
        "the method's state": counted.state + counted.state_trained * (1 + moments),
    }
    return found


def host_memory(counted: Counted) -> dict[str, float]:
    """Bytes on the host of each process that grow with the data."""
    data = counted.setting.data
    files = {"paths of files": PATH * data.train} if data.files is not None else {"data": data.held}
    return {"shuffles and positions": 3 * INDEX * counted.unlabeled, "labels": INDEX * data.train, **files}


def checkpoint_bytes(counted: Counted, baseline: bool = False) -> float:
    """A checkpoint: weights, average, optimiser, the method's state, last predictions, records."""
    cost, heads, moments = counted.cost, 0 if baseline else counted.heads, MOMENTS[counted.setting.config.optimizer]
    weights = 2 * cost.state - FLOAT * (cost.parameters - cost.trained - 2 * heads) + FLOAT * moments * (cost.trained + heads)
    own = 0 if baseline else counted.state + moments * counted.state_trained
    predictions = FLOAT * counted.tested * counted.setting.data.classes
    return weights + own + predictions + metrics_bytes(counted, baseline) + HEADER * cost.tensors + RANDOM_STATE


def metrics_bytes(counted: Counted, baseline: bool = False) -> int:
    """metrics.jsonl of a training."""
    line, figure = (RECORD_OF_LABELS, FIGURE_OF_A_CLASS) if baseline else (RECORD, RECORD_OF_A_CLASS)
    return records(counted.setting) * (line + figure * counted.setting.data.classes)


def split_bytes(counted: Counted) -> float:
    """split.json: a line for each position, unless the unlabelled set is a long row of successive ones."""
    number, longest = counted.setting.data.train, len(str(counted.setting.data.train - 1))
    digits: float = longest - sum(10**shorter for shorter in range(1, longest)) / number  # the mean of 0 … number − 1
    listed = 0 if counted.unlabeled == number >= LONGEST_LIST else counted.unlabeled
    return 280.0 + (counted.labeled + counted.held_out + listed) * (4 + digits)


def run_storage(counted: Counted) -> dict[str, float]:
    """A finished run folder; of the folds of a cross-fit only the records stay."""
    baseline = KEPT * checkpoint_bytes(counted, baseline=True) + counted.cost.state
    each = metrics_bytes(counted) + metrics_bytes(counted, baseline=True) * bool(counted.baselines)
    return {
        "checkpoints": KEPT * checkpoint_bytes(counted),
        "model": counted.cost.state + SAMPLES * counted.setting.data.item_bytes,
        "baseline": baseline * (counted.baselines == 1 and not counted.folds),
        "records and report": (1 + counted.folds) * each + REPORT,
        "split.json": split_bytes(counted),
    }


def shared_storage(setting: Setting) -> dict[str, float]:
    """Files that all runs on the same data share: the data, back-translations, features of an encoder."""
    data, samples, found = setting.data, setting.data.train + setting.data.tested, dict[str, float]()
    if data.files or setting.source in PUBLISHED:
        found["data"] = data.files or samples * (data.item_bytes + INDEX)
    if data.tokens is not None:
        found["texts"] = (samples + data.versions * data.train) * data.tokens[0] * CHARACTERS
        found["features"] = samples * data.item_bytes * (data.kind == "vector" and setting.config.encoder is not None)
    return found
