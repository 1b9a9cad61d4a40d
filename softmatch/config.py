"""The settings of a run in one flat model; the command line overrides a file, which overrides the defaults of the data."""

import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from softmatch.errors import InputError, explain, nearest
from softmatch.files.atomic import write_atomically
from softmatch.files.untrusted import parse_yaml, read_text


class Config(BaseModel):
    """All settings that decide the outcome of a run. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    recipe: Literal["paper", "sprint", "none"] | None = Field(
        None,
        description="paper: the paper's hyper-parameters for this dataset. sprint: for images, a network and an optimiser that "
        "learn fast. none: the general defaults. Other options override them.",
    )
    labels: int | None = Field(
        None, ge=1, description="Number of labels to train on, the same for each class; others are hidden."
    )
    imbalance: float | None = Field(None, ge=1, description="Long tail: ratio γ of largest to smallest class. Replaces --labels.")
    unlabeled_imbalance: float | None = Field(
        None, description="Ratio γ of the unlabelled samples. 1 is uniform, a negative number reverses the order of classes."
    )
    largest_class_labels: int | None = Field(None, ge=1, description="Long tail: labelled samples of the largest class.")
    largest_class_unlabeled: int | None = Field(None, ge=1, description="Long tail: unlabelled samples of the largest class.")
    data: Path | None = Field(None, description="Files of a named dataset: a folder, an archive or an .npz file.")
    label_column: str | None = Field(None, description="Column of a table that holds the labels. An empty cell is unlabelled.")
    text_column: str | None = Field(None, description="Column of a table that holds the texts.")
    feature_columns: str | None = Field(None, description="Columns of a table to learn from, separated by commas.")
    series_column: str | None = Field(
        None, description="Table with one row per reading: column that says which series a row belongs to."
    )
    time_column: str | None = Field(None, description="Column with the time of each reading, a number or an ISO date.")
    unlabeled: str | None = Field(None, description="Word that means unlabelled, in addition to an empty cell.")
    labels_from: Path | None = Field(
        None,
        description="File of further labels: a .csv, .tsv or .jsonl with the columns name and label, such as a filled-in "
        "to_label.csv of `softmatch suggest`, or an export of Label Studio (.json).",
    )
    prefer: Literal["new", "old"] | None = Field(
        None, description="Label that counts where --labels-from and the data differ. By default, a difference is an error."
    )
    test: Path | None = Field(None, description="Labelled test data, in the same format as SOURCE.")
    evaluation: Literal["auto", "holdout", "crossfit", "none"] = Field(
        "auto",
        description="How the error is measured without a test set. holdout: on labelled samples that are not trained on. "
        "crossfit: each labelled sample is left out once. auto: by the number of labels.",
    )
    folds: int = Field(5, ge=2, le=20, description="Number of parts in a cross-fit.")
    arrays: Literal["series", "vectors", "images"] | None = Field(
        None,
        description="Kind of arrays: series (n, T) or (n, channels, T), vectors (n, D) or images. series is also for "
        "tables without a header that have a label and then a series in each row.",
    )
    image_size: int | None = Field(None, ge=8, le=1024, description="Side in pixels to which images are resized.")
    encoder: str | None = Field(
        None,
        description="Pretrained encoder of texts, images or recordings: images-small, images, images-large, texts-small, texts, "
        "texts-multilingual (see `softmatch encoders`), a folder, a Hugging Face model ID, or timm:NAME.",
    )
    tune: str = Field(
        "head",
        description="Trained part of the encoder. head: a network on its features, which are computed once and cached. last-N: "
        "its last N layers, on cached activations of the layers below. lora: low-rank adapters in all layers. all: everything.",
    )
    augmented: str | None = Field(
        None,
        description="Columns of augmented texts, such as back-translations, that serve as strong views; separated by commas. "
        "none: use none of them.",
    )
    max_tokens: int | None = Field(None, ge=4, le=8192, description="Number of tokens that the encoder reads of each text.")
    train_per_class: int | None = Field(None, ge=1, description="Named text datasets: number of training texts per class.")
    validation_per_class: int | None = Field(
        None, ge=1, description="Named text datasets: training texts per class to measure the error on, not on the test set."
    )
    method: str = Field(
        "softmatch",
        description="Method of `softmatch methods`, wrapper+base such as saw+softmatch, or file.py:name for your own.",
    )
    method_options: dict[str, Any] = Field({}, description="Arguments of the method, such as --method-options.k 3.")
    steps: int = Field(1000, ge=1, description="Number of training steps. Schedules and averages scale with it.")
    minutes: float | None = Field(
        None, gt=0, description="Length of the whole run in minutes, baseline and folds included, instead of --steps."
    )
    seed: int = Field(0, ge=0, description="Seed of weights, batches and views. On a CPU, a seed repeats a run bit for bit.")
    split_seed: int | None = Field(None, ge=0, description="Random seed of the labelled and the test samples.")
    out: Path | None = Field(None, description="Run folder to create. Nothing is overwritten.")
    test_fraction: float = Field(0.3, gt=0, lt=1, description="Fraction of the samples held out for testing without a test set.")
    baseline: bool = Field(True, description="Also train the baseline, the same network on the labels only, for comparison.")
    keep: Literal["best", "method"] = Field(
        "best",
        description="Model to save: the method's, or (best) the baseline where it makes clearly fewer errors on labelled samples "
        "of your own that were left out, or on --test.",
    )

    network: str = Field(
        "auto",
        description="Network: wrn-d-k, resnet-50, small-conv, mlp, timm:NAME (untrained), or file.py:name for your own.",
    )
    views: dict[str, Any] = Field(
        {},
        description="Arguments of weak and strong views, such as --views.cutout 0.3; or --views file.py:name for your own views "
        "of arrays of any shape.",
    )
    labeled_batch: int = Field(64, ge=1, description="Number of labelled samples per batch.")
    unlabeled_batch: int = Field(448, ge=1, description="Number of unlabelled samples per batch.")
    batch_statistics: Literal["joint", "separate"] = Field(
        "separate",
        description="Batch normalisation. separate: labelled, weak and strong views each have their own statistics. "
        "joint: they share them, as in the paper's code.",
    )
    small_images: float = Field(
        0.0, ge=0, le=1, description="Share of the run that trains on images of five eighths of their side, from 24 pixels on."
    )
    micro_batch: int | None = Field(
        None, ge=0, description="Largest number of images in one forward pass, with --batch-statistics separate. 0: no limit."
    )

    optimizer: Literal["sgd", "adam", "adamw", "muon"] = Field(
        "sgd", description="Optimiser. sgd uses Nesterov momentum 0.9; muon is for networks with convolutions."
    )
    lr: float = Field(0.03, gt=0, description="Learning rate η₀, the largest of the schedule.")
    schedule: Literal["cosine", "triangular"] = Field(
        "cosine",
        description="Learning rate at step k of K. cosine: η₀·cos(7πk/16K). triangular: up in the first fifth, down to 0.",
    )
    weight_decay: float = Field(5e-4, ge=0, description="Weight decay, not applied to biases and normalisation layers.")
    decay: Literal["gradient", "shrink"] = Field(
        "gradient",
        description="Form of weight decay. gradient: as the optimiser does it. "
        "shrink: multiply the weights by 1 − weight decay after each step.",
    )
    clip: float | None = Field(None, gt=0, description="Largest norm of the gradient; larger gradients are clipped.")
    warmup: int = Field(0, ge=0, description="Number of first steps in which the learning rate rises from 0.")
    layer_decay: float = Field(1.0, gt=0, le=1, description="Fine-tuning: factor of the learning rate per layer below the head.")
    head_rate: float = Field(1.0, gt=0, le=10_000, description="Fine-tuning: learning-rate factor of the classification head.")
    tuned_layers: int | None = Field(None, ge=0, description="With --tune all: last encoder layers to train; nothing is cached.")
    lora: int | None = Field(None, ge=1, le=1024, description="Rank of the adapters of --tune lora.")
    head: Literal["linear", "gelu"] = Field(
        "linear", description="Fine-tuning: classification head. gelu adds a hidden layer, as in USB's code."
    )
    length_buckets: int | None = Field(
        None, ge=1, description="Fine-tuning: number of unlabelled text batches sorted by length together. 1: no sorting."
    )

    averages: Literal["scaled", "paper"] = Field(
        "scaled",
        description="Moving averages. scaled: they span a fortieth of the run, without a bias to their initial values. "
        "paper: momentum 0.999 and the paper's initial values, made for 2^20 steps.",
    )
    teacher: Literal["network", "average"] = Field(
        "network",
        description="Weights that make the pseudo-labels. network: the current ones (the paper). average: the averaged ones.",
    )
    neighbours: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the predictions on similar recent samples in the pseudo-labels, with --teacher average. "
        "0: none (the paper).",
    )
    strong_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Share of each unlabelled batch whose strong views are trained on: the samples of the largest weights. "
        "1: all (the paper).",
    )
    statistics_momentum: float | None = Field(None, ge=0, lt=1, description="Momentum of the method's statistics.")
    model_momentum: float | None = Field(None, ge=0, lt=1, description="Momentum of the averaged weights. 0: no average.")
    batch_norm_momentum: float | None = Field(None, gt=0, le=1, description="Share of a new batch in batch-norm statistics.")

    precision: Literal["auto", "float32", "bf16", "fp16"] = Field(
        "auto",
        description="Number format; bf16 and fp16 are mixed precision. auto: bf16 with --recipe sprint on images of 16 pixels or "
        "more, where the processor or GPU has bf16 units, else float32.",
    )
    device: str = Field("auto", description="Device: auto, cpu, cuda, cuda:1 or mps.")
    threads: int | None = Field(None, ge=1, description="Number of CPU threads.")
    compile: bool = Field(False, description="Compile the network with torch.compile. Needs a C++ compiler.")
    workers: int | None = Field(None, ge=0, description="Number of worker processes that load and augment large images.")
    evaluate_every: int | None = Field(None, ge=1, description="Number of steps between evaluations.")
    checkpoint_every: int | None = Field(None, ge=1, description="Number of steps between checkpoints.")

    @field_validator("tune")
    @classmethod
    def _known_part(cls, value: str) -> str:
        if re.fullmatch(r"head|lora|all|last-[1-9]\d{0,2}", value) is None:
            raise PydanticCustomError("tune", "it must be head, lora, all, or last-N with N from 1, such as last-2")
        return value

    @field_validator("views")
    @classmethod
    def _named_code(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "own" in value and re.fullmatch(r".+:[^:/\\]+", str(value["own"])) is None:
            raise PydanticCustomError("views", "views of your own are named file.py:name or module:name")
        return value

    @property
    def last_layers(self) -> int | None:
        """N of `tune` last-N; None for other parts of an encoder."""
        return int(self.tune.removeprefix("last-")) if self.tune.startswith("last-") else None


FORMER = {
    "label": "label_column",
    "text": "text_column",
    "features": "feature_columns",
    "model": "network",
    "twin": "baseline",
    "head_labels": "largest_class_labels",
    "head_unlabeled": "largest_class_unlabeled",
    "fine_tune": "tune",
}
"""Settings that had another name in version 0.1, which is still understood: old name → name."""
FORMER_VALUES: Mapping[str, Mapping[Any, str]] = {"fine_tune": {True: "all", False: "head"}}
"""Values of settings with a former name that have another form now."""
PLANNED = ("steps", "evaluate_every")
"""Settings that follow from a length in minutes."""
RUN_SETTINGS = "config.yaml"
"""File of a run folder, written by softmatch: former names in it are not the user's."""


class FormerName(FutureWarning):
    """A setting or an option is given by a name that it no longer has."""


def renamed(layer: Mapping[str, Any], where: str, warn: bool = False) -> dict[str, Any]:
    """The settings under their current names."""
    found: dict[str, Any] = {}
    for key, value in layer.items():
        name = FORMER.get(key, key)
        if name != key and name in layer and layer[name] is not None:
            raise InputError(f"{where}: {key} is the former name of {name}. Give one of them.")
        if name != key and warn:
            warnings.warn(f"{where}: {key} is now called {name}.", FormerName, stacklevel=3)
        found[name] = FORMER_VALUES.get(key, {}).get(value, value) if isinstance(value, bool) else value
    return found


def former_names(layer: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under their former names, by which the runs of a sweep are told apart since version 0.1."""
    former, found = {name: key for key, name in FORMER.items()}, dict[str, Any]()
    for name, value in layer.items():
        key = former.get(name, name)
        values = {now: then for then, now in FORMER_VALUES.get(key, {}).items()}
        if values and value not in values:  # which version 0.1 did not have
            key = name
        found[key] = values.get(value, value) if values else value
    return found


def left_open(config: Config) -> tuple[str, ...]:
    """Settings that are chosen when a run begins, and kept when it is resumed or repeated elsewhere."""
    return (*(PLANNED if config.minutes is not None else ()), *(("precision",) if config.precision == "auto" else ()))


def read_file(path: Path) -> dict[str, Any]:
    """Read settings, and perhaps `source`, from a YAML file. Errors name the file and the key."""
    if not path.exists():
        raise InputError(f"there is no settings file {path}.")
    found = parse_yaml(read_text(path), f"settings file {path}")
    found = {} if found is None else found
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InputError(f"settings file {path} must hold `key: value` lines, it holds a {type(found).__name__}.")
    found = renamed(found, where=f"settings file {path}", warn=path.name != RUN_SETTINGS)
    refuse_unknown(found, where=f"settings file {path}", also=("source",))
    return found


def refuse_unknown(found: Mapping[str, Any], where: str, also: tuple[str, ...] = ()) -> None:
    """Raise InputError for the first key that is not a setting, naming the nearest one."""
    known = {*Config.model_fields, *also}
    for key in found:
        if key not in known:
            raise InputError(f"{where}: unknown setting {key!r}. {nearest(key, known)}")


def merge(*layers: Mapping[str, Any], where: str = "settings") -> dict[str, Any]:
    """Merge layers of settings: a later layer overrides an earlier one, and None does not set anything."""
    merged: dict[str, Any] = {}
    for layer in (renamed(layer, where) for layer in layers):
        refuse_unknown(layer, where)
        for key, given in layer.items():
            value = {"own": given} if key == "views" and isinstance(given, str) else given
            if isinstance(value, Mapping):  # options are merged one by one: --views.cutout keeps the source's other views
                before = merged.get(key)
                merged[key] = {**(before if isinstance(before, Mapping) else {}), **_scalar(value, f"{where}: {key}")}
            elif value is not None:
                merged[key] = value
    return merged


def make_config(*layers: Mapping[str, Any], where: str = "settings") -> Config:
    """Build checked settings from layers."""
    try:
        return Config(**merge(*layers, where=where))
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error)}") from error


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Split names of columns at commas: "a, b" is a and b."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip()) or None


def _scalar(value: Any, where: str) -> Any:
    """Read options, which arrive as text from the command line, as YAML does ("0.9" is a number, "none" is a word)."""
    if isinstance(value, Mapping):
        return {name: _scalar(item, f"{where}.{name}") for name, item in value.items()}
    return parse_yaml(value, f"{where} = {value!r}") if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """Inverse of `_scalar`: quote the texts among options that would be read as something else."""
    if isinstance(value, Mapping):
        return {name: _as_text(item) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    try:
        same = parse_yaml(value, "") == value
    except InputError:
        same = False
    return value if same else yaml.safe_dump(value, default_style='"', width=math.inf).strip()


class _Dumper(yaml.SafeDumper):
    """Writes texts with a "next line" character in double quotes; in single quotes, PyYAML reads it as a space."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\x85" in text else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def write_config(path: Path, source: str, config: Config) -> None:
    """Write all effective settings as YAML, in the order of the model; `read_file` reads them back."""
    dumped = config.model_dump(mode="json")
    values = {"source": source, **{key: _as_text(value) if isinstance(value, dict) else value for key, value in dumped.items()}}
    write_atomically(path, yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True).encode())
