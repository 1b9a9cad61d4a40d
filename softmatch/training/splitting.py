"""Which samples of a job are labelled, unlabelled and held out, by its settings."""

from __future__ import annotations

from typing import Literal

import torch

from softmatch.config import Config
from softmatch.data import Examples, Split, make_long_tailed_split, make_split
from softmatch.data.examples import UNLABELED
from softmatch.data.folds import FEWEST, Evaluation, hold_out, plan_evaluation, without
from softmatch.errors import InputError
from softmatch.training.opening import Job, split_seed


def choose_evaluation(job: Job) -> Evaluation:
    """What is trained on, and what the error is measured on.

    All labels of a user's own data are used, unless their number is given; of other sources some are drawn.
    """
    config, examples, groups = job.config, job.examples, job.examples.groups
    seed = split_seed(config)
    drawn = examples.test is None or config.validation_per_class is not None  # out of the training set
    kind: Literal["holdout", "test"] = "holdout" if drawn else "test"
    if groups is None or config.imbalance is not None:
        return Evaluation(kind, _split(job.source, config, examples, seed))
    if config.labels is None:
        return plan_evaluation(examples, groups, seed, config.evaluation, config.folds, config.test_fraction)
    if config.evaluation not in ("auto", "holdout"):
        raise InputError("--labels hides the other labels and measures on some of them: leave out --evaluation.")
    parts = None
    if examples.test is None:
        known = int((examples.labels != UNLABELED).sum())
        share = max(config.test_fraction, min(0.5, FEWEST / known))  # the hidden labels cost nothing
        rest = Split(torch.arange(0), torch.arange(len(examples)), torch.arange(0), seed)
        held_out = without(rest, groups, hold_out(examples.labels, groups, share, seed))
        parts = held_out.test, held_out.unlabeled
    return Evaluation(kind, make_split(examples, config.labels, seed, config.test_fraction, parts))


def _split(source: str, config: Config, examples: Examples, seed: int) -> Split:
    if config.imbalance is None:
        return make_split(examples, config.labels or len(examples.classes) * 4, seed, config.test_fraction)
    if config.largest_class_labels is None or config.largest_class_unlabeled is None:
        raise InputError(f"a long-tailed split of {source!r} needs --largest-class-labels and --largest-class-unlabeled.")
    return make_long_tailed_split(
        examples,
        head_labeled=config.largest_class_labels,
        head_unlabeled=config.largest_class_unlabeled,
        gamma=config.imbalance,
        gamma_unlabeled=config.unlabeled_imbalance,
        seed=seed,
        test_fraction=config.test_fraction,
    )
