"""Default settings for a user's own data: network, batches, steps and views by kind, size, labels, classes and device."""

from typing import Any

import torch

from softmatch.data.examples import UNLABELED, Examples

FOLD_SHARE = 0.2
MINUTES = 20.0
"""Length of a run on images of one's own on a CPU, folds and baselines included."""
ONE_THREAD = 16
"""Largest side of images for which a second thread does not pay."""
SERIES_STEPS = 500
EPOCHS, FEWEST_STEPS, BATCHES = 100, 300, (32, 256)
"""On a CPU a run ends earlier if it has seen each unlabelled image that often; its fewest steps, and the size of its batches."""


def suitable(
    examples: Examples, labeled: int, device: torch.device, encoder: str | None = None, tune: str = "head"
) -> dict[str, Any]:
    """Choose the settings (of `Config`) that differ from the general defaults. Experiments are in benchmarks/LOG.md.

    Args:
        labeled: number of labelled samples.
        encoder, tune: a pretrained encoder, and its trained part.
    """
    found: dict[str, Any] = {"test_fraction": FOLD_SHARE}
    if labeled == examples.number and bool((examples.labels != UNLABELED).all()):
        found["method"] = "supervised"
    quick = device.type != "cpu"
    found["labeled_batch"] = min(64, max(16, labeled))
    if encoder is not None and tune != "head":
        rates: dict[str, Any] = {"optimizer": "adamw", "lr": 5e-5, "head_rate": 20.0, "batch_statistics": "separate"}
        batches = {"steps": 500, "labeled_batch": 8, "unlabeled_batch": 16}
        if tune.startswith("last-"):  # a step costs less than an evaluation, and no views of words or pixels are needed
            batches = {"steps": 300, "labeled_batch": 16, "unlabeled_batch": 32, "evaluate_every": 30}
            rates["lr"] = 1e-4
        return found | {"network": f"encoder={encoder}"} | batches | rates
    if examples.kind == "vector":
        return found | _vectors(examples)
    if examples.kind == "series":
        heard = examples.preparation is not None and examples.preparation.takes == "sound"
        length = {"network": "series-32" if heard else "series-16", "steps": SERIES_STEPS, "unlabeled_batch": 128, "threads": 1}
        aligned = {} if heard or "method" in found else {"method_options": {"align": "estimated"}}
        return found | length | {"optimizer": "adam", "lr": 2e-3} | aligned | ({"folds": 3} if heard else {})
    if examples.kind == "array":  # network and views are the user's: nothing is known of their cost
        return found | {"network": "mlp-128", "steps": 500, "unlabeled_batch": 128, "optimizer": "adam", "lr": 2e-3}
    return found | _images(examples, quick)


def _vectors(examples: Examples) -> dict[str, Any]:
    """Choose a perceptron for rows of a table, or for features of texts and images."""
    size = max(examples.items.shape[1], len(examples.classes))
    width = 64 if size <= 32 else 128 if size <= 128 else 256
    prepared = examples.preparation
    encoded = prepared is not None and prepared.settings()["kind"] == "encoder"
    found: dict[str, Any] = {"network": f"mlp-{width}", "optimizer": "adam", "lr": 2e-3, "threads": 1}
    if encoded and prepared is not None and prepared.takes != "text":
        return found | {"steps": 500, "unlabeled_batch": 512, "views": {"weak_noise": 0.1, "strong_noise": 2.0}}
    views = {"weak_noise": 0.1, "strong_noise": 1.0 if encoded else 0.5, "swap": 0.2}
    return found | {"steps": 1000, "unlabeled_batch": 512 if encoded else 256, "views": views}


def _images(examples: Examples, quick: bool) -> dict[str, Any]:
    """On a CPU choose the sprint, for as long as it pays; with an accelerator, the network of that size."""
    side = max(examples.items.shape[-2:])
    views = {"pad": max(side // 8, 1)}
    if quick:
        return {"steps": 20_000, "views": views}
    batch = min(max(examples.number, BATCHES[0]), BATCHES[1])
    steps = max(EPOCHS * examples.number // batch, FEWEST_STEPS)
    length = {"recipe": "sprint", "minutes": MINUTES, "steps": steps, "folds": 3}
    return length | {"unlabeled_batch": batch, "views": views} | ({"threads": 1} if side <= ONE_THREAD else {})
