"""Real steps on this machine in the place of an estimate, with random data of the planned sizes."""

from __future__ import annotations

from dataclasses import replace

import torch

from softmatch.data import Examples
from softmatch.errors import InputError
from softmatch.methods import Method
from softmatch.networks import is_encoder
from softmatch.planning.devices import Range
from softmatch.planning.plans import Counted
from softmatch.planning.setting import Setting
from softmatch.planning.timing import Speed
from softmatch.training.bench import device_name, measure
from softmatch.training.memory import keep_freed_memory
from softmatch.training.opening import Job
from softmatch.training.setup import build_method, make_trainer, prepare_job
from softmatch.training.task import Task

STEPS, BUDGET = 4, 30.0
PARTS = ("forward", "backward")


def random_task(setting: Setting, device: str) -> Task:
    """The task of a setting with random data, few but for whole batches. What a step costs the network does not depend on their
    number; what it costs the method may: see `sized_method`."""
    data, config = setting.data, setting.config
    few = {
        "labels": data.classes * 4,
        "imbalance": None,
        "unlabeled_imbalance": None,
        "head_labels": None,
        "head_unlabeled": None,
    }
    config = config.model_copy(update={**few, "device": device, "encoder": None, "recipe": None})
    number = max(data.classes * 8, 2 * config.unlabeled_batch)
    random = torch.Generator().manual_seed(0)
    if data.kind == "image":
        items = torch.randint(0, 256, (number, *data.shape), dtype=torch.uint8, generator=random)
    else:
        items = torch.randn(number, *data.shape, generator=random)
    names = tuple(map(str, range(data.classes)))
    test = Examples(items[:2], torch.arange(2) % data.classes, names, data.kind)
    return prepare_job(Job("random", config, Examples(items, torch.arange(number) % data.classes, names, data.kind, test=test)))


def sized_method(task: Task, name: str, unlabeled: int) -> Method:
    """The method with a memory of so many unlabelled samples; it is only ever shown those of the task."""
    many = torch.zeros(1, dtype=torch.int64).expand(unlabeled)  # takes the memory of one
    return build_method(replace(task, split=replace(task.split, unlabeled=many)), name)


def measured_speed(counted: Counted, device: str) -> Speed:
    """Time a few steps of the method, and of its twin where there is one.

    Args:
        device: of this machine: auto, cpu, cuda, mps.

    Raises:
        InputError: the encoder of texts would have to be here: `softmatch train --dry-run` measures it.
    """
    if is_encoder(counted.network):
        raise InputError("--measure needs the texts and the encoder: use softmatch train with the same settings and --dry-run.")
    keep_freed_memory()
    task = random_task(counted.setting, device)
    trainer = make_trainer(task, sized_method(task, task.config.method, counted.setting.data.unlabeled))
    found = measure(trainer, STEPS, budget=BUDGET)
    trainer.batches.close()
    twin = None
    if counted.twin:
        supervised = make_trainer(task, build_method(task, "supervised"))
        twin = measure(supervised, STEPS, budget=BUDGET / 2).seconds
        supervised.batches.close()
    rate = found.flops / found.seconds
    computed = sum(found.parts.get(part, 0.0) for part in PARTS)
    where = f"measured: {len(found.step)} steps on {device_name(task.device)}, {torch.get_num_threads()} threads, random data"
    beside = max(1.0 - computed / sum(found.parts.values()), 0.0)
    return Speed(Range(rate, rate), Range(0.0, 0.0), False, where, found.seconds, twin, beside, found.memory)
