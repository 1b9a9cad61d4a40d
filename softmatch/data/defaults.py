"""Default settings for a user's own data: network, batches, steps and views by kind, size, labels, classes and device."""

from typing import Any

import torch

from softmatch.data.examples import UNLABELED, Examples

FOLD_SHARE = 0.2


def suitable(examples: Examples, labeled: int, device: torch.device, encoder: str | None = None) -> dict[str, Any]:
    """Choose the settings (of `Config`) that differ from the general defaults. Experiments are in benchmarks/LOG.md.

    Args:
        labeled: number of labelled samples.
        encoder: a pretrained encoder that is trained too.
    """
    found: dict[str, Any] = {"test_fraction": FOLD_SHARE}
    if bool((examples.labels != UNLABELED).all()) and labeled == len(examples):
        found["method"] = "supervised"
    quick = device.type != "cpu"
    found["labeled_batch"] = min(64, max(16, labeled))
    if encoder is not None:
        rates = {"optimizer": "adamw", "lr": 5e-5, "head_rate": 20.0, "batch_statistics": "separate"}
        batches = {"steps": 500, "labeled_batch": 8, "unlabeled_batch": 16}
        return found | {"network": f"encoder={encoder}"} | batches | rates
    if examples.kind == "vector":
        return found | _vectors(examples)
    return found | _images(examples, quick)


def _vectors(examples: Examples) -> dict[str, Any]:
    """Choose a perceptron for rows of a table, or for features of texts and images."""
    size = max(examples.items.shape[1], len(examples.classes))
    width = 64 if size <= 32 else 128 if size <= 128 else 256
    prepared = examples.preparation
    embedded = prepared is not None and prepared.takes == "text" and prepared.settings()["kind"] == "encoder"
    return {
        "network": f"mlp-{width}",
        "steps": 1000,
        "unlabeled_batch": 512 if embedded else 256,
        "optimizer": "adam",
        "lr": 2e-3,
        "threads": 1,
        "views": {"weak_noise": 0.1, "strong_noise": 1.0 if embedded else 0.5, "swap": 0.2},
    }


def _images(examples: Examples, quick: bool) -> dict[str, Any]:
    """On a CPU choose a network, steps and a cross-fit that take minutes; with an accelerator, the network of that size."""
    side = max(examples.items.shape[-2:])
    views = {"pad": max(side // 8, 1)}
    if quick:
        return {"steps": 20_000, "views": views}
    width = 32 if side <= 16 else 16
    return {"network": f"small-conv-{width}", "steps": 800, "unlabeled_batch": 64, "views": views, "folds": 3}
