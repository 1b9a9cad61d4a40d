"""Small tasks and trainers, prepared from a source or from examples."""

from typing import Any

import torch

from softmatch.config import Config, make_config
from softmatch.data import Examples, find_source
from softmatch.networks import Network
from softmatch.training.loop import Trainer
from softmatch.training.opening import Job, open_again
from softmatch.training.setup import build_method, make_trainer, prepare_job
from softmatch.training.task import Task

SMALL = {"steps": 12, "evaluate_every": 4, "unlabeled_batch": 24, "threads": 1}


def prepare(source: str, config: Config, network: Network | None = None) -> Task:
    """Read a source with complete settings, as of a run folder."""
    return prepare_job(open_again(source, config), network)


def prepare_examples(source: str, config: Config, examples: Examples, network: Network | None = None) -> Task:
    """Prepare examples that have been read; `source` names them."""
    return prepare_job(Job(source, config, examples), network)


def small_task(source: str = "two-moons", network: Network | None = None, **settings: Any) -> Task:
    """A task of twelve steps, unless the settings say otherwise."""
    return prepare(source, make_config(find_source(source).defaults, SMALL, settings), network)


def trainer_of(task: Task) -> Trainer:
    """Trainer of a task by its own method."""
    return make_trainer(task, build_method(task, task.config.method))


def copied_state(trainer: Trainer) -> dict[str, torch.Tensor]:
    """The state as a checkpoint would hold it."""
    return {name: tensor.clone() for name, tensor in trainer.state().items()}


def same_state(first: Trainer, second: Trainer) -> bool:
    """Bit for bit."""
    ours, theirs = first.state(), second.state()
    return ours.keys() == theirs.keys() and all(torch.equal(value, theirs[name]) for name, value in ours.items())
