"""`softmatch plan`: parse, count, print."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from softmatch.config import Config, read_file, split_names
from softmatch.errors import InputError

if TYPE_CHECKING:
    from softmatch.planning.devices import Device
    from softmatch.planning.plans import Counted, Plan
    from softmatch.planning.setting import Own, Setting
    from softmatch.planning.timing import Speed

HERE = ("auto", "cpu", "cuda", "mps")
"""Devices of this machine."""


def plan(
    source: str | None = None,
    /,
    *,
    config: Annotated[Config | None, Parameter(name="*")] = None,
    file: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    gpus: int = 1,
    seeds: int = 1,
    methods: str | None = None,
    price: float | None = None,
    network: float | None = None,
    images: int | None = None,
    vectors: int | None = None,
    texts: int | None = None,
    side: int = 32,
    channels: int = 3,
    width: int = 64,
    tokens: int | None = None,
    classes: int = 10,
    test_samples: int = 0,
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
    - softmatch plan --images 1000000 --side 224 --classes 1000 --model resnet-50 --labels 10000 --device h100 --gpus 8
    - softmatch plan agnews --recipe paper --device v100
    - softmatch plan table-main --device a100
    - softmatch plan paper --device v100 --price 2.5
    - softmatch plan --pool 1e4,1e6,1e9 --device a100
    - softmatch plan cifar10 --model wrn-10-1 --labeled-batch 16 --unlabeled-batch 112 --measure

    Parameters
    ----------
    source:
        A source that softmatch knows by name (digits, cifar10, …, yelp-5); a table or figure of the paper as of `softmatch
        reproduce` (table-main, …), or paper for all of them at the paper's scale; nothing, where sizes are given.
    config:
        Settings, as of `softmatch train`; --device is v100, a100, a100-40gb, h100, l4, t4 or rtx-4090, or auto, cpu or cuda for
        this machine.
    file:
        YAML file of settings.
    gpus:
        That train one network together, each with a share of every batch; on a CPU, processes.
    seeds:
        Runs of each method.
    methods:
        Several, separated by commas, in the place of --method.
    price:
        Of a GPU-hour, in any currency; without it no price is printed.
    network:
        GB/s from each GPU to other machines, where more than 8 train together. Default: the maker's own machine, else 12.5.
    images, vectors, texts:
        How many samples there are, where only sizes are known; with --side, --channels, --width, --tokens and --classes.
    side, channels:
        Size of these images.
    width:
        Numbers in these vectors.
    tokens:
        Of a text, with padding; also for named sources of texts.
    classes:
        How many there are.
    test_samples:
        Of a test set that goes with these samples.
    pool:
        Sizes of the unlabelled set, separated by commas: what each method remembers at each of them, and what else grows.
    measure:
        Time a few steps on this machine, with random data, and use that.
    json:
        Print JSON instead of tables: bytes, seconds, FLOPs; estimates as [low, high].
    """
    for name, value in (("--gpus", gpus), ("--seeds", seeds)):
        if value < 1:
            raise InputError(f"{name} {value}: one or more are needed.")
    for name, given in (("--price", price), ("--network", network)):
        if given is not None and not given > 0:
            raise InputError(f"{name} {given:g}: it must be more than 0.")
    own = _own_sizes(images, vectors, texts, (channels, side, side), width, tokens, classes, test_samples)
    layer = read_file(file) if file is not None else {}
    written = layer.pop("source", None)
    name = source if source is not None else written
    if own is not None and name is not None:
        raise InputError(f"{name!r} and --{own.kind}s {own.number} are two sources: give one of them.")
    if own is None and name is None:
        if pool is not None:  # of images, as small as CIFAR's unless said otherwise
            own = _own_sizes(1000, None, None, (channels, side, side), width, tokens, classes, test_samples)
        else:
            name = "digits"
    said = {} if config is None else {key: getattr(config, key) for key in config.model_fields_set}
    device_name = str(said.pop("device", None) or layer.pop("device", None) or "auto")
    layers: tuple[dict[str, Any], ...] = (layer, said)
    from softmatch.planning.devices import find_device  # the package imports torch

    device = None if device_name in HERE or device_name.startswith("cuda:") else find_device(device_name)
    if measure and (device is not None or gpus > 1):
        raise InputError("--measure times steps of one process on this machine: leave out --device and --gpus.")
    from softmatch.planning.experiments import is_experiment

    if is_experiment(name):
        _plan_experiments(str(name), device, gpus, price, json, bool(layer or said or methods or measure))
        return
    kind = _kind(device, device_name)
    where = str(file or "settings")
    if pool is not None:
        _plan_pool(_setting(name, own, layers, "cuda", where, tokens), split_names(methods), pool, device, json)
        return
    chosen = split_names(methods)
    if chosen is not None and "method" in {**layer, **said}:
        raise InputError("--methods takes the place of --method: give one of them.")
    settings = [_setting(name, own, (*layers, {"method": each}), kind, where, tokens) for each in chosen or ()]
    settings = settings or [_setting(name, own, layers, kind, where, tokens)]
    plans = [_plan(setting, gpus, device, device_name, network, measure) for setting in settings]
    _print(plans, seeds, price, json)


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


def _own_sizes(
    images: int | None,
    vectors: int | None,
    texts: int | None,
    shape: tuple[int, int, int],
    width: int,
    tokens: int | None,
    classes: int,
    tested: int,
) -> Own | None:
    given = {"image": images, "vector": vectors, "text": texts}
    kinds = [kind for kind, number in given.items() if number is not None]
    if not kinds:
        return None
    if len(kinds) > 1:
        raise InputError(f"--{kinds[0]}s and --{kinds[1]}s: data are of one kind, give one of them.")
    if kinds == ["text"] and tokens is None:
        raise InputError("--texts needs --tokens: how many a text has, with padding.")
    if kinds == ["image"] and shape[0] not in (1, 3):
        raise InputError(f"--channels {shape[0]}: images have 1 (grey) or 3.")
    from softmatch.planning.setting import Own

    if kinds == ["image"]:
        return Own("image", images or 0, shape, classes, tested)
    if kinds == ["vector"]:
        return Own("vector", vectors or 0, (width,), classes, tested)
    return Own("text", texts or 0, (tokens or 0,), classes, tested)


def _kind(device: Device | None, name: str) -> str:
    """ "cpu" or "cuda": what the defaults and the passes follow from."""
    if device is not None:
        return "cuda"
    from softmatch.training.devices import choose_device

    return "cpu" if choose_device(name).type == "cpu" else "cuda"


def _setting(
    name: str | None, own: Own | None, layers: tuple[dict[str, Any], ...], kind: str, where: str, tokens: int | None
) -> Setting:
    from softmatch.planning.setting import SOURCES, named_setting, own_setting

    if own is not None:
        return own_setting(own, layers, kind, where)
    assert name is not None
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
        print(json_format.dumps([share.as_dict() for share in shares], indent=1, ensure_ascii=False))
    else:
        print_experiments(shares, device, gpus, price)


def _plan_pool(setting: Setting, names: tuple[str, ...] | None, pool: str, device: Device | None, json: bool) -> None:
    from softmatch.methods import METHODS
    from softmatch.planning.pool import method_growth, other_growth, pool_device, read_sizes
    from softmatch.planning.shown import print_pool

    sizes = read_sizes(pool)
    methods, others = method_growth(setting, names or tuple(METHODS), sizes), other_growth(setting, sizes)
    if not json:
        print_pool(methods, others, pool_device(device))
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
    print(json_format.dumps({"sizes": sizes, **found}, indent=1, ensure_ascii=False))
