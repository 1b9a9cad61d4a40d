"""GPUs by name: what their makers say of them, and how much of it training gets.

Peaks are of NVIDIA's data sheets, without sparsity; "between" is the share of one GPU in the network ports of NVIDIA's own
machine with eight of them, or None. Nothing here was measured by us: that is what `--measure` is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softmatch.errors import InputError, nearest

TERA, GIGA = 1e12, 1e9


@dataclass(frozen=True)
class Range:
    """An estimate: the truth is expected between the two."""

    low: float
    high: float

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class Device:
    """A GPU.

    Attributes:
        float32, tf32, half, bfloat16: peaks in FLOP/s of its plain cores, and of its tensor cores with float32 cut to TF32, with
            float16, and with bfloat16 (None: they cannot do that).
        memory: bytes.
        bandwidth: of its memory, bytes per second.
        link: to its neighbours in a machine, bytes per second in one direction.
        between: to other machines, as far as the maker's own machine says.
        sheet: where the figures stand.
    """

    name: str
    title: str
    float32: float
    tf32: float | None
    half: float
    bfloat16: float | None
    memory: float
    bandwidth: float
    link: float
    between: float | None
    sheet: str

    @property
    def short(self) -> str:
        """The half precision to use on it."""
        return "fp16" if self.bfloat16 is None else "bf16"


def _device(
    name: str,
    title: str,
    peaks: tuple[float, float | None, float],
    memory: float,
    bandwidth: float,
    links: tuple[float, float | None],
    sheet: str,
) -> Device:
    """Peaks in TFLOP/s, memory in GB, bandwidths in GB/s; links in both directions together, as data sheets have them.

    Tensor cores that know TF32 know bfloat16 too, as fast as float16: both came with the same generation.
    """
    float32, tf32, half = peaks
    between = None if links[1] is None else links[1] * GIGA
    cut = None if tf32 is None else tf32 * TERA
    link = links[0] / 2 * GIGA
    short = None if tf32 is None else half * TERA
    return Device(name, title, float32 * TERA, cut, half * TERA, short, memory * GIGA, bandwidth * GIGA, link, between, sheet)


DEVICES: Mapping[str, Device] = {
    device.name: device
    for device in (
        # DGX-1: four ports of 100 Gb/s for eight GPUs.
        _device("v100", "V100 SXM2 32 GB", (15.7, None, 125), 32, 900, (300, 6.25), "NVIDIA V100 data sheet (2020)"),
        # DGX A100: eight ports of 200 Gb/s for the GPUs.
        _device("a100", "A100 SXM 80 GB", (19.5, 156, 312), 80, 2039, (600, 25), "NVIDIA A100 data sheet (2021)"),
        _device("a100-40gb", "A100 SXM 40 GB", (19.5, 156, 312), 40, 1555, (600, 25), "NVIDIA A100 data sheet (2020)"),
        # DGX H100: eight ports of 400 Gb/s for the GPUs. Peaks of tensor cores are half of those with sparsity.
        _device("h100", "H100 SXM 80 GB", (67, 494.7, 989.4), 80, 3350, (900, 50), "NVIDIA H100 data sheet (2023)"),
        _device("l4", "L4 24 GB", (30.3, 60, 121), 24, 300, (64, None), "NVIDIA L4 data sheet (2023)"),
        _device("t4", "T4 16 GB", (8.1, None, 65), 16, 320, (32, None), "NVIDIA T4 data sheet (2019)"),
        _device(
            "rtx-4090",
            "RTX 4090 24 GB",
            (82.6, 82.6, 165.2),
            24,
            1008,
            (64, None),
            "NVIDIA Ada GPU architecture, appendix A (2023)",
        ),
    )
}

PAPER_RATE = 5.0 * TERA
"""FLOP/s of the paper's runs on CIFAR-10 and SVHN: 2^20 steps of 1.235 TFLOP in about three days on a V100, everything included.
`softmatch.planning.paper_times` derives it from the paper's sentence; a test compares."""

SHARES: Mapping[str, Mapping[str, float]] = {
    "images": {"float32": 0.55, "tf32": 0.146, "half": 0.225},
    "texts": {"float32": 0.56, "tf32": 0.29, "half": 0.31},
}
"""The largest shares of the peak that NVIDIA has published of training with PyTorch (github.com/NVIDIA/DeepLearningExamples).

Images: ResNet-50 v1.5, PyTorch 21.03: 356 (float32) and 1,156 (mixed) images/s on a V100 32 GB, 938 (TF32) and 2,470 (mixed) on
an A100 80 GB, of 24.3 GFLOP each, as `count_network` has it. Texts: BERT-Large on SQuAD, PyTorch 21.11: 12 and 52 texts/s of
384 tokens on a V100, 61.5 and 110.5 on an A100, of 0.739 TFLOP each."""

HOST_SECONDS = Range(1.1e-5, 5.9e-5)
"""For the host to start one operation on a GPU. Low: an operation in training steps of tiny tensors on one core of
ours (benchmarks/results/plan.md). High: NVIDIA's latency of ResNet-50 for one image on a V100, 10.4 ms for 176 operations, from
the same page as SHARES."""

LATENCY = Range(1e-5, 1e-4)
"""Seconds of a message that is too small for its size to matter: assumed, not measured. nccl-tests says what yours is."""

GPUS_OF_A_MACHINE = 8
NETWORK = 12.5 * GIGA
"""Bytes per second between machines for each GPU, where nothing better is known: assumed, a port of 100 Gb/s."""


def find_device(name: str) -> Device:
    """The GPU of that name; "RTX 4090" is rtx-4090."""
    key = name.strip().lower().replace(" ", "-").replace("_", "-")
    key = {"rtx4090": "rtx-4090", "4090": "rtx-4090", "a100-80gb": "a100", "v100-32gb": "v100", "h100-80gb": "h100"}.get(key, key)
    if key not in DEVICES:
        raise InputError(
            f"--device {name}: there is no data sheet of it here. {nearest(key, DEVICES)} For a machine of yours: auto, cpu or "
            "cuda, best with --measure."
        )
    return DEVICES[key]


def rates(device: Device, work: str, precision: str) -> Range:
    """FLOP/s that training is expected to get of a GPU.

    Low: what the paper's runs got of a V100, times what this one has more of arithmetic or of bandwidth, whichever has grown
    less. High: the largest share of the peak that NVIDIA has shown. torch computes convolutions of float32 as TF32 where a GPU
    has it, and matrix products not.

    Args:
        work: "images" (convolutions) or "texts" (matrix products).
        precision: of `Config`.

    Raises:
        InputError: the GPU has no tensor cores for this precision.
    """
    if precision == "bf16" and device.bfloat16 is None:
        raise InputError(f"--precision bf16: {device.title} has no tensor cores for bfloat16. Give fp16.")
    v100, shares = DEVICES["v100"], SHARES[work]
    low = PAPER_RATE * min(device.float32 / v100.float32, device.bandwidth / v100.bandwidth)
    high = shares["float32"] * device.float32
    if device.tf32 is not None and work == "images":
        high = max(high, shares["tf32"] * device.tf32)
    if precision != "float32":
        high = max(high, shares["half"] * device.half)
    return Range(low, high)
