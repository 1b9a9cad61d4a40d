"""Seconds of a run from its arithmetic: how fast a device computes, and what it has to wait for."""

from __future__ import annotations

from dataclasses import dataclass

from softmatch.planning.devices import GPUS_OF_A_MACHINE, HOST_SECONDS, LATENCY, NETWORK, Device, Range, rates
from softmatch.planning.traffic import Traffic

CPU_SHARE = Range(0.40, 0.80)
"""Of the FLOP/s of a large matrix product, what convolutions and small products get on a CPU: measured over networks and batches
(benchmarks/results/plan.md, benchmarks/results/step.md)."""
CPU_OPERATION = 1.1e-5
"""Seconds of a CPU to start an operation and to end it, whatever its size: measured (benchmarks/results/plan.md)."""


@dataclass(frozen=True)
class Work:
    """What a run computes, in FLOPs and in operations that are started.

    Attributes:
        step, twin_step: of the method, and of its supervised twin; evaluation: of all test samples once; survey: of all
            unlabelled samples once.
        operations, twin_operations: of a step.
        steps: of one training.
        trainings, twins: how many networks are trained by the method, and on labels alone.
        evaluations: of all networks together.
        surveys: of one training.
        prepared: to compute features once, by one process.
        views, twin_views: seconds of one core to make the views of a step.
    """

    step: float
    twin_step: float
    evaluation: float
    survey: float
    operations: float
    twin_operations: float
    steps: int
    trainings: int
    twins: int
    evaluations: int
    surveys: int
    prepared: float
    views: float
    twin_views: float

    @property
    def total(self) -> float:
        """FLOPs of the whole run."""
        trained = self.steps * (self.trainings * self.step + self.twins * self.twin_step)
        return trained + self.evaluations * self.evaluation + self.trainings * self.surveys * self.survey + self.prepared


@dataclass(frozen=True)
class Speed:
    """How fast one device is.

    Attributes:
        rate: FLOP/s.
        operation: seconds of the host for an operation.
        asynchronous: the host starts operations while the device computes; otherwise one waits for the other.
        where: the figures come from, in words.
        step, twin_step: measured seconds, instead of all this.
        beside: share of a measured step that is neither forward nor backward pass.
        peak: bytes of the process that was measured.
    """

    rate: Range
    operation: Range
    asynchronous: bool
    where: str
    step: float | None = None
    twin_step: float | None = None
    beside: float | None = None
    peak: int | None = None


def gpu_speed(device: Device, work: str, precision: str) -> Speed:
    """An estimate by data sheet."""
    where = f"estimate: {device.sheet}; shares of the peak from the paper's times (low) and NVIDIA's own (high)"
    return Speed(rates(device, work, precision), HOST_SECONDS, True, where)


def cpu_speed(matrix_product: float) -> Speed:
    """An estimate from the FLOP/s of a matrix product on this machine, just now."""
    where = f"estimate: {matrix_product / 1e9:,.0f} GFLOP/s of a matrix product here and now, of which training gets a share"
    return Speed(CPU_SHARE * matrix_product, Range(CPU_OPERATION, CPU_OPERATION), False, where)


@dataclass(frozen=True)
class Time:
    """Seconds of a run by part."""

    parts: dict[str, Range]
    step: Range

    @property
    def total(self) -> Range:
        return sum(self.parts.values(), Range(0.0, 0.0))

    @property
    def overhead(self) -> Range:
        """Share of the time that is not the arithmetic of the method's own steps."""
        shares = sorted(
            1.0 - getattr(self.parts[ARITHMETIC], end) / max(getattr(self.total, end), 1e-12) for end in ("low", "high")
        )
        return Range(*shares)


ARITHMETIC, FEATURES = "arithmetic of the steps", "features, once"


def time_of(work: Work, speed: Speed, traffic: Traffic, twin_traffic: Traffic, link: float | None) -> Time:
    """Of a run on as many devices as the traffic is of.

    Args:
        traffic, twin_traffic: of a step of the method, and of its supervised twin.
        link: bytes per second between processes; None: unknown, and the traffic takes no time.
    """
    processes, steps = traffic.processes, work.steps * work.trainings
    parts: dict[str, Range] = {}
    if speed.step is not None:
        computed = Range(speed.step, speed.step)
        beside = speed.beside or 0.0
        parts[ARITHMETIC] = computed * ((1 - beside) * steps)
        parts["views, loss, optimiser, records"] = computed * (beside * steps)
        twin = Range(speed.twin_step or 0.0, speed.twin_step or 0.0)
    else:
        computed, waited = _step(speed, work.step / processes, work.operations, work.views / processes)
        parts[ARITHMETIC] = computed * steps
        parts["the host, in between"] = waited * steps
        computed += waited
        twin = sum(_step(speed, work.twin_step / processes, work.twin_operations, work.twin_views / processes), Range(0.0, 0.0))
    talk = _talk(traffic, link)
    if processes > 1:
        parts["traffic"] = talk * steps
    if work.twins:
        parts["the supervised twin"] = (twin + _talk(twin_traffic, link)) * (work.steps * work.twins)
    alone = Range(1 / speed.rate.high, 1 / speed.rate.low)
    seconds = alone * (1 / processes)
    if work.evaluations and work.evaluation:
        parts["evaluations"] = seconds * (work.evaluations * work.evaluation)
    if work.surveys:
        parts["predictions of the unlabelled set"] = seconds * (work.trainings * work.surveys * work.survey)
    if work.prepared:
        parts[FEATURES] = alone * work.prepared
    return Time(parts, computed + talk)


def _step(speed: Speed, flops: float, operations: float, views: float) -> tuple[Range, Range]:
    """Seconds of a step's arithmetic, and what the host adds to it."""
    arithmetic = Range(flops / speed.rate.high, flops / speed.rate.low)
    host = speed.operation * operations
    if speed.asynchronous:
        return arithmetic, Range(max(host.low - arithmetic.low, 0.0), max(host.high - arithmetic.high, 0.0))
    return arithmetic, host + Range(views, views)


def _talk(traffic: Traffic, link: float | None) -> Range:
    """Seconds of a step's messages: they are sent after the backward pass, not during it."""
    if traffic.processes == 1:
        return Range(0.0, 0.0)
    sending = 0.0 if link is None else traffic.sent / link
    return LATENCY * traffic.number + Range(sending, 2 * sending)


def link_of(device: Device | None, processes: int, network: float | None = None) -> float | None:
    """Bytes per second that leave a GPU for the others: within a machine its link, between machines its share of the network.

    Args:
        network: bytes per second of each GPU to other machines, where the user knows it.
    """
    if device is None:
        return network
    if processes <= GPUS_OF_A_MACHINE:
        return device.link
    return network or device.between or NETWORK
