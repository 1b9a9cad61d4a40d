"""GPUs by name: their data sheets, and the range of speeds that training is expected to reach on them."""

from collections.abc import Mapping
from dataclasses import dataclass

from softmatch.errors import InputError, nearest


@dataclass(frozen=True)
class Range:
    """An estimate: the true value is expected between the two ends."""

    low: float
    high: float

    def __mul__(self, factor: float) -> "Range":
        return Range(self.low * factor, self.high * factor)

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def at_least(self, other: "Range") -> "Range":
        """The larger of both, at each end."""
        return Range(max(self.low, other.low), max(self.high, other.high))


@dataclass(frozen=True)
class Device:
    """A GPU in FLOP/s (peaks without sparsity), bytes, bytes per second. One with TF32 has bfloat16, as fast as float16."""

    name: str
    title: str
    float32: float
    tf32: float | None
    half: float
    memory: float
    bandwidth: float
    sheet: str


DEVICES: Mapping[str, Device] = {
    device.name: device
    for device in (
        Device("v100", "V100 SXM2 32 GB", 15.7e12, None, 125e12, 32e9, 900e9, "V100 data sheet (2020)"),
        Device("a100", "A100 SXM 80 GB", 19.5e12, 156e12, 312e12, 80e9, 2039e9, "A100 data sheet (2021)"),
        Device("a100-40gb", "A100 SXM 40 GB", 19.5e12, 156e12, 312e12, 40e9, 1555e9, "A100 data sheet (2020)"),
        Device("h100", "H100 SXM 80 GB", 67e12, 494.7e12, 989.4e12, 80e9, 3350e9, "H100 data sheet (2023)"),
        Device("l4", "L4 24 GB", 30.3e12, 60e12, 121e12, 24e9, 300e9, "L4 data sheet (2023)"),
        Device("t4", "T4 16 GB", 8.1e12, None, 65e12, 16e9, 320e9, "T4 data sheet (2019)"),
        Device("rtx-4090", "RTX 4090 24 GB", 82.6e12, 82.6e12, 165.2e12, 24e9, 1008e9, "Ada architecture (2023)"),
    )
}
PAPER_RATE = 5.0e12
"""FLOP/s of the paper's runs on CIFAR-10 and SVHN: 2^20 steps of 1.235 TFLOP in about three days on a V100. A test derives it."""
SHARES: Mapping[str, float] = {"float32": 0.55, "tf32": 0.146, "half": 0.225}
"""The largest shares of the peak that NVIDIA has published for training with PyTorch (github.com/NVIDIA/DeepLearningExamples):
ResNet-50 v1.5, PyTorch 21.03: 356 (float32) and 1,156 (mixed) images/s on a V100 32 GB, 938 (TF32) and 2,470 (mixed) on an A100
80 GB, 24.3 GFLOP each."""


def find_device(name: str) -> Device:
    """The GPU of that name; "RTX 4090" is rtx-4090."""
    key = name.strip().lower().replace(" ", "-").replace("_", "-").replace("rtx4090", "rtx-4090")
    if key not in DEVICES:
        advice = f"{nearest(key, DEVICES)} For this machine, give auto, cpu or cuda."
        raise InputError(f"--device {name}: there is no data sheet for it. {advice}")
    return DEVICES[key]


def rates(device: Device, precision: str) -> Range:
    """FLOP/s that training is expected to reach.

    Low: the paper's rate on a V100, scaled by this GPU's arithmetic or bandwidth, whichever has grown less. High: the largest
    share of the peak that NVIDIA has shown. torch computes float32 convolutions as TF32 where a GPU has it.
    """
    if precision == "bf16" and device.tf32 is None:
        raise InputError(f"--precision bf16: {device.title} has no tensor cores for bfloat16. Give fp16.")
    v100 = DEVICES["v100"]
    low = PAPER_RATE * min(device.float32 / v100.float32, device.bandwidth / v100.bandwidth)
    high = max(SHARES["float32"] * device.float32, SHARES["tf32"] * (device.tf32 or 0.0))
    return Range(low, high if precision == "float32" else max(high, SHARES["half"] * device.half))
