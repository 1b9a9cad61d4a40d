"""The settings of a run: one flat model, CLI over file over the source's own defaults over these defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from softmatch.errors import InputError, explain, nearest
from softmatch.files.untrusted import parse_yaml, read_text


class Config(BaseModel):
    """Everything that decides the outcome of a run. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    recipe: Literal["paper"] | None = Field(
        None, description="paper: the hyper-parameters of the paper's appendix for this source; other options win over them."
    )
    labels: int | None = Field(
        None, ge=1, description="How many labelled samples to use, the same number of each class. Default: the source's."
    )
    imbalance: float | None = Field(
        None, ge=1, description="Long-tailed instead of balanced classes: how many times larger the first is than the last (γ)."
    )
    unlabeled_imbalance: float | None = Field(
        None, description="γ of the unlabelled samples; 1: uniform, negative: reversed. Default: the same γ."
    )
    head_labels: int | None = Field(None, ge=1, description="Long-tailed: labelled samples of the largest class.")
    head_unlabeled: int | None = Field(None, ge=1, description="Long-tailed: unlabelled samples of the largest class.")
    data: Path | None = Field(
        None, description="Where the source's files lie: a folder or an .npz. Default: the cache, then the hub."
    )
    label: str | None = Field(None, description="Column of the labels in a table of your own; an empty cell is unlabelled.")
    text: str | None = Field(None, description="Column of the texts in a table of your own.")
    features: str | None = Field(None, description="Columns to learn from, separated by commas. Default: all that make sense.")
    unlabeled: str | None = Field(None, description="A word that means unlabelled, besides an empty cell.")
    test: Path | None = Field(None, description="Test data of your own, labelled and of the same form as the source.")
    evaluation: Literal["auto", "holdout", "crossfit", "none"] = Field(
        "auto",
        description="How the error is measured where your data have no test set: hold out labelled samples, or leave each "
        "out in turn (cross-fit). Default: by the number of labels.",
    )
    folds: int = Field(5, ge=2, le=20, description="Parts of the labelled samples that a cross-fit leaves out in turn.")
    image_size: int | None = Field(None, ge=8, le=1024, description="Side that images are resized to. Default: by their sizes.")
    encoder: str | None = Field(
        None, description="Pretrained encoder for your texts or images: a folder or an id of the Hugging Face hub."
    )
    fine_tune: bool = Field(False, description="Train the encoder too. Default: its features are computed once and kept.")
    augmented: str | None = Field(
        None,
        description="Columns of augmented texts (back-translations), of which strong views are drawn, separated by commas; none: "
        "do not use any. Default: all that are called aug_0, aug_1, ….",
    )
    max_tokens: int | None = Field(
        None, ge=4, le=8192, description="Tokens that an encoder reads of a text. Default: 128 where it is trained, else its own."
    )
    train_per_class: int | None = Field(
        None, ge=1, description="Of a named source of texts: texts of each class that are trained on, drawn. Default: all."
    )
    validation_per_class: int | None = Field(
        None,
        ge=1,
        description="Of a named source of texts: texts of each class that are taken out of the training set, to measure the "
        "error on instead of the test set. Default: the test set.",
    )
    method: str = Field(
        "softmatch",
        description="A method that `softmatch methods` lists, wrapper+base (saw+softmatch), or file.py:name for one of your own.",
    )
    method_options: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of the method, for example --method-options.k 3."
    )
    steps: int = Field(1000, ge=1, description="Training steps. Momenta and averages follow from this number.")
    seed: int = Field(0, ge=0, description="Seed of the weights, batches and views. The same seed repeats a CPU run bit for bit.")
    split_seed: int | None = Field(None, ge=0, description="Seed of the labelled and test samples. Default: the same number.")
    out: Path | None = Field(None, description="Run folder to create. Default: a new folder under runs/.")
    test_fraction: float = Field(
        0.3, gt=0, lt=1, description="Share held out for testing where there is no test set. Default for your own data: 0.2."
    )
    twin: bool = Field(True, description="Also train a supervised twin on the same labels and steps, to compare with.")

    model: str = Field(
        "auto", description="Network: wrn-d-k, resnet-50, small-conv, mlp, or file.py:name of your own. Default: by the data."
    )
    views: dict[str, Any] = Field(default_factory=dict, description="Arguments of the views, for example --views.cutout 0.3.")
    labeled_batch: int = Field(64, ge=1, description="Labelled samples in a batch.")
    unlabeled_batch: int = Field(448, ge=1, description="Unlabelled samples in a batch.")
    batch_statistics: Literal["joint", "separate"] = Field(
        "separate",
        description="joint: labelled, weak and strong views share batch statistics, as in the paper's code. "
        "separate: each has its own, and weak views need no backward pass.",
    )
    micro_batch: int | None = Field(
        None,
        ge=0,
        description="With separate statistics: the most images in one pass, which has statistics of its own. "
        "0: whole views. Default: 64 on a CPU, whole views elsewhere.",
    )

    optimizer: Literal["sgd", "adam", "adamw"] = Field("sgd", description="sgd is with Nesterov momentum 0.9.")
    lr: float = Field(0.03, gt=0, description="Initial learning rate η₀; step k of K uses η₀·cos(7πk/16K).")
    weight_decay: float = Field(5e-4, ge=0, description="On weights; never on biases and normalisation.")
    decay: Literal["gradient", "shrink"] = Field(
        "gradient",
        description="gradient: weight decay as the optimiser has it. shrink: weights times 1 − weight decay after each step.",
    )
    clip: float | None = Field(None, gt=0, description="Largest gradient norm. Default: no clipping.")
    warmup: int = Field(0, ge=0, description="First steps, in which the learning rate rises from 0.")
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="An encoder that is trained: each layer's learning rate is so much of that of the layer above.",
    )
    head_rate: float = Field(
        1.0, gt=0, le=10_000, description="An encoder that is trained: the learning rate of the new head, as a multiple of lr."
    )
    tuned_layers: int | None = Field(
        None, ge=0, description="An encoder that is trained: only its last so many layers, and the head. Default: all of it."
    )
    lora: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="An encoder that is trained: only low-rank additions of this rank, and the head (extra lora).",
    )
    head: Literal["linear", "gelu"] = Field(
        "linear",
        description="On an encoder that is trained. gelu: a hidden layer with GELU below the linear one, as in USB's code.",
    )
    length_buckets: int | None = Field(
        None,
        ge=1,
        description="Texts for an encoder that is trained: unlabelled batches of similar lengths, sorted among so many batches. "
        "1: batches as drawn. Default: 50.",
    )

    averages: Literal["scaled", "paper"] = Field(
        "scaled",
        description="scaled: averages span a fortieth of the run and forget their initial values. "
        "paper: momentum 0.999 and the paper's initial values, meant for 2^20 steps.",
    )
    statistics_momentum: float | None = Field(None, ge=0, lt=1, description="Momentum of the method's statistics.")
    model_momentum: float | None = Field(None, ge=0, lt=1, description="Momentum of the averaged weights; 0: no average.")
    batch_norm_momentum: float | None = Field(None, gt=0, le=1, description="Share of a new batch in running statistics.")

    precision: Literal["float32", "bf16", "fp16"] = Field("float32", description="bf16 and fp16 use automatic mixed precision.")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps.")
    threads: int | None = Field(None, ge=1, description="CPU threads. Default: torch's choice.")
    compile: bool = Field(False, description="Compile the network with torch.compile (needs a C++ compiler).")
    workers: int | None = Field(
        None, ge=0, description="Processes that load and change large images. Default: by the data and the machine."
    )
    evaluate_every: int | None = Field(None, ge=1, description="Steps between evaluations. Default: a fortieth of the run.")
    checkpoint_every: int | None = Field(None, ge=1, description="Steps between checkpoints. Default: a tenth of the run.")


def read_file(path: Path) -> dict[str, Any]:
    """Settings of a YAML file; may also hold `source`. Every mistake names the file and the key."""
    if not path.exists():
        raise InputError(f"there is no settings file {path}")
    found = parse_yaml(read_text(path), f"settings file {path}")
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InputError(f"settings file {path} must hold `key: value` lines, it holds a {type(found).__name__}.")
    refuse_unknown(found, where=f"settings file {path}", also=("source",))
    return found


def refuse_unknown(found: Mapping[str, Any], where: str, also: tuple[str, ...] = ()) -> None:
    """Raise InputError for the first key that is not a setting, naming the nearest one."""
    known = {*Config.model_fields, *also}
    for key in found:
        if key not in known:
            raise InputError(f"{where}: unknown setting {key!r}. {nearest(key, known)}")


def merge(*layers: Mapping[str, Any], where: str = "settings") -> dict[str, Any]:
    """One layer from several, of which each wins over those before it; a setting that is None is not set."""
    merged: dict[str, Any] = {}
    for layer in layers:
        refuse_unknown(layer, where)
        for key, value in layer.items():
            if isinstance(value, Mapping):  # options are merged one by one: --views.cutout keeps the source's other views
                before = merged.get(key)
                merged[key] = {**(before if isinstance(before, Mapping) else {}), **_scalar(value, f"{where}: {key}")}
            elif value is not None:
                merged[key] = value
    return merged


def make_config(*layers: Mapping[str, Any], where: str = "settings") -> Config:
    """Settings from layers, checked."""
    try:
        return Config(**merge(*layers, where=where))
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error)}") from error


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names of columns on the command line: "a, b" is a and b."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip()) or None


def _scalar(value: Any, where: str) -> Any:
    """Options on the command line arrive as text: read them as YAML would ("0.9" is a number, "none" is a word)."""
    if isinstance(value, Mapping):
        return {name: _scalar(item, f"{where}.{name}") for name, item in value.items()}
    return parse_yaml(value, f"{where} = {value!r}") if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """Inverse of `_scalar` for the texts among options: one that would be read as something else is put in quotes."""
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
    """Between single quotes, PyYAML reads a "next line" as a space: texts that hold one are written between double ones."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\x85" in text else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def write_config(path: Path, source: str, config: Config) -> None:
    """All effective settings as YAML, in the order of the model; `read_file` reads it back."""
    dumped = config.model_dump(mode="json")
    values = {"source": source, **{key: _as_text(value) if isinstance(value, dict) else value for key, value in dumped.items()}}
    from softmatch.files.atomic import write_atomically  # imports torch

    write_atomically(path, yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True).encode())
