"""`softmatch plan`: parse, count, print."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from cyclopts import Parameter
from pydantic import Field

from softmatch.config import Config, read_file, split_names
from softmatch.errors import InputError

if TYPE_CHECKING:
    from softmatch.planning.devices import Device
    from softmatch.planning.plans import Counted, Plan
    from softmatch.planning.setting import Own, Setting
    from softmatch.planning.timing import Speed

HERE = ("auto", "cpu", "cuda", "mps")
"""Devices of this machine."""
SIDE, WIDTH, CLASSES, POOLED = 32, 64, 10, 100_000
"""Sizes where none are given."""


class Planned(Config):
    """Settings as of `softmatch train`, for a device that need not be here."""

    device: str = Field(
        "auto",
        description="v100, a100, a100-40gb, h100, l4, t4 or rtx-4090: by its data sheet. auto, cpu, cuda or mps: this machine.",
    )


def plan(
    source: str | None = None,
    /,
    *,
    config: Annotated[Planned | None, Parameter(name="*")] = None,
    file: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    gpus: int | None = None,
    seeds: int | None = None,
    methods: str | None = None,
    price: float | None = None,
    bandwidth: float | None = None,
    images: int | None = None,
    vectors: int | None = None,
    texts: int | None = None,
    side: int | None = None,
    channels: int | None = None,
    width: int | None = None,
    tokens: int | None = None,
    classes: int | None = None,
    test_samples: int | None = None,
    pool: str | None = None,
    measure: bool = False,
    json: bool = False,
) -> None:
    """Say what a setting would cost: steps, arithmetic, hours, memory, traffic and files, on GPUs that need not be here.

    Neither the data nor the GPU is needed. What can be counted is counted; hours on a GPU are estimates, from low to high, by
    its data sheet and by what the paper and NVIDIA say of theirs. --measure times real steps on this machine instead.

    Examples:

    - softmatch plan cifar10 --labels 40 --recipe paper --device v100 --gpus 4 --price 2.5
    - softmatch plan imagenet --recipe paper --device a100 --gpus 8 --seeds 3 --methods softmatch,flexmatch
    - softmatch plan digits
    - softmatch plan --images 1000000 --side 224 --classes 1000 --network resnet-50 --labels 10000 --device h100 --gpus 8
    - softmatch plan agnews --recipe paper --device v100
    - softmatch plan table-main --device a100
    - softmatch plan paper --device v100 --price 2.5
    - softmatch plan --pool 1e4,1e6,1e9 --device a100
    - softmatch plan cifar10 --network wrn-10-1 --labeled-batch 16 --unlabeled-batch 112 --measure

    Parameters
    ----------
    source:
        A source that softmatch knows by name (digits, cifar10, …, yelp-5); a table or figure of the paper as of `softmatch
        reproduce` (table-main, …), or paper for all of them at the paper's scale; nothing, where sizes are given.
    config:
        Settings, as of `softmatch train`.
    file:
        YAML file of settings.
    gpus:
        That train one network together, each with a share of every batch; with --device. Default: 1.
    seeds:
        Runs of each method. Default: 1.
    methods:
        Several, separated by commas, in the place of --method.
    price:
        Of a GPU-hour, or of an hour of this machine, in any currency; without it no price is printed.
    bandwidth:
        GB/s from each GPU to other machines, where more than 8 train together. Default: the maker's own machine, else 12.5.
    images:
        How many images there are, where only sizes are known; with --side, --channels, --classes and --test-samples.
    vectors:
        How many vectors of numbers; with --width, --classes and --test-samples.
    texts:
        How many texts; with --tokens, --classes and --test-samples.
    side:
        Pixels of a side of these images. Default: 32.
    channels:
        Of these images: 1 (grey) or 3. Default: 3.
    width:
        Numbers in each of these vectors. Default: 64.
    tokens:
        Of a text, with padding; also for named sources of texts.
    classes:
        How many there are. Default: 10.
    test_samples:
        Of a test set that goes with these samples. Default: none.
    pool:
        Sizes of the unlabelled set, separated by commas: what each method (or those of --methods, --method) remembers at each
        of them, and what else grows.
    measure:
        Time a few steps on this machine, with random data, and use that.
    json:
        Print JSON instead of tables: bytes, seconds, FLOPs; estimates as [low, high].
    """
    from softmatch.planning.bounds import refuse_amount, refuse_sizes  # the package imports torch
    from softmatch.planning.devices import GPUS_OF_A_MACHINE, find_device
    from softmatch.planning.experiments import is_experiment

    refuse_sizes({"--gpus": gpus, "--seeds": seeds})
    for option, amount in (("--price", price), ("--bandwidth", bandwidth)):
        refuse_amount(option, amount)
    chosen = _names(methods)
    numbers = {"image": images, "vector": vectors, "text": texts}
    sizes = Sizes(side, channels, width, tokens, classes, test_samples)
    layer = read_file(file) if file is not None else {}
    written = layer.pop("source", None)
    name = source if source is not None else written
    own = _own_sizes(numbers, sizes, name, pool is not None)
    said = {} if config is None else {key: getattr(config, key) for key in config.model_fields_set}
    device_name = str(said.pop("device", None) or layer.pop("device", None) or "auto")
    layers: tuple[dict[str, Any], ...] = (layer, said)
    device = None if device_name in HERE or device_name.startswith("cuda:") else find_device(device_name)
    given = {"--seeds": seeds, "--bandwidth": bandwidth, "--pool": pool, "--methods": methods, "--measure": measure or None}
    if is_experiment(name):
        _refuse({**given, "--tokens": tokens}, f"{name} has the paper's own settings")
        _plan_experiments(str(name), device, gpus or 1, price, json, bool(layer or said))
        return
    if measure and (device is not None or gpus is not None):
        raise InputError("--measure times steps of one process on this machine: leave out --device and --gpus.")
    if chosen is not None and "method" in {**layer, **said}:
        raise InputError("--methods takes the place of --method: give one of them.")
    where = str(file or "settings")
    if pool is not None:
        more = {"--gpus": gpus, "--price": price, "--test-samples": test_samples}
        _refuse({**given, **more, "--pool": None, "--methods": None}, "--pool is about memory and files alone")
        setting = _setting(name, own, layers, "cuda", where, tokens)
        _plan_pool(setting, chosen or ((setting.config.method,) if "method" in {**layer, **said} else None), pool, device, json)
        return
    if device is None and (gpus or 1) > 1:
        raise InputError(f"--gpus {gpus}: name them with --device, such as a100. This machine is planned as one.")
    if bandwidth is not None and (device is None or (gpus or 1) <= GPUS_OF_A_MACHINE):
        raise InputError(
            f"--bandwidth {bandwidth:g} is between machines, where more than {GPUS_OF_A_MACHINE} --gpus train together."
        )
    kind = _kind(device, device_name)
    settings = [_setting(name, own, (*layers, {"method": each}), kind, where, tokens) for each in chosen or ()]
    settings = settings or [_setting(name, own, layers, kind, where, tokens)]
    plans = [_plan(setting, gpus or 1, device, device_name, bandwidth, measure) for setting in settings]
    _print(plans, seeds or 1, price, json)


def _names(methods: str | None) -> tuple[str, ...] | None:
    found = split_names(methods)
    if methods is not None and found is None:
        raise InputError(f"--methods {methods!r}: give names separated by commas, such as softmatch,flexmatch.")
    return found


def _refuse(given: Mapping[str, object], why: str) -> None:
    """Options that nothing would read; None: it was not given."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{why}: leave out {name}.")


def _print(plans: list[Plan], seeds: int, price: float | None, json: bool) -> None:
    from softmatch.planning.shown import print_plan, print_plans
    from softmatch.planning.sums import sum_up

    total, first = sum_up(plans, seeds, price), plans[0]
    if json:
        about = {
            "source": first.counted.setting.source,
            "device": None if first.device is None else first.device.name,
            "gpus": first.gpus,
            "seeds": seeds,
            "settings": first.counted.setting.config.model_dump(mode="json", exclude={"method", "method_options"}),
            "runs": [each.as_dict() for each in plans],
            "shared_storage_bytes": first.shared,
            "total": total.as_dict(),
        }
        print(json_format.dumps(about, indent=1, ensure_ascii=False))
    elif len(plans) > 1:
        print_plans(plans, total)
    else:
        print_plan(first, total)


class Sizes(NamedTuple):
    """Of data of which only sizes are known; None: not given."""

    side: int | None
    channels: int | None
    width: int | None
    tokens: int | None
    classes: int | None
    test_samples: int | None


READ: Mapping[str, tuple[str, ...]] = {"image": ("side", "channels"), "vector": ("width",), "text": ("tokens",)}
"""Which sizes are read of each kind, besides classes and test_samples."""


def _own_sizes(numbers: Mapping[str, int | None], sizes: Sizes, name: str | None, pool: bool) -> Own | None:
    """The user's own data, or None for a source with a name."""
    kinds = [kind for kind, number in numbers.items() if number is not None]
    if len(kinds) > 1:
        raise InputError(f"--{kinds[0]}s and --{kinds[1]}s: data are of one kind, give one of them.")
    if kinds and name is not None:
        raise InputError(f"{name!r} and --{kinds[0]}s {numbers[kinds[0]]} are two sources: give one of them.")
    if not kinds and name is None and pool:  # of images, as small as CIFAR's unless said otherwise
        kinds, numbers = ["image"], {"image": POOLED}
    if not kinds:
        missing = "that is about --images, --vectors or --texts, which are not given"
        _refuse({_option(key): value for key, value in sizes._asdict().items() if key != "tokens"}, missing)
        return None
    (kind,) = kinds
    read = (*READ[kind], "classes", "test_samples")
    _refuse({_option(key): value for key, value in sizes._asdict().items() if key not in read}, f"data are {kind}s")
    if kind == "text" and sizes.tokens is None:
        raise InputError("--texts needs --tokens: how many a text has, with padding.")
    if sizes.channels not in (None, 1, 3):
        raise InputError(f"--channels {sizes.channels}: images have 1 (grey) or 3.")
    from softmatch.planning.setting import Own

    side = SIDE if sizes.side is None else sizes.side
    shapes = {
        "image": (sizes.channels or 3, side, side),
        "vector": (WIDTH if sizes.width is None else sizes.width,),
        "text": (sizes.tokens or 0,),
    }
    classes = CLASSES if sizes.classes is None else sizes.classes
    return Own(cast(Any, kind), numbers[kind] or 0, shapes[kind], classes, sizes.test_samples or 0)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _kind(device: Device | None, name: str) -> str:
    """ "cpu" or "cuda": what the defaults and the passes follow from."""
    if device is not None:
        return "cuda"
    from softmatch.distributed.devices import choose_device

    try:
        return "cpu" if choose_device(name).type == "cpu" else "cuda"
    except InputError as error:  # which says what torch says, of all its devices
        raise InputError(f"--device {name} is not on this machine: give auto, cpu, or the name of a GPU such as a100.") from error


def _setting(
    name: str | None, own: Own | None, layers: tuple[dict[str, Any], ...], kind: str, where: str, tokens: int | None
) -> Setting:
    from softmatch.planning.setting import SOURCES, named_setting, own_setting

    if own is not None:
        return own_setting(own, layers, kind, where)
    name = name or "digits"
    if name not in SOURCES and (Path(name).exists() or "/" in name):
        raise InputError(
            f"{name}: a plan is made without data. Give their sizes (--images, --vectors or --texts with --classes), or let "
            "softmatch train … --dry-run look at them."
        )
    return named_setting(name, layers, kind, where, tokens)


def _plan(setting: Setting, gpus: int, device: Device | None, name: str, network: float | None, measure: bool) -> Plan:
    from softmatch.planning.plans import count, make_plan

    counted = count(setting, gpus)
    speed = _speed(counted, device, name, measure)
    return make_plan(counted, gpus, device, speed, None if network is None else network * 1e9)


def _speed(counted: Counted, device: Device | None, name: str, measure: bool) -> Speed:
    from softmatch.planning.timing import cpu_speed, gpu_speed

    config = counted.setting.config
    if device is not None:
        return gpu_speed(device, counted.cost.work, config.precision)
    if measure:
        from softmatch.planning.measured import measured_speed

        return measured_speed(counted, name)
    if not counted.setting.on_cpu:
        raise InputError("this machine has a GPU: give --measure to time it, or its name with --device, such as a100.")
    import torch

    from softmatch.training.bench import matmul_flops

    before = torch.get_num_threads()
    torch.set_num_threads(config.threads or before)
    try:
        return cpu_speed(matmul_flops(torch.device("cpu"), repeats=2))
    finally:
        torch.set_num_threads(before)


def _plan_experiments(name: str, device: Device | None, gpus: int, price: float | None, json: bool, more: bool) -> None:
    if device is None:
        raise InputError(f"{name} is planned for a GPU: name it with --device, such as v100.")
    if more:
        raise InputError(f"{name} has the paper's own settings: give --device, --gpus and --price alone.")
    from softmatch.planning.experiments import plan_experiments
    from softmatch.planning.shown import print_experiments

    shares = plan_experiments(name, device, gpus)
    if json:
        planned = [share.as_dict(price) for share in shares]
        about = {"device": device.name, "gpus": gpus, "price_of_a_gpu_hour": price, "experiments": planned}
        print(json_format.dumps(about, indent=1, ensure_ascii=False))
    else:
        print_experiments(shares, device, gpus, price)


def _plan_pool(setting: Setting, names: tuple[str, ...] | None, pool: str, device: Device | None, json: bool) -> None:
    from softmatch.methods import METHODS
    from softmatch.planning.pool import fitting_methods, method_growth, other_growth, pool_device, read_sizes, together
    from softmatch.planning.shown import print_pool

    sizes = read_sizes(pool)
    fit, unfit = (names, list[str]()) if names is not None else fitting_methods(setting, METHODS)
    methods, others = method_growth(setting, fit, sizes), other_growth(setting, sizes)
    if not json:
        print_pool(methods, others, pool_device(device), unfit)
        return
    found = {
        part: {
            each.name: {
                "where": each.where,
                "bytes_per_sample": each.per_sample,
                "constant_bytes": each.constant,
                "bytes": each.bytes,
            }
            for each in growths
        }
        for part, growths in (("methods", methods), ("others", others))
    }
    sums = {where: together(others, where).bytes for where in ("device", "host")}
    print(json_format.dumps({"sizes": sizes, **found, "others_together": sums, "unfit": unfit}, indent=1, ensure_ascii=False))
