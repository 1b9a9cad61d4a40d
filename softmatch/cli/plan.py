"""`softmatch plan`: parse, plan, print."""

import json as json_format
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console
from rich.filesize import pick_unit_and_suffix
from rich.table import Table
from rich.text import Text

from softmatch.cli.options import ARGUMENTS, Flag, SettingsFile, given, settings_model
from softmatch.config import Config, read_file, split_names
from softmatch.errors import InputError
from softmatch.experiments.paper import EXPERIMENTS
from softmatch.formatting import duration
from softmatch.planning.gpus import Device, Range, find_device

Settings = Mapping[str, Any]

HERE, SAMPLES = ("auto", "cpu", "cuda", "mps"), 10**12
READ = (
    *("recipe", "labels", "imbalance", "unlabeled_imbalance", "largest_class_labels", "largest_class_unlabeled", "evaluation"),
    *("folds", "method", "method_options", "steps", "test_fraction", "baseline", "network", "views", "labeled_batch"),
    *("unlabeled_batch", "batch_statistics", "micro_batch", "optimizer", "precision", "threads", "evaluate_every"),
)
"""Settings on which a plan depends."""
GPUS = "v100, a100, a100-40gb, h100, l4, t4, rtx-4090: by its data sheet. auto (default), cpu, cuda, mps: this machine, timed."
UNITS = {"bytes": "bytes kB MB GB TB PB EB", "flops": "FLOP kFLOP MFLOP GFLOP TFLOP PFLOP EFLOP"}
SIZES = {"images": ("side", "channels"), "vectors": ("width",)}
"""Options of samples of which only sizes are known, by kind."""

if TYPE_CHECKING:
    from softmatch.planning.costs import Setting

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
    images: int | None = Field(None, ge=1, le=SAMPLES, description="Number of images, if only sizes are known.")
    vectors: int | None = Field(None, ge=1, le=SAMPLES, description="Number of vectors, if only sizes are known.")
    texts: Annotated[str | None, Parameter(show=False)] = None
    side: int = Field(32, ge=1, le=4096, description="Side of these images in pixels.")
    channels: int = Field(3, ge=1, le=3, description="Channels of these images: 1 (grey) or 3.")
    width: int = Field(64, ge=1, le=100_000, description="Numbers in each of these vectors.")
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
    data sheet and by what the paper and NVIDIA have published. On this machine, a few real steps are timed. Texts and pretrained
    encoders are not planned: `softmatch train … --dry-run` times them.

    For example:

    - softmatch plan cifar10 --labels 40 --recipe paper --device v100 --gpus 4 --price 2.5
    - softmatch plan digits
    - softmatch plan --images 1000000 --side 224 --classes 1000 --network resnet-50 --labels 10000 --device h100 --gpus 8
    - softmatch plan --images 1000000000 --methods flexmatch,darp --device a100
    - softmatch plan paper --device v100 --price 2.5

    Parameters
    ----------
    source:
        A named dataset (digits, cifar10, …); a table or figure of the paper as in `softmatch reproduce` (table-main, …), or
        paper for all of them but those on texts. Leave it out if sizes are given.
    json:
        Print JSON instead of tables: bytes, seconds, FLOPs; estimates as [low, high].
    """
    planned, layer, said = options or Options(), read_file(file) if file is not None else {}, given(settings)
    written = {key: layer.pop(key, None) for key in ("source", "device")}
    name, where = source if source is not None else written["source"], str(planned.device or written["device"] or "auto")
    device = None if where in HERE or where.startswith("cuda:") else find_device(where)
    from softmatch.distributed.devices import choose_device  # torch
    from softmatch.planning.plans import WHOLE, count, gpu_plan, measured_plan, sum_up

    if name in (*EXPERIMENTS, WHOLE):
        _print_experiments(str(name), device, planned, sorted({*layer, *said}), json)
        return
    if device is None and planned.gpus > 1:
        raise InputError(f"--gpus {planned.gpus}: name them with --device, such as a100. This machine is planned as one.")
    methods = split_names(planned.methods)
    if planned.methods is not None and (methods is None or "method" in {**layer, **said}):
        raise InputError(f"--methods {planned.methods!r}: give names separated by commas, instead of --method.")
    try:
        kind = "cuda" if device is not None or choose_device(where).type != "cpu" else "cpu"
    except InputError as error:
        raise InputError(f"--device {where} is not on this machine: give auto, cpu, or a GPU's name such as a100.") from error
    layers = [(layer, said, {"method": method}) for method in methods or (None,)]
    runs = [count(_setting(name, planned, kind, each, str(file or "settings")), planned.gpus) for each in layers]
    plans = [measured_plan(run, where) if device is None else gpu_plan(run, device, planned.gpus) for run in runs]
    first, total = runs[0].setting, sum_up(plans, planned.seeds, planned.price)
    about = {"source": first.source, "device": device and device.name, "gpus": planned.gpus, "seeds": planned.seeds}
    if json:
        chosen = first.config.model_dump(mode="json", exclude={"method", "method_options"})
        _dump({**about, "settings": chosen, "runs": plans, "total": total})
    else:
        _print_plans(about, plans, total, device)


def _dump(about: Settings) -> None:
    print(json_format.dumps(about, indent=1, ensure_ascii=False, default=lambda value: [value.low, value.high]))


def _setting(name: str | None, given: Options, device: str, layers: Sequence[Settings], where: str) -> "Setting":
    from softmatch.planning.costs import NAMED, Data, named_setting, own_setting, refuse_texts  # torch

    refuse_texts("SOURCE", given.texts is not None)
    kinds = [kind for kind in SIZES if getattr(given, kind) is not None]
    if len(kinds) + (name is not None) > 1:
        raise InputError(f"{', '.join([*([name] if name else []), *(f'--{kind}' for kind in kinds)])}: give one source of data.")
    kind = kinds[0] if kinds else None
    known = {"classes", "test_samples", kind, *SIZES[kind]} if kind else set()
    for key in sorted(given.model_fields_set & {"classes", "test_samples", "side", "channels", "width"} - known):
        raise InputError(f"--{key.replace('_', '-')} is not about {f'--{kind}' if kind else 'a named source'}: leave it out.")
    if kind is None:
        if name not in {*NAMED, None} and (Path(name or "").exists() or "/" in str(name)):
            advice = "Give sizes (--images or --vectors with --classes), or use softmatch train … --dry-run."
            raise InputError(f"{name}: a plan is made without data. {advice}")
        return named_setting(name or "digits", device, *layers, where=where)
    number = given.images or given.vectors or 0
    shape = (given.channels, given.side, given.side) if kind == "images" else (given.width,)
    data = Data("image" if kind == "images" else "vector", shape, given.classes, number, number, given.test_samples)
    return own_setting(data, device, *layers, where=where)


def _print_experiments(name: str, device: Device | None, given: Options, more: Sequence[str], json: bool) -> None:
    from softmatch.planning.plans import WHOLE, plan_experiments  # torch

    more = [*more, *sorted(given.model_fields_set - {"device", "gpus", "price"})]
    if device is None or more:
        wrong = f"leave out --{more[0].replace('_', '-')}" if more else "name a GPU with --device, such as v100"
        raise InputError(f"{name} has the paper's own settings: {wrong}.")
    rows = plan_experiments(name, device, given.gpus, given.price)
    if json:
        _dump({"device": device.name, "gpus": given.gpus, "price_of_a_gpu_hour": given.price, "experiments": rows})
        return
    _print_table(rows, Console(emoji=False))
    texts = " The experiments on texts are left out." if name == WHOLE else ""
    print(f"At the paper's scale on {device.title}, {given.gpus} for each run.{texts}")


def _print_plans(about: Settings, plans: Sequence[Settings], total: Settings, device: Device | None) -> None:
    console = Console(emoji=False)
    if len(plans) > 1:
        _print_rows(about, console)
        keys = ("method", "flops_per_step", "seconds", "gpu_hours", "memory_bytes", "state_bytes_per_sample", "storage_bytes")
        _print_table([{key: each[key] for key in keys} for each in plans], console)
    else:
        _print_rows({**about, **plans[0]}, console)
    _print_rows({f"total_{key}": value for key, value in total.items()}, console)
    if device is not None and sum(plans[0]["memory_bytes"].values()) > device.memory:
        advice = f"smaller batches, more --gpus, or --precision {'bf16' if device.tf32 else 'fp16'}"
        print(f"It does not fit into {shown_as('bytes', device.memory)}: give {advice}.")


def _print_rows(rows: Settings, console: Console) -> None:
    """A line for each figure; the figures of a mapping follow its name."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in rows.items():
        if value is not None:
            table.add_row(Text(key.replace("_", " "), style="dim"), Text(shown_as(key, value)))
        for part, each in value.items() if isinstance(value, Mapping) else ():
            table.add_row(Text(f"  {part}", style="dim"), Text(f"  {shown_as(key, each)}"))
    console.print(table)


def _print_table(rows: Sequence[Settings], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for key, value in rows[0].items():
        table.add_column(key.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(Text(shown_as(key, value)) for key, value in row.items()))
    console.print(table)


def shown_as(key: str, value: Any) -> str:
    """A figure in the unit that its key names: bytes, seconds, flops; of a mapping, the sum."""
    if isinstance(value, Mapping):
        value = sum(value.values(), Range(0.0, 0.0)) if "seconds" in key else sum(value.values())
    if isinstance(value, Range):
        low, high = shown_as(key, value.low), shown_as(key, value.high)
        return low if low == high else f"{low} – {high}"
    if isinstance(value, str) or value is None:
        return value or "–"
    if "seconds" in key:
        return duration(value)
    for name in (name for name in UNITS if name in key):
        unit, suffix = pick_unit_and_suffix(round(value), UNITS[name].split(), 1000)
        return f"{number(value / unit)} {suffix}"
    return number(value)


def number(value: float) -> str:
    """At least three digits: '0.0231', '9.4', '1,234'."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
