"""All settings of a run: the data's defaults, overridden by a recipe from the paper's appendix, a file and the command line."""

from collections.abc import Mapping
from typing import Any

from softmatch.averages import PAPER_MOMENTUM, steps_for
from softmatch.config import Config, make_config, merge
from softmatch.errors import InputError
from softmatch.methods import METHODS

Settings = Mapping[str, Any]
DEFAULT_METHOD = Config.model_fields["method"].default

COMMON: Settings = {
    "steps": 2**20,
    "optimizer": "sgd",
    "lr": 0.03,
    "weight_decay": 5e-4,
    "decay": "gradient",
    "labeled_batch": 64,
    "unlabeled_batch": 448,
    "batch_statistics": "joint",
    "views": {"pad": 4, "flip": True, "reflect": True, "operations": 3, "cutout": 0.5},
}
"""Hyper-parameters that the paper's image experiments share: those of its table, and what its code adds."""

AVERAGES: Settings = {
    "averages": "paper",
    "statistics_momentum": PAPER_MOMENTUM,
    "model_momentum": PAPER_MOMENTUM,
    "batch_norm_momentum": 0.001,
}
"""Averages over a thousand steps, made for long runs."""

PAPER: Mapping[str, Settings] = {
    "cifar10": {"network": "wrn-28-2"},
    "cifar100": {"network": "wrn-28-8", "weight_decay": 1e-3},
    "svhn": {"network": "wrn-28-2"},
    "stl10": {"network": "wrn-37-2"},
    "imagenet": {
        "network": "resnet-50",
        "weight_decay": 3e-4,
        "labeled_batch": 128,
        "unlabeled_batch": 128,
        "batch_norm_momentum": 0.1,
    },
}
"""Differences by dataset in the paper's table of classic image classification."""

LONG_TAILED: Settings = {
    "network": "wrn-28-2",
    "optimizer": "adam",
    "lr": 0.002,
    "weight_decay": 4e-5,
    "decay": "shrink",
    "unlabeled_batch": 128,
    "steps": 250_000,
}
"""The paper's table of long-tailed image classification. It gives no number of steps; this is that of CoSSL, which it follows."""

HEADS: Mapping[str, Settings] = {
    "cifar10": {"largest_class_labels": 1500, "largest_class_unlabeled": 3000},
    "cifar100": {"largest_class_labels": 150, "largest_class_unlabeled": 300},
}
"""Sizes of the largest class in the paper's long-tailed splits."""

TEXT: Settings = {
    "encoder": "google-bert/bert-base-uncased",
    "tune": "all",
    "head": "gelu",
    "max_tokens": 512,
    "steps": 2**18,
    "optimizer": "adamw",
    "lr": 1e-5,
    "weight_decay": 1e-4,
    "decay": "gradient",
    "warmup": 0,
    "layer_decay": 1.0,
    "head_rate": 1.0,
    "labeled_batch": 16,
    "unlabeled_batch": 16,
    "length_buckets": 1,
    "views": {"weak": 0.0, "strong": 0.0},
    "averages": "paper",
    "statistics_momentum": PAPER_MOMENTUM,
    "model_momentum": 0.0,
}
"""The paper's table of text classification. Weak views are the texts themselves, strong views back-translations."""

TEXT_SIZES: Mapping[str, Settings] = {
    "agnews": {"validation_per_class": 2500},
    "dbpedia": {"train_per_class": 10_000, "validation_per_class": 1000},
    "imdb": {"validation_per_class": 1000},
    "amazon-5": {"train_per_class": 50_000, "validation_per_class": 5000},
    "yelp-5": {"train_per_class": 50_000, "validation_per_class": 5000},
}
"""Texts per class that the paper trains on (all others, where it gives no number) and validates on."""


SPRINT: Settings = {
    "network": "shallow",
    "optimizer": "muon",
    "lr": 0.1,
    "schedule": "triangular",
    "teacher": "average",
    "neighbours": 0.5,
    "strong_share": 0.5,
    "small_images": 0.4,
    "labeled_batch": 32,
    "unlabeled_batch": 256,
    "micro_batch": 128,
    "batch_statistics": "separate",
    "views": {"mirror": True},
}
"""Settings with which a network learns much of images in few steps, with any match method; not of the paper."""
MOST_STEPS = 10**9
"""Limit of the steps of a run whose length is given in minutes."""


def complete(source: str, defaults: Settings, *given: Settings, where: str = "settings") -> Config:
    """Complete the settings of a run.

    Args:
        defaults: of the data.
        given: settings of the user, in a file and on the command line; a later one overrides an earlier one.
    """
    user = merge(*given, where=where)
    if user.get("minutes") is not None and user.get("steps") is not None:
        raise InputError(f"{where}: minutes and steps exclude each other: the steps follow from the minutes. Give one of them.")
    defaults = _meant(defaults, user)
    recipe = _paper(source, user) if user.get("recipe") == "paper" else {}
    if user.get("minutes") is not None:
        user["steps"] = MOST_STEPS
    heads: Settings = {}
    if user.get("imbalance") is not None:
        if user.get("labels") is not None:
            raise InputError(f"{where}: labels and imbalance exclude each other. Give imbalance and largest_class_labels.")
        defaults, heads = {key: value for key, value in defaults.items() if key != "labels"}, HEADS.get(source, {})
    else:
        for key in ("unlabeled_imbalance", "largest_class_labels", "largest_class_unlabeled"):
            if user.get(key) is not None:
                raise InputError(f"{where}: {key} is for long-tailed splits. Give imbalance too, or leave it out.")
    if recipe:
        defaults = {key: value for key, value in defaults.items() if key != "views"}  # a recipe has all of them
    if defaults.get("recipe") == "sprint":  # batches and views that suit the data come with it
        defaults = merge(SPRINT, defaults)
    sprint = SPRINT if user.get("recipe") == "sprint" else {}
    if sprint and (":" in str(user.get("network")) or user.get("encoder") is not None):  # they may need images of one size
        sprint = {**sprint, "small_images": 0.0}
    if user.get("teacher") == "network":  # which has no neighbours
        sprint, defaults = ({**layer, **({"neighbours": 0.0} if layer else {})} for layer in (sprint, defaults))
    config = make_config(defaults, heads, recipe or sprint, user, where=where)
    if recipe and (config.minutes is not None or config.steps < steps_for(PAPER_MOMENTUM)):
        # Averages over a thousand steps would outlast a short run: they scale with its length. A momentum of 0 is none.
        followed = {key: value for key, value in recipe.items() if key not in AVERAGES or value == 0.0}
        config = make_config(defaults, heads, followed, user, where=where)
    if config.tune != recipe.get("tune", config.tune):
        raise InputError(f"{where}: the paper's recipe for texts trains the whole encoder. Leave out --tune, or --recipe.")
    if config.micro_batch and config.batch_statistics == "joint":
        raise InputError(f"{where}: micro_batch is for separate batch statistics, and these are joint. Leave it out.")
    return config


def _meant(defaults: Settings, user: Settings) -> Settings:
    """Defaults of the data that still hold beside the user's settings.

    A recipe of the data is for its own networks and optimiser. A length is given in minutes or in steps. Options are for the
    default method.
    """
    unmeant = set[str]()
    if user.get("method", DEFAULT_METHOD) != DEFAULT_METHOD:
        unmeant.add("method_options")
    other = not str(user.get("network", SPRINT["network"])).startswith(SPRINT["network"]) or user.get("optimizer") is not None
    if user.get("recipe") is not None or other:
        unmeant |= {"recipe", "minutes"}
    if user.get("steps") is not None:
        unmeant.add("minutes")
    if user.get("minutes") is not None:
        unmeant |= {"minutes", "steps"}
    return {key: value for key, value in defaults.items() if key not in unmeant}


def require_versions(source: str, config: Config, augmented: bool) -> None:
    """Raise InputError if the recipe needs back-translations as strong views, and the texts have none.

    Args:
        augmented: the texts have columns of them.
    """
    changed = any(share for name, share in config.views.items() if name != "weak")
    weak_only = config.method in METHODS and not METHODS[config.method].strong
    if config.recipe != "paper" or augmented or changed or weak_only:
        return
    raise InputError(
        f"the paper's strong views of texts are back-translations, and these texts have none (columns aug_0, aug_1). Make them "
        f"with `softmatch augment {source} --via de,ru`, and give the written folder with --data; or hide 15 % of the words "
        "instead, with --views.strong 0.15."
    )


def _paper(source: str, user: Settings) -> dict[str, Any]:
    if source not in PAPER and source not in TEXT_SIZES:
        known = ", ".join([*PAPER, *TEXT_SIZES])
        raise InputError(f"the paper has no experiment on {source!r}; --recipe paper is for {known}.")
    layers = (TEXT, TEXT_SIZES[source]) if source in TEXT_SIZES else (COMMON, AVERAGES, PAPER[source])
    found = {key: value for layer in layers for key, value in layer.items()}
    if user.get("imbalance") is not None:
        if source not in HEADS:
            raise InputError(f"the paper has no long-tailed experiment on {source!r}; it has them on {', '.join(HEADS)}.")
        found |= LONG_TAILED
    method = METHODS.get(str(user.get("method")))
    if method is not None and method.equal_batches:
        found["unlabeled_batch"] = user.get("labeled_batch") or found["labeled_batch"]
    return found
