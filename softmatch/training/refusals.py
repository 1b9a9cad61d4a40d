"""Settings that do not suit the data, the network or the method; they are refused before anything is trained or written."""

import torch
from torch import Tensor, nn

from softmatch.config import Config
from softmatch.data import Examples
from softmatch.errors import InputError
from softmatch.methods import Method
from softmatch.networks import Network, describe_network, is_encoder
from softmatch.training.inputs import hold_out
from softmatch.training.task import Task
from softmatch.views import OwnViews, Views

ENCODER_ONLY = ("layer_decay", "head_rate", "tuned_layers", "lora", "head")
"""Settings for fine-tuning a pretrained encoder."""


def refuse_misfit(config: Config, network: Network, kind: str) -> None:
    """Raise InputError for settings for fine-tuning an encoder where none is trained; `kind` is that of the items."""
    missing = "give --tune" if config.encoder is not None else "give --encoder and --tune"
    for key in ENCODER_ONLY:
        if getattr(config, key) != Config.model_fields[key].default and not is_encoder(network):
            raise InputError(
                f"--{key.replace('_', '-')} is for a pretrained encoder that is trained, and the network here is "
                f"{describe_network(network)!r}. Leave it out, or {missing}."
            )
    if config.last_layers is not None:
        if not is_encoder(network):
            raise InputError(f"--tune {config.tune} trains the last layers of a pretrained encoder. Leave out --network.")
        for key in ("compile", "small_images"):
            if getattr(config, key):
                raise InputError(f"--{key.replace('_', '-')} does not work with --tune {config.tune}. Leave it out.")
    if config.tuned_layers is not None and config.tune not in ("head", "all"):
        raise InputError(f"--tuned-layers is for --tune all, and this is --tune {config.tune}. Leave it out.")
    if config.length_buckets is not None and kind != "text":
        raise InputError(
            "--length-buckets is for texts and a pretrained encoder that is trained. "
            f"Leave it out{'' if config.tune != 'head' else f', or {missing}'}."
        )


@torch.no_grad()
def try_network(network: nn.Module, name: str, examples: Examples, views: Views) -> None:
    """Pass two items through the network before anything is written; it must return a logit for each class."""
    items = examples.items if isinstance(examples.items, Tensor) else torch.zeros(2, *examples.items.shape[1:], dtype=torch.uint8)
    wanted = (min(len(items), 2), len(examples.classes))
    try:
        shape = tuple(network.eval()(views.plain(items[:2])).shape)
    except Exception as error:
        shape_in = "×".join(map(str, items.shape[1:]))
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"network {name!r} cannot process items of {shape_in}: {reason}") from error
    if shape != wanted:
        raise InputError(f"network {name!r} returns {shape} for a batch of two. It must return {wanted}, a logit for each class.")


def refuse_unfit(task: Task, method: Method, name: str) -> None:
    """Raise InputError if this task lacks something that the method needs, before anything is trained or written."""
    kind, labels = task.examples.kind, task.examples.labels[task.split.labeled]
    if task.examples.streamed is not None:
        _refuse_unstreamed(task, method, name)
    if task.activations is not None and "text" not in method.kinds:
        raise InputError(
            f"method {name!r} changes the items themselves, and --tune {task.config.tune} trains on activations of an encoder. "
            "Use another --tune or method."
        )
    if kind not in method.kinds:
        raise InputError(f"method {name!r} cannot train on items of kind {kind!r}; it is for {' and '.join(method.kinds)}.")
    if isinstance(task.views, OwnViews):
        for view in (*method.labeled_views, *method.unlabeled_views):
            task.views.require(view.partition("_")[0])
    if method.needs_features and task.num_features is None:
        raise InputError(
            f"method {name!r} uses the features of the network; {task.network_name!r} does not show them. Give it a method "
            "features(x) and a linear layer `head` from features to logits."
        )
    if task.config.neighbours and task.config.teacher != "average":
        raise InputError("--neighbours is for --teacher average. Give both, or leave it out.")
    if task.config.neighbours and task.num_features is None:
        raise InputError(
            f"--neighbours uses the features of the network; {task.network_name!r} does not show them. Leave it out."
        )
    if "validation" in method.streams and int(torch.bincount(labels).max()) < 2:
        raise InputError(f"method {name!r} keeps some labels out of training. Give two or more of a class.")
    if task.config.warmup > task.config.steps // method.generations:
        each = f" in each of {method.generations} generations" if method.generations > 1 else ""
        raise InputError(
            f"--warmup {task.config.warmup} is more than the {task.config.steps // method.generations} steps{each}. Give fewer."
        )
    if method.generations > task.config.steps:
        raise InputError(f"method {name!r} has {method.generations} generations, more than --steps {task.config.steps}.")
    if (number := task.processes) == 1:
        return
    batches = {"--labeled-batch": task.config.labeled_batch}
    if method.unlabeled_views or "validation" in method.streams:
        batches["--unlabeled-batch"] = task.config.unlabeled_batch
    for option, size in batches.items():
        if size < number:
            raise InputError(
                f"{option} {size} has no row for each of {number} processes. Use {number} or more, or fewer processes."
            )
    for split in (task.split, *task.evaluation.folds) if "validation" in method.streams else ():
        if (held_out := len(hold_out(task, split, method)[1])) < number:
            raise InputError(
                f"method {name!r} learns from labels that it keeps out of training, here {held_out}, and each of {number} "
                "processes needs one. Use more --labels, or fewer processes."
            )


def _refuse_unstreamed(task: Task, method: Method, name: str) -> None:
    """Raise InputError for what needs predictions or labels of the whole unlabelled set, where that is streamed."""
    number = f"the {task.pool_size:,} unlabelled samples of these shards"
    if method.survey_every is not None or method.generations > 1:
        raise InputError(f"method {name!r} predicts all unlabelled samples again and again; {number} are streamed. Use another.")
    if task.config.imbalance is not None:
        raise InputError(f"--imbalance draws from samples with known classes; {number} are streamed. Leave it out.")
    if task.teacher is not None:
        raise InputError(f"a model is distilled on samples in memory; {number} are streamed. Give a folder of images.")
