"""The plan of a run: everything that is counted and estimated about it, put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from softmatch.methods import Method
from softmatch.networks import choose_network, is_encoder
from softmatch.planning.devices import Device, Range
from softmatch.planning.encoders import count_encoder, encoder_sizes
from softmatch.planning.memory import device_memory, host_memory
from softmatch.planning.methods import MethodState, planned_method, planned_micro_batch, state_of, working_method
from softmatch.planning.networks import NetworkCost, count_network, make_network
from softmatch.planning.probe import Tally, probe, stream_rows
from softmatch.planning.setting import Setting
from softmatch.planning.storage import records, run_storage, shared_storage
from softmatch.planning.timing import Speed, Time, Work, link_of, time_of
from softmatch.planning.traffic import Traffic, count_traffic
from softmatch.planning.views import count_view_operations, view_seconds

OPTIMIZER_OPERATIONS = 40
"""Of the optimiser, the average of the weights and the meter: a few for each, whatever the network."""
HIDDEN = 16
"""Features of a network that does not show them, for methods that do not use them."""


@dataclass(frozen=True)
class Counted:
    """What of a run does not depend on the device.

    Attributes:
        views: names of the labelled and of the unlabelled views.
        rows: names of the views of a step, and how many of each.
        tensors: in the network's state.
    """

    setting: Setting
    network: str
    cost: NetworkCost
    tally: Tally
    state: MethodState
    views: tuple[tuple[str, ...], tuple[str, ...]]
    rows: tuple[tuple[str, int], ...]
    work: Work
    tensors: int

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
        }


def _pair(value: Range) -> list[float]:
    return [value.low, value.high]


def count(setting: Setting, processes: int = 1) -> Counted:
    """Count what a run does.

    Raises:
        InputError: the method or the network cannot serve this setting.
    """
    config, data = setting.config, setting.data
    name = choose_network(config.model, data.kind, data.shape)
    cost = _network_cost(name, setting)
    method = planned_method(setting, config.method, cost.features, processes)
    views = tuple(method.labeled_views), tuple(method.unlabeled_views)
    rows = (
        *((view, config.labeled_batch) for view in views[0]),
        *((view, config.unlabeled_batch) for view in views[1]),
        *(("weak", stream_rows(setting, stream, method.validation_share)) for stream in method.streams),
    )
    tally = _tally(setting, cost)
    network = None if is_encoder(name) else _network(name, data.shape, data.classes)
    state = state_of(method, network)
    if is_encoder(name) and tally.followed:  # a copy of the network, which is not built here
        size = cost.state * tally.followed
        state = replace(state, saved=state.saved + size, held=state.held + size, trained=state.trained + size)
    work = _work(setting, cost, tally, method, rows, views)
    tensors = 0 if network is None else len(network.state_dict())
    return Counted(setting, name, cost, tally, state, views, rows, work, tensors)


def make_plan(counted: Counted, gpus: int, device: Device | None, speed: Speed, network: float | None = None) -> Plan:
    """The plan for so many devices.

    Args:
        device: None: this machine.
        network: bytes per second of each GPU to other machines, where the user knows it.
    """
    setting, cost, tally, state = counted.setting, counted.cost, counted.tally, counted.state
    followed = state.trained if tally.followed else 0
    traffic = count_traffic(tally, cost, setting.data, gpus, setting.on_cpu, planned_micro_batch(setting), followed)
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
        time_of(counted.work, speed, traffic, link_of(device, gpus, network)),
    )


@cache
def _network(name: str, shape: tuple[int, ...], classes: int) -> Any:
    return make_network(name, shape, classes)


@cache
def _counted_network(name: str, shape: tuple[int, ...], classes: int) -> NetworkCost:
    work = "texts" if name.startswith("mlp") else "images"
    return count_network(_network(name, shape, classes), shape, work)


def _network_cost(name: str, setting: Setting) -> NetworkCost:
    config, data = setting.config, setting.data
    if not is_encoder(name):
        return _counted_network(name, data.shape, data.classes)
    assert config.encoder is not None
    assert data.lengths is not None
    return count_encoder(encoder_sizes(config.encoder), config, data.classes, data.lengths.padded)


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


def _work(
    setting: Setting,
    cost: NetworkCost,
    tally: Tally,
    method: Method,
    rows: tuple[tuple[str, int], ...],
    views: tuple[tuple[str, ...], tuple[str, ...]],
) -> Work:
    config, data = setting.config, setting.data
    inputs = tally.backward_rows - tally.learned_rows
    flops = tally.forward_rows * cost.forward + tally.learned_rows * cost.backward + inputs * cost.input_backward
    passes = tally.forward * cost.forward_operations + tally.backward * cost.backward_operations
    labeled = count_view_operations(setting, views[0])
    has_twin = config.twin and config.method != "supervised" and data.evaluated
    twins = (data.folds or 1) if has_twin else 0
    every = method.survey_every
    surveys = method.generations - 1 + (0 if every is None else (config.steps - 1) // every)
    prepared = 0.0
    if data.kind == "vector" and config.encoder is not None and data.lengths is not None:
        encoder = count_encoder(encoder_sizes(config.encoder), config, data.classes, data.lengths.mean)
        prepared = (data.train + data.tested) * encoder.forward
    return Work(
        step=flops / tally.steps,
        twin_step=config.labeled_batch * (cost.forward + cost.backward),
        evaluation=data.tested * cost.forward,
        survey=data.unlabeled * cost.forward,
        operations=(passes + tally.operations) / tally.steps
        + OPTIMIZER_OPERATIONS
        + labeled
        + count_view_operations(setting, views[1]),
        twin_operations=cost.forward_operations + cost.backward_operations + OPTIMIZER_OPERATIONS + labeled,
        steps=config.steps,
        trainings=data.folds + 1,
        twins=twins,
        evaluations=((data.folds or 1) + twins) * records(config) if data.evaluated else 0,
        surveys=surveys,
        prepared=prepared,
        views=view_seconds(setting, rows),
    )
