"""From a job to a trainer: task, method, network, batches and averages."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from softmatch.averages import PAPER_MOMENTUM, momentum_for
from softmatch.config import Config
from softmatch.data import Split
from softmatch.data.evaluation import Evaluation
from softmatch.data.examples import UNLABELED
from softmatch.distributed import processes
from softmatch.distributed.batch_norm import synchronise
from softmatch.distributed.devices import choose_device
from softmatch.encoders.layers import depths
from softmatch.errors import InputError
from softmatch.methods import Method, Problem, build
from softmatch.methods.base import DISTIL, Distilled
from softmatch.networks import Network, Tuning, build_network, choose_network, describe_network, is_own
from softmatch.networks.heads import Headed, feature_size
from softmatch.networks.prediction import predict_probabilities
from softmatch.networks.shallow import Shallow
from softmatch.seeds import derive
from softmatch.training.activations import Encoding, cache_activations, sample_activations
from softmatch.training.arithmetic import choose_precision, flushes, set_flushing, use_threads
from softmatch.training.ema import ModelAverage
from softmatch.training.inputs import length_buckets, make_task_batches, make_views
from softmatch.training.loop import Parts, Trainer
from softmatch.training.opening import Job, choose_evaluation, split_seed
from softmatch.training.refusals import refuse_misfit, refuse_unfit, try_network
from softmatch.training.schedule import make_optimizer
from softmatch.training.task import Task
from softmatch.views import OwnViews, Views

LOG = logging.getLogger(__name__)
TESTED = (2, 13)
"""Newest torch that the tests have seen; pyproject.toml allows none above it."""
RECORDS_PER_RUN = 40
CHECKPOINTS_PER_RUN = 10
POOL_PART = 8192
LONGEST_SETTING = 500
CPU_MICRO_BATCH = 64
"""Number of images whose activations fit into a processor's cache; see benchmarks/results/step.md."""
ADAPTED = 1000
"""Number of images whose patches a shallow network whitens."""
CHECKED = 64
"""Number of items on which views of the user's own are tried."""
RANK = 8
"""Rank of adapters, unless the user gives another."""


@cache
def warn_of_untested(version: str) -> None:
    """Log a warning, once, if this version of torch is newer than the tests."""
    if tuple(int(part) for part in version.split(".")[:2]) > TESTED:
        newest = ".".join(map(str, TESTED))
        LOG.warning("torch %s is newer than %s, the last version that softmatch was tested with.", version, newest)


def prepare_job(job: Job, network: Network | None = None, say: Callable[[str], None] | None = None) -> Task:
    """Make the split and resolve "auto" settings. With --tune last-N, the activations that are missing are cached."""
    warn_of_untested(torch.__version__)
    task, built = prepare_items(job, network)
    if task.config.last_layers is None:
        return task
    with processes.first_of_machine():
        return cache_activations(task, built, say)


def prepare_sample(job: Job, network: Network | None = None) -> tuple[Task, Encoding | None]:
    """Do what `prepare_job` does, to time a few steps. Nothing is cached; what that would cost is returned."""
    task, built = prepare_items(job, network)
    return (task, None) if task.config.last_layers is None else sample_activations(task, built)


def prepare_items(job: Job, network: Network | None = None) -> tuple[Task, Any]:
    """Make the task, with items as they were read, and its network. Nothing is written."""
    examples, config = job.examples, job.config
    if config.threads is not None:
        use_threads(config.threads)
    evaluation = choose_evaluation(job)
    chosen = choose_network(config.network, examples.kind, examples.items.shape[1:]) if network is None else network
    refuse_misfit(config, chosen, examples.kind)
    views = make_views(examples, evaluation.final, {} if config.last_layers else config.views, config.workers)
    if isinstance(views, OwnViews):
        assert isinstance(examples.items, Tensor)
        views.check(examples.items[:: max(len(examples) // CHECKED, 1)][:CHECKED].to(choose_device(config.device)))
    built = build_network(chosen, examples.items.shape[1:], len(examples.classes), tuning=_tuning(config))
    if config.layer_decay != 1.0 and not any(depths(built).values()):
        raise InputError("--layer-decay: no layers were found in this encoder. Leave it out.")
    try_network(built, describe_network(chosen), examples, views)
    precision = choose_precision(config, built, tuple(examples.items.shape[1:]), choose_device(config.device))
    job = replace(job, config=config.model_copy(update={"precision": precision}))
    return make_task(job, evaluation, views, chosen, built), built


@contextmanager
def restored_state() -> Iterator[None]:
    """Train in this block: denormal numbers are zero, and torch's generators, threads and mode are restored afterwards."""
    threads, mode = torch.get_num_threads(), flushes()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            set_flushing(True)
            yield
    finally:
        set_flushing(mode)  # also in threads that are no longer used
        use_threads(threads)


def make_task(job: Job, evaluation: Evaluation, views: Views, network: Network, built: nn.Module) -> Task:
    """Put a task together; `built` is the network as a module."""
    return Task(
        **vars(job),
        split=evaluation.final,
        views=views,
        network=network,
        parameters=sum(p.numel() for p in built.parameters()),
        num_features=feature_size(built),
        device=choose_device(job.config.device),
        evaluation=evaluation,
        processes=processes.world().size,
        trained=sum(p.numel() for p in built.parameters() if p.requires_grad),
    )


def _tuning(config: Config) -> Tuning:
    """Settings for the trained part of an encoder and its head."""
    if config.last_layers is not None:
        return Tuning(config.head, config.last_layers, config.lora, cached=True)
    return Tuning(config.head, config.tuned_layers, (config.lora or RANK) if config.tune == "lora" else config.lora)


def effective(task: Task) -> dict[str, Any]:
    """All settings as plain values, with "auto" and open settings resolved."""
    config = task.config
    share = "the network's own" if is_own(task.network) else _norm_share(task, build_method(task, config.method))
    # Nobody reads long lists, such as the means of 256 features.
    views = {key: value for key, value in task.views.settings().items() if key != "kind" and len(str(value)) <= LONGEST_SETTING}
    return config.model_dump(mode="json") | {
        "labels": len(task.split.labeled),
        "network": task.network_name,
        "device": str(task.device),
        "processes": task.processes,
        "threads": torch.get_num_threads(),
        "split_seed": split_seed(config),
        "views": views,
        "statistics_momentum": _momentum(config, config.statistics_momentum),
        "model_momentum": _momentum(config, config.model_momentum),
        "batch_norm_momentum": share,
        "micro_batch": micro_batch(task),
        "length_buckets": length_buckets(config, task.examples.kind),
        "evaluate_every": _evaluate_every(config),
        "checkpoint_every": checkpoint_every(config),
    }


def micro_batch(task: Task) -> int:
    """Largest number of images in one pass of separate statistics; 0 for whole views."""
    if task.config.batch_statistics == "joint":
        return 0
    if task.config.micro_batch is not None:
        return task.config.micro_batch
    return CPU_MICRO_BATCH if task.device.type == "cpu" and task.examples.kind == "image" else 0


def _norm_share(task: Task, method: Method) -> float:
    """Momentum of the running statistics per pass. A step of several passes moves them as far as a step of one."""
    config, most = task.config, micro_batch(task)
    if config.batch_norm_momentum is not None:
        return config.batch_norm_momentum
    passes = 1
    if config.batch_statistics == "separate":
        batches = [config.labeled_batch] * len(method.labeled_views)
        tracked = method.unlabeled_views if method.tracked_views is None else method.tracked_views
        batches += [config.unlabeled_batch] * sum(name != "weak" or config.teacher == "network" for name in tracked)
        shares = [-(-size // task.processes) for size in batches]  # the largest: all processes must count equally
        passes = sum(-(-size // most) if most else 1 for size in shares)
    return 1.0 - float(_momentum(config, None) ** (1.0 / passes))


def _evaluate_every(config: Config) -> int:
    return config.evaluate_every or max(config.steps // RECORDS_PER_RUN, 1)


def checkpoint_every(config: Config) -> int:
    """Number of steps between checkpoints; by default a multiple of the record interval, so that each has its error."""
    every = _evaluate_every(config)
    return config.checkpoint_every or max(round(config.steps / CHECKPOINTS_PER_RUN / every), 1) * every


def build_method(task: Task, name: str) -> Method:
    """Build a method for this task; its momenta follow from the number of steps."""
    config, labels = task.config, task.examples.labels[task.split.labeled]
    counts = torch.bincount(labels, minlength=len(task.examples.classes)).double()
    problem = Problem(
        num_classes=len(task.examples.classes),
        num_unlabeled=task.pool_size,
        num_labeled=len(labels),
        class_counts=tuple(counts.long().tolist()),
        labeled_batch=config.labeled_batch,
        unlabeled_batch=config.unlabeled_batch,
        kind=task.examples.kind,
        shape=task.shape,
        total_steps=config.steps,
        momentum=_momentum(config, config.statistics_momentum),
        start="debiased" if config.averages == "scaled" else "paper",
        class_prior=tuple((counts / counts.sum()).tolist()),
    )
    if name == DISTIL:
        method: Method = Distilled(partial(_teacher(task), task.split))
    else:
        method = build(name, problem, config.method_options if name == config.method else None)
    refuse_unfit(task, method, name)
    return method


def _teacher(task: Task) -> Callable[[Split], tuple[Tensor, Tensor]]:
    if task.teacher is None:
        raise InputError(f"method {DISTIL!r} learns from a finished run: use softmatch distil RUN --out FOLDER.")
    return task.teacher


def _momentum(config: Config, given: float | None) -> float:
    if given is not None:
        return given
    return PAPER_MOMENTUM if config.averages == "paper" else momentum_for(config.steps)


def make_trainer(task: Task, method: Method, check: Callable[[], None] | None = None) -> Trainer:
    """Make the trainer of one network: its weights, batches, optimiser and averages follow from the seed."""
    config = task.config
    make = partial(
        make_optimizer,
        name=config.optimizer,
        lr=config.lr,
        weight_decay=config.weight_decay,
        decay=config.decay,
        layer_decay=config.layer_decay,
        head_rate=config.head_rate,
    )

    def make_parts(generation: int, added: Tensor | None) -> Parts:
        network = _network(task, method, generation)
        average = ModelAverage(network, _momentum(config, config.model_momentum), warm=config.averages == "scaled")
        return Parts(network, make_task_batches(task, method, added), make(network), average)

    return Trainer(
        make_parts,
        method.to(task.device),
        config,
        make_optimizer=make,
        predict_pool=partial(_predict_pool, task, check),
        num_classes=len(task.examples.classes),
        truth=_truth(task),
        every=_evaluate_every(config),
        device=task.device,
        micro_batch=micro_batch(task) or None,
    )


def _truth(task: Task) -> Tensor:
    """True classes of the unlabelled samples; −1 for all where only those of labelled samples are known, or they are streamed."""
    if task.examples.streamed is not None:
        return torch.full((1,), UNLABELED, device=task.device).expand(task.pool_size)  # one number in memory
    truth = task.examples.labels[task.split.unlabeled]
    hidden = truth[~torch.isin(task.split.unlabeled, task.split.labeled)]
    return truth if bool((hidden != UNLABELED).any()) else torch.full_like(truth, UNLABELED)


def _network(task: Task, method: Method, generation: int) -> nn.Module:
    """Make a network with new weights and the heads that the method needs."""
    seed = task.config.seed
    torch.manual_seed(derive(seed, "network") if not generation else derive(seed, "network", generation))
    share, tuning = _norm_share(task, method), _tuning(task.config)
    network = build_network(task.network, task.shape, len(task.examples.classes), share, tuning=tuning)
    if isinstance(network, Shallow):
        network.adapt(task.views.plain(task.some_items(ADAPTED)))
    if task.num_features is not None and (heads := method.heads(task.num_features)):
        network = Headed(network, heads)
    network = network.to(task.device)
    if task.examples.kind == "image" and not is_own(task.network):  # a user's own may need the usual layout
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    if task.processes > 1 and not micro_batch(task):  # each pass of a micro-batch has its own statistics
        network = synchronise(network)
    return network


def _predict_pool(task: Task, check: Callable[[], None] | None, network: nn.Module) -> Tensor:
    """Predict all unlabelled samples in parts: one slice of them all would be a second copy in memory."""
    predict = partial(predict_probabilities, network, task.views, device=task.device, workers=task.config.workers)
    parts = torch.split(task.split.unlabeled, POOL_PART)
    return torch.cat([predict(task.items[part], shared=True, check=check) for part in parts])
