"""`softmatch plan`: parse, plan, print."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from softmatch.cli.options import ARGUMENTS, Flag, SettingsFile, given, settings_model
from softmatch.config import Config, read_file, split_names
from softmatch.errors import InputError
from softmatch.formatting import duration
from softmatch.planning.gpus import Device, Range, find_device

if TYPE_CHECKING:
    from softmatch.planning.plans import Plan
    from softmatch.planning.setting import Setting

HERE = ("auto", "cpu", "cuda", "mps")
SAMPLES = 10**12
READ = (
    *("recipe", "labels", "imbalance", "unlabeled_imbalance", "largest_class_labels", "largest_class_unlabeled", "evaluation"),
    *("folds", "encoder", "fine_tune", "max_tokens", "train_per_class", "validation_per_class", "method", "method_options"),
    *("steps", "test_fraction", "baseline", "network", "views", "labeled_batch", "unlabeled_batch", "batch_statistics"),
    *("micro_batch", "optimizer", "tuned_layers", "lora", "head", "length_buckets", "precision", "threads", "evaluate_every"),
)
"""Settings on which a plan depends."""
GPUS = "v100, a100, a100-40gb, h100, l4, t4, rtx-4090: by its data sheet. auto (default), cpu, cuda, mps: this machine, timed."

if TYPE_CHECKING:
    Planned = Config
else:
    Planned = settings_model(READ)


class Options(BaseModel):
    """Options of a plan in addition to the settings of a run."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    device: str | None = Field(None, description=GPUS)
    gpus: int = Field(1, ge=1, le=100_000, description="GPUs that train one network, each with a share of every batch.")
    seeds: int = Field(1, ge=1, le=10**6, description="Runs of each method.")
    methods: str | None = Field(None, description="Several methods, separated by commas, instead of --method.")
    price: float | None = Field(None, gt=0, description="Price of a GPU-hour in any currency. Default: no price is printed.")
    measure: bool = Field(
        False, description="Time real steps on this machine with random data (the default without a GPU's name)."
    )
    images: int | None = Field(None, ge=1, le=SAMPLES, description="Number of images, if only sizes are known.")
    vectors: int | None = Field(None, ge=1, le=SAMPLES, description="Number of vectors, if only sizes are known.")
    texts: int | None = Field(None, ge=1, le=SAMPLES, description="Number of texts, if only sizes are known; needs --tokens.")
    side: int = Field(32, ge=1, le=4096, description="Side of these images in pixels.")
    channels: int = Field(3, ge=1, le=3, description="Channels of these images: 1 (grey) or 3.")
    width: int = Field(64, ge=1, le=100_000, description="Numbers in each of these vectors.")
    tokens: int | None = Field(None, ge=1, le=10**6, description="Tokens of a text with padding; also for named sources.")
    classes: int = Field(10, ge=2, le=25_000, description="Number of classes of these samples.")
    test_samples: int = Field(0, ge=0, le=SAMPLES, description="Samples of a test set that goes with these samples.")


def plan(
    source: Annotated[str | None, Parameter(group=ARGUMENTS, show_default="digits")] = None,
    /,
    *,
    settings: Annotated[Planned | None, Parameter(name="*")] = None,
    options: Annotated[Options | None, Parameter(name="*")] = None,
    file: SettingsFile = None,
    json: Annotated[bool, Flag] = False,
) -> None:
    """Plan the cost of a setting: steps, arithmetic, hours, memory and files, on GPUs that need not be here.

    Neither the data nor the GPU is needed. What can be counted is counted; hours on a GPU are estimates, from low to high, by its
    data sheet and by what the paper and NVIDIA have published. On this machine, a few real steps are timed.

    For example:

    - softmatch plan cifar10 --labels 40 --recipe paper --device v100 --gpus 4 --price 2.5
    - softmatch plan imagenet --recipe paper --device a100 --gpus 8 --seeds 3 --methods softmatch,flexmatch
    - softmatch plan digits
    - softmatch plan --images 1000000 --side 224 --classes 1000 --network resnet-50 --labels 10000 --device h100 --gpus 8
    - softmatch plan --images 1000000000 --methods flexmatch,darp --device a100
    - softmatch plan table-main --device a100
    - softmatch plan paper --device v100 --price 2.5

    Parameters
    ----------
    source:
        A named dataset (digits, cifar10, …, yelp-5); a table or figure of the paper as in `softmatch reproduce` (table-main, …),
        or paper for all of them. Leave it out if sizes are given.
    json:
        Print JSON instead of tables: bytes, seconds, FLOPs; estimates as [low, high].
    """
    planned, layer = options or Options(), read_file(file) if file is not None else {}
    written = layer.pop("source", None)
    name = source if source is not None else written
    said = given(settings)
    kind = str(planned.device or layer.get("device") or "auto")
    layer.pop("device", None)
    device = None if kind in HERE or kind.startswith("cuda:") else find_device(kind)
    from softmatch.planning.plans import is_experiment, sum_up  # torch

    if is_experiment(name):
        _print_experiments(str(name), device, planned, sorted({*layer, *said}), json)
        return
    if device is None and planned.gpus > 1:
        raise InputError(f"--gpus {planned.gpus}: name them with --device, such as a100. This machine is planned as one.")
    if device is not None and planned.measure:
        raise InputError("--measure times steps on this machine: leave out --device and --gpus.")
    methods = split_names(planned.methods)
    if planned.methods is not None and (methods is None or "method" in {**layer, **said}):
        raise InputError(f"--methods {planned.methods!r}: give names separated by commas, instead of --method.")
    layers = [(layer, said, {"method": each}) for each in methods] if methods else [(layer, said)]
    where = str(file or "settings")
    plans = [_plan(_setting(name, planned, each, _kind(device, kind), where), planned.gpus, device, kind) for each in layers]
    total = sum_up(plans, planned.seeds, planned.price)._asdict()
    first = plans[0].counted.setting
    about = {"source": first.source, "device": device and device.name, "gpus": planned.gpus, "seeds": planned.seeds}
    if json:
        chosen = first.config.model_dump(mode="json", exclude={"method", "method_options"})
        _dump({**about, "settings": chosen, "runs": [each.as_dict() for each in plans], "total": total})
    else:
        _print_plans(about, plans, total)


def _dump(about: Mapping[str, Any]) -> None:
    print(json_format.dumps(about, indent=1, ensure_ascii=False, default=lambda value: [value.low, value.high]))


def _kind(device: Device | None, name: str) -> str:
    """ "cpu" or "cuda": defaults and passes depend on it."""
    from softmatch.distributed.devices import choose_device  # torch

    try:
        return "cuda" if device is not None or choose_device(name).type != "cpu" else "cpu"
    except InputError as error:
        raise InputError(f"--device {name} is not on this machine: give auto, cpu, or the name of a GPU such as a100.") from error


def _setting(name: str | None, given: Options, layers: tuple[Mapping[str, Any], ...], device: str, where: str) -> Setting:
    from softmatch.planning.setting import SIZES, Own, named_setting, own_setting  # torch

    side, tokens, number = given.side, given.tokens, given.images or given.vectors or given.texts
    shapes = {"images": (given.channels, side, side), "vectors": (given.width,), "texts": (tokens or 0,)}
    read = {"images": {"side", "channels"}, "vectors": {"width"}, "texts": {"tokens"}, None: {"tokens"}}
    kinds = [kind for kind in shapes if getattr(given, kind) is not None]
    if len(kinds) + (name is not None) > 1:
        raise InputError(f"{', '.join([*([name] if name else []), *(f'--{kind}' for kind in kinds)])}: give one source of data.")
    kind = kinds[0] if kinds else None
    known = read[kind] | ({kind, "classes", "test_samples"} if kind else set())
    sizes = {*shapes, "side", "channels", "width", "tokens", "classes", "test_samples"}
    for key in sorted(given.model_fields_set & sizes - known):
        raise InputError(f"--{key.replace('_', '-')} is not about {f'--{kind}' if kind else 'a named source'}: leave it out.")
    if kind is None:
        if name not in {*SIZES, None} and (Path(name or "").exists() or "/" in str(name)):
            advice = "Give sizes (--images, --vectors or --texts with --classes), or use softmatch train … --dry-run."
            raise InputError(f"{name}: a plan is made without data. {advice}")
        return named_setting(name or "digits", layers, device, where, tokens)
    if kind == "texts" and tokens is None:
        raise InputError("--texts needs --tokens: the tokens of a text, with padding.")
    own = Own(kind[:-1], number or 0, shapes[kind], given.classes, given.test_samples)  # type: ignore[arg-type]  # of its kinds
    return own_setting(own, layers, device, where)


def _plan(setting: Setting, gpus: int, device: Device | None, name: str) -> Plan:
    from softmatch.planning.counts import count  # torch
    from softmatch.planning.plans import gpu_plan, measured_plan

    counted = count(setting, gpus)
    return measured_plan(counted, name) if device is None else gpu_plan(counted, device, gpus)


def _print_experiments(name: str, device: Device | None, given: Options, more: Sequence[str], json: bool) -> None:
    from softmatch.planning.plans import plan_experiments  # torch

    more = [*more, *sorted(given.model_fields_set - {"device", "gpus", "price"})]
    if device is None or more:
        wrong = f"leave out --{more[0].replace('_', '-')}" if more else "name a GPU with --device, such as v100"
        raise InputError(f"{name} has the paper's own settings: {wrong}.")
    rows = [share._asdict() for share in plan_experiments(name, device, given.gpus)]
    for row in rows:
        row["price"] = None if given.price is None else row["gpu_hours"] * given.price
    if json:
        _dump({"device": device.name, "gpus": given.gpus, "price_of_a_gpu_hour": given.price, "experiments": rows})
        return
    _print_table(rows, Console(emoji=False))
    print(f"At the paper's scale on {device.title}, {given.gpus} for each run; texts of unknown length have 512 tokens.")


def _print_plans(about: Mapping[str, Any], plans: Sequence[Plan], total: Mapping[str, Any]) -> None:
    console, first = Console(emoji=False), plans[0]
    if len(plans) > 1:
        _print_rows(about, console)
        keys = ("method", "flops_per_step", "seconds", "gpu_hours", "memory_bytes", "state_bytes_per_sample", "storage_bytes")
        _print_table([{key: each.as_dict()[key] for key in keys} for each in plans], console)
    else:
        _print_rows({**about, **first.as_dict()}, console)
    _print_rows({"total": total}, console)
    memory, device = sum(first.as_dict()["memory_bytes"].values()), first.device
    if device is not None and memory > device.memory:
        advice = f"smaller batches, more --gpus, or --precision {device.short}"
        print(f"It does not fit into {shown_as('bytes', device.memory)}: give {advice}.")


def _print_rows(rows: Mapping[str, Any], console: Console) -> None:
    """A line for each figure; the figures of a mapping follow its name."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in rows.items():
        label = key.replace("_", " ")
        if isinstance(value, Mapping):
            table.add_row(Text(f"\n{label}", style="bold"), "\n" if key == "total" else f"\n{shown_as(key, value)}")
            for part, each in value.items():
                table.add_row(
                    Text(f"  {part.replace('_', ' ')}", style="dim"), Text(shown_as(part if key == "total" else key, each))
                )
        elif value is not None:
            table.add_row(Text(label, style="dim"), Text(shown_as(key, value)))
    console.print(table)


def _print_table(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for key, value in rows[0].items():
        table.add_column(key.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(Text(shown_as(key, value)) for key, value in row.items()))
    console.print(table)


def shown_as(key: str, value: Any) -> str:
    """A figure in the unit that its key names: bytes, seconds, flops, share; of a mapping, the sum."""
    if isinstance(value, Mapping):
        value = sum(value.values(), Range(0.0, 0.0)) if "seconds" in key else sum(value.values())
    if isinstance(value, Range):
        low, high = shown_as(key, value.low), shown_as(key, value.high)
        return low if low == high else f"{low} – {high}"
    if isinstance(value, str) or value is None:
        return value or "–"
    if "bytes" in key:
        return scaled(value, 1000, ("bytes", "kB", "MB", "GB", "TB", "PB", "EB"))
    if "flops" in key:
        return scaled(value / 1e6, 1000, ("MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))
    if "seconds" in key:
        return duration(value)
    return f"{100 * value:.1f} %" if "share" in key else number(value)


def scaled(value: float, step: float, units: Sequence[str]) -> str:
    """'512 bytes', '1.5 MB', '1,760 EFLOP'."""
    position = 0
    while value >= 0.9995 * step and position < len(units) - 1:
        value, position = value / step, position + 1
    return f"{number(value)} {units[position]}"


def number(value: float) -> str:
    """At least three digits: '0.0231', '9.4', '1,234'."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
