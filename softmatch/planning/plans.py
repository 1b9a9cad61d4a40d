"""The plan of a run: everything that is counted and estimated about it, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from softmatch.errors import InputError, SoftmatchError
from softmatch.methods import Method
from softmatch.networks import choose_network, is_encoder
from softmatch.planning.bounds import refuse_batches
from softmatch.planning.devices import Device, Range
from softmatch.planning.encoders import count_encoder, encoder_sizes
from softmatch.planning.memory import device_memory, host_memory
from softmatch.planning.methods import MethodState, planned_method, planned_micro_batch, state_of, working_method
from softmatch.planning.networks import NetworkCost, count_network, make_network
from softmatch.planning.probe import Tally, probe, stream_rows
from softmatch.planning.setting import Lengths, Setting
from softmatch.planning.storage import records, run_storage, shared_storage
from softmatch.planning.timing import FEATURES, Speed, Time, Work, link_of, time_of
from softmatch.planning.traffic import Traffic, count_traffic
from softmatch.planning.views import count_view_operations, view_seconds
from softmatch.training.tuning import length_buckets

Rows = tuple[tuple[str, int], ...]
"""Names of views, and how many of each."""
OPTIMIZER_OPERATIONS = 40
"""Of the optimiser, the average of the weights and the meter: a few for each, whatever the network."""
SOLVERS: Mapping[str, str] = {"sla": "at every step", "darp": "at every tenth step after its warm-up"}
"""Methods whose steps grow with the unlabelled set (benchmarks/results/plan.md), and when."""
HIDDEN = 16
"""Features of a network that does not show them, for methods that do not use them."""


@dataclass(frozen=True)
class Counted:
    """What of a run does not depend on the device.

    Attributes:
        views: names of the labelled and of the unlabelled views.
        rows: names of the views of a step, and how many of each.
        tensors: in the network's state.
        twin_tally: of a step of the supervised twin.
    """

    setting: Setting
    network: str
    cost: NetworkCost
    tally: Tally
    state: MethodState
    views: tuple[tuple[str, ...], tuple[str, ...]]
    rows: Rows
    work: Work
    tensors: int
    twin_tally: Tally

    @property
    def method(self) -> str:
        return self.setting.config.method

    @property
    def twin(self) -> bool:
        """Whether a supervised twin is trained too."""
        return self.work.twins > 0

    @property
    def samples(self) -> int:
        """Samples in a step's batches, labelled and unlabelled."""
        return self.setting.config.labeled_batch + (self.setting.config.unlabeled_batch if self.views[1] else 0)

    @property
    def epochs(self) -> float:
        """How often a run sees the unlabelled set."""
        drawn = self.setting.config.steps * self.setting.config.unlabeled_batch if self.views[1] else 0
        return drawn / self.setting.data.unlabeled


@dataclass(frozen=True)
class Plan:
    """A run on some GPUs."""

    counted: Counted
    gpus: int
    device: Device | None
    speed: Speed
    traffic: Traffic
    memory: dict[str, float]
    host: dict[str, float]
    storage: dict[str, float]
    shared: dict[str, float]
    time: Time

    @property
    def gpu_hours(self) -> Range:
        return self.time.total * (self.gpus / 3600)

    @property
    def feature_hours(self) -> Range:
        """GPU-hours until the features of an encoder are there, for which all wait: only the first of several runs needs them."""
        return self.time.parts.get(FEATURES, Range(0.0, 0.0)) * (self.gpus / 3600)

    @property
    def left_out(self) -> str | None:
        """What the hours do not hold, in a sentence."""
        solved = sorted(SOLVERS.keys() & set(self.counted.method.split("+")))
        if not solved:
            return None
        number = f"{self.counted.setting.data.unlabeled:,} samples"
        if self.speed.step is None:
            return f"{solved[0]} solves a problem of all {number} {SOLVERS[solved[0]]}, which is not in these hours."
        if solved[0] == "darp":
            return (
                f"darp solves a problem of all {number} {SOLVERS['darp']}: the first steps, which were measured, have none of it."
            )
        return None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: seconds, bytes and FLOPs; estimates are [low, high]."""
        counted, setting = self.counted, self.counted.setting
        config, data, cost, work = setting.config, setting.data, counted.cost, counted.work
        return {
            "method": counted.method,
            "network": counted.network,
            "parameters": cost.parameters + counted.tally.heads,
            "trained_parameters": cost.trained + counted.tally.heads,
            "classes": data.classes,
            "labeled": data.labeled,
            "unlabeled": data.unlabeled,
            "tested": data.tested,
            "steps": config.steps,
            "samples_per_step": counted.samples,
            "views_per_step": sum(number for _, number in counted.rows),
            "samples": config.steps * counted.samples,
            "epochs": counted.epochs,
            "forward_flops_of_a_sample": cost.forward,
            "flops_per_step": work.step,
            "flops": work.total,
            "trainings": work.trainings,
            "twins": work.twins,
            "step_seconds": _pair(self.time.step),
            "seconds": _pair(self.time.total),
            "seconds_by_part": {name: _pair(part) for name, part in self.time.parts.items()},
            "overhead_share": _pair(self.time.overhead),
            "gpu_hours": _pair(self.gpu_hours),
            "memory_bytes": self.memory,
            "host_bytes": self.host,
            "sent_bytes_per_step": self.traffic.parts,
            "messages_per_step": self.traffic.number,
            "storage_bytes": self.storage,
            "speed": self.speed.where,
            "left_out": self.left_out,
        }


def _pair(value: Range) -> list[float]:
    return [value.low, value.high]


def count(setting: Setting, processes: int = 1) -> Counted:
    """Count what a run does.

    Raises:
        InputError: the method or the network cannot serve this setting.
    """
    config, data = setting.config, setting.data
    name = choose_network(config.network, data.kind, data.shape)
    cost = _network_cost(name, setting)
    refuse_batches(config, (cost.features or HIDDEN) + data.classes)
    method = planned_method(setting, config.method, cost.features, processes)
    views = tuple(method.labeled_views), tuple(method.unlabeled_views)
    rows = (
        *((view, config.labeled_batch) for view in views[0]),
        *((view, config.unlabeled_batch) for view in views[1]),
        *(("weak", stream_rows(setting, stream, method.validation_share)) for stream in method.streams),
    )
    tally, supervised = _tally(setting, cost), _supervised(setting)
    twin_tally = _tally(supervised, cost)
    network = None if is_encoder(name) else _network(name, data.shape, data.classes)
    state = state_of(method, network)
    if is_encoder(name) and tally.followed:  # a copy of the network, which is not built here
        size = cost.state * tally.followed
        state = replace(state, saved=state.saved + size, held=state.held + size, trained=state.trained + size)
    work = _work(setting, cost, (tally, twin_tally), method, rows)
    tensors = 0 if network is None else len(network.state_dict())
    return Counted(setting, name, cost, tally, state, views, rows, work, tensors, twin_tally)


def make_plan(counted: Counted, gpus: int, device: Device | None, speed: Speed, network: float | None = None) -> Plan:
    """The plan for so many devices.

    Args:
        device: None: this machine.
        network: bytes per second of each GPU to other machines, where the user knows it.
    """
    setting, cost, tally, state = counted.setting, counted.cost, counted.tally, counted.state
    followed = state.trained if tally.followed else 0
    micro = planned_micro_batch(setting)
    traffic = count_traffic(tally, cost, setting.data, gpus, setting.on_cpu, micro, followed)
    twin_traffic = count_traffic(counted.twin_tally, cost, setting.data, gpus, setting.on_cpu, micro)
    return Plan(
        counted,
        gpus,
        device,
        speed,
        traffic,
        device_memory(setting.config, setting.data, cost, tally, state, counted.views, gpus),
        host_memory(setting.data, setting.on_cpu),
        run_storage(setting, cost, tally, state, counted.twin, counted.tensors),
        shared_storage(setting),
        time_of(counted.work, speed, traffic, twin_traffic, link_of(device, gpus, network)),
    )


@contextmanager
def _fitting(name: str, shape: tuple[int, ...]) -> Iterator[None]:
    """What torch has to say about items that a network has no use for becomes an InputError."""
    try:
        yield
    except SoftmatchError:
        raise
    except (RuntimeError, ValueError, OverflowError) as error:
        size, reason = "×".join(map(str, shape)), str(error).splitlines()[0].rstrip(".")
        raise InputError(f"the network {name} cannot be planned for items of {size}: {reason}.") from error


@cache
def _network(name: str, shape: tuple[int, ...], classes: int) -> Any:
    with _fitting(name, shape):
        return make_network(name, shape, classes)


@cache
def _counted_network(name: str, shape: tuple[int, ...], classes: int) -> NetworkCost:
    work = "texts" if name.startswith("mlp") else "images"
    network = _network(name, shape, classes)
    with _fitting(name, shape):
        return count_network(network, shape, work)


def _network_cost(name: str, setting: Setting) -> NetworkCost:
    config, data = setting.config, setting.data
    if not is_encoder(name):
        return _counted_network(name, data.shape, data.classes)
    assert config.encoder is not None
    assert data.lengths is not None
    return count_encoder(encoder_sizes(config.encoder), config, data.classes, step_tokens(setting, data.lengths))


def step_tokens(setting: Setting, lengths: Lengths) -> float:
    """Tokens that a text of a step is filled up to, on average: batches of similar lengths need hardly any padding."""
    config, buckets = setting.config, length_buckets(setting.config, setting.data.kind)
    if buckets is None or buckets == 1:
        return lengths.padded
    labeled, unlabeled = config.labeled_batch, config.unlabeled_batch
    return (labeled * lengths.padded + unlabeled * lengths.mean) / (labeled + unlabeled)


_tallies: dict[str, Tally] = {}


def _tally(setting: Setting, cost: NetworkCost) -> Tally:
    """Runs that differ in seeds and labels alone make the same passes."""
    config, data = setting.config, setting.data
    features = cost.features or HIDDEN
    same = config.model_dump_json(exclude={"seed", "split_seed", "labels", "device", "out", "data"})
    key = f"{same} {data.kind} {data.shape} {data.classes} {features} {setting.on_cpu}"
    if key not in _tallies:
        method = working_method(setting, config.method, cost.features)
        _tallies[key] = probe(method, setting, features, planned_micro_batch(setting))
    return _tallies[key]


def _supervised(setting: Setting) -> Setting:
    """Of the twin: the same without the method."""
    return replace(setting, config=setting.config.model_copy(update={"method": "supervised", "method_options": {}}))


def _flops(cost: NetworkCost, tally: Tally) -> float:
    """Of a step."""
    inputs = tally.backward_rows - tally.learned_rows
    flops = tally.forward_rows * cost.forward + tally.learned_rows * cost.backward + inputs * cost.input_backward
    return flops / tally.steps


def _operations(setting: Setting, cost: NetworkCost, tally: Tally, rows: Rows) -> float:
    """That the host starts in a step."""
    passes = tally.forward * cost.forward_operations + tally.backward * cost.backward_operations
    made = count_view_operations(setting, [name for name, _ in rows])
    return (passes + tally.operations) / tally.steps + OPTIMIZER_OPERATIONS + made


def _work(setting: Setting, cost: NetworkCost, tallies: tuple[Tally, Tally], method: Method, rows: Rows) -> Work:
    """Of a method and its twin, each with what it does in a step."""
    config, data = setting.config, setting.data
    has_twin = config.baseline and config.method != "supervised" and data.evaluated
    twins = (data.folds or 1) if has_twin else 0
    twin_rows = (("weak", config.labeled_batch),)
    every = method.survey_every
    surveys = method.generations - 1 + (0 if every is None else (config.steps - 1) // every)
    prepared = 0.0
    if data.kind == "vector" and config.encoder is not None and data.lengths is not None:
        encoder = count_encoder(encoder_sizes(config.encoder), config, data.classes, data.lengths.mean)
        prepared = (data.train + data.tested) * encoder.forward
    read = _read_flops(setting, cost)
    return Work(
        step=_flops(cost, tallies[0]),
        twin_step=_flops(cost, tallies[1]),
        evaluation=data.tested * read,
        survey=data.unlabeled * read,
        operations=_operations(setting, cost, tallies[0], rows),
        twin_operations=_operations(setting, cost, tallies[1], twin_rows),
        steps=config.steps,
        trainings=data.folds + 1,
        twins=twins,
        evaluations=((data.folds or 1) + twins) * records(config) if data.evaluated else 0,
        surveys=surveys,
        prepared=prepared,
        views=view_seconds(setting, rows),
        twin_views=view_seconds(setting, twin_rows),
    )


def _read_flops(setting: Setting, cost: NetworkCost) -> float:
    """Of one sample when all of a set are predicted: texts are then read by length, and need little padding."""
    if setting.data.kind != "text":
        return cost.forward
    assert setting.config.encoder is not None
    assert setting.data.lengths is not None
    sizes = encoder_sizes(setting.config.encoder)
    return count_encoder(sizes, setting.config, setting.data.classes, setting.data.lengths.mean).forward
