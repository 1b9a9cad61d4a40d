"""What grows with the unlabelled set: the state of each method, and everything else that has a row for every sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from softmatch.data.fingerprint import MOST_BYTES
from softmatch.errors import InputError
from softmatch.planning.bounds import SAMPLES
from softmatch.planning.devices import DEVICES, Device
from softmatch.planning.memory import PATH
from softmatch.planning.methods import planned_method, state_of
from softmatch.planning.plans import HIDDEN
from softmatch.planning.setting import Setting
from softmatch.planning.storage import mean_digits

USABLE = 0.5
"""Share of a device's memory that what grows may take: the rest is for weights, activations and the batch."""
DEFAULT_DEVICE = "a100"
HOST_MEMORY = 128e9
"""Of a host for each of its GPUs: 1 TB for eight of them, as of NVIDIA's DGX A100."""
FLOAT, INDEX = 4, 8
FEATURES = 384


@dataclass(frozen=True)
class Growth:
    """One thing, in bytes at each size of the unlabelled set.

    Attributes:
        where: it lies: "device", "host" or "disk".
        per_sample: bytes of one sample more than the largest size.
        note: what else is to be said of it.
    """

    name: str
    where: str
    sizes: tuple[int, ...]
    bytes: tuple[float, ...]
    per_sample: float
    note: str = ""

    @property
    def constant(self) -> float:
        """Bytes that do not grow, at the largest size."""
        return self.bytes[-1] - self.per_sample * self.sizes[-1]

    def verdict(self, device: Device) -> str:
        """Whether the largest fits beside everything else, or in how many parts it would."""
        room = USABLE * (device.memory if self.where == "device" else HOST_MEMORY)
        if self.bytes[-1] <= room:
            return "fits"
        return f"shard over {ceil(self.bytes[-1] / room):,}"


def read_sizes(text: str) -> tuple[int, ...]:
    """ "1e4,1e6,1e9" → the sizes, in order."""
    try:
        found = sorted({int(float(part)) for part in text.split(",") if part.strip()})
    except (ValueError, OverflowError) as error:
        raise InputError(f"--pool {text}: give sizes separated by commas, such as 1e4,1e6,1e9.") from error
    if not found or found[0] < 1 or found[-1] > SAMPLES:
        raise InputError(f"--pool {text}: give sizes from 1 to 1e12.")
    return tuple(found)


def fitting_methods(setting: Setting, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Those of the methods that can serve this setting, and those that cannot."""
    fit, unfit = list[str](), list[str]()
    for name in names:
        config = setting.config.model_copy(update={"method": name, "method_options": {}})
        try:
            planned_method(replace(setting, config=config), name, HIDDEN)
        except InputError:
            unfit.append(name)
        else:
            fit.append(name)
    return fit, unfit


def method_growth(setting: Setting, names: Sequence[str], sizes: Sequence[int]) -> list[Growth]:
    """What each method remembers, found by building it for each size, without its memory."""

    def held(name: str, size: int) -> float:
        config = setting.config.model_copy(update={"method": name})
        sized = replace(setting, config=config, data=replace(setting.data, unlabeled=size, train=size))
        return float(state_of(planned_method(sized, name, HIDDEN)).held)

    found = []
    for name in names:
        bytes_ = tuple(held(name, size) for size in sizes)
        found.append(Growth(name, "device", tuple(sizes), bytes_, held(name, sizes[-1] + 1) - bytes_[-1]))
    return found


def other_growth(setting: Setting, sizes: Sequence[int]) -> list[Growth]:
    """Everything else with a row for every sample, whatever the method."""
    data = setting.data

    def rows(name: str, where: str, each: float, note: str = "") -> Growth:
        return Growth(name, where, tuple(sizes), tuple(each * size for size in sizes), each, note)

    listed = tuple(size * (4 + mean_digits(size)) for size in sizes)
    looked = tuple(float(min(size * data.item_bytes, MOST_BYTES)) for size in sizes)
    return [
        rows("items, in memory", "device", data.item_bytes * (1 + data.versions), "none where they are files"),
        rows("truth, for the meter", "device", INDEX),
        rows("predictions of the whole set", "device", FLOAT * data.classes, "for a moment, with adsh, crest and crest_plus"),
        rows("shuffles of two epochs", "host", 2 * INDEX),
        rows("unlabelled positions", "host", INDEX),
        rows("labels", "host", INDEX),
        rows("paths of image files", "host", PATH, "where items are files"),
        rows("features of a frozen encoder", "disk", FLOAT * FEATURES, f"{FEATURES} numbers, as of all-MiniLM-L6-v2"),
        Growth("split.json, positions listed", "disk", tuple(sizes), listed, listed[-1] / sizes[-1], "short if it is one row"),
        Growth("read for the fingerprint", "disk", tuple(sizes), looked, 0.0, "an even choice of 64 MB, or of 4,096 files"),
    ]


def together(growths: Sequence[Growth], where: str) -> Growth:
    """All that lies in one place."""
    there = [growth for growth in growths if growth.where == where]
    bytes_ = tuple(sum(growth.bytes[position] for growth in there) for position in range(len(there[0].sizes)))
    return Growth("together", where, there[0].sizes, bytes_, sum(growth.per_sample for growth in there))


def pool_device(device: Device | None) -> Device:
    """That the verdicts are about."""
    return device or DEVICES[DEFAULT_DEVICE]
