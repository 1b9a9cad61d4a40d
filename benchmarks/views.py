"""Measure how many images per second one CPU core turns into weak and strong views, batched and one Pillow image at a time.

    python benchmarks/views.py                             # 448 colour images of 32×32, the paper's unlabelled batch
    python benchmarks/views.py --side 96 --batch 64 --json views.json

Both make the same views (`tests/views` compares them) up to the uint8 tensor and its normalisation. One thread; the time is
CPU time, and the two take turns within each repeat, so that other work on the machine hardly disturbs the comparison. Prints
the best and the median of the repeats.

Before measuring, a block of memory larger than all tensors here is allocated and freed, as a network's activations are in
each step of a training run: the C library then keeps memory of that size instead of asking the system for every tensor.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Generator, Tensor

from softmatch.views import ImageViews
from softmatch.views import randaugment as ops
from softmatch.views.image import RANDAUGMENT
from softmatch.views.pillow import OPERATIONS, PillowViews, to_image, to_tensor

Work = Callable[[], object]


def rates(works: dict[str, Work], images: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the best and the median images per second of each."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        for name, work in works.items():
            started = time.process_time()
            work()
            seconds[name].append(time.process_time() - started)
    return {name: {"best": images / min(taken), "median": images / statistics.median(taken)} for name, taken in seconds.items()}


def batched(views: ImageViews, images: Tensor) -> dict[str, Work]:
    def both() -> None:
        views.weak(images, Generator().manual_seed(0))
        views.strong(images, Generator().manual_seed(0))

    works: dict[str, Work] = {
        "plain": lambda: views.plain(images),
        "weak": lambda: views.weak(images, Generator().manual_seed(0)),
        "strong": lambda: views.strong(images, Generator().manual_seed(0)),
        "weak + strong": both,
    }
    return works | {name: batched_operation(name, images) for name in RANDAUGMENT}


def batched_operation(name: str, images: Tensor) -> Work:
    choice, (height, width) = RANDAUGMENT[name], images.shape[-2:]
    magnitude = torch.linspace(choice.low, choice.high, len(images))
    if choice.geometry is not None:
        geometry = choice.geometry
        return lambda: ops.affine(images, geometry(magnitude, height, width))
    assert choice.pixels is not None
    pixels = choice.pixels
    return lambda: pixels(images, magnitude)


def one_by_one(views: ImageViews, images: Tensor) -> dict[str, Work]:
    """Make the same views in a loop over Pillow images, as worker processes do."""
    single = PillowViews(views)

    def collect(make: Callable[[Tensor, Generator], Tensor]) -> Tensor:
        generator = Generator().manual_seed(0)
        return views.plain(torch.stack([make(image, generator).permute(1, 2, 0) for image in images]).permute(0, 3, 1, 2))

    def both() -> None:
        works["weak"]()
        works["strong"]()

    works: dict[str, Work] = {
        "plain": lambda: collect(lambda image, generator: single.plain(to_image(image))),
        "weak": lambda: collect(lambda image, generator: single.weak(to_image(image), generator)),
        "strong": lambda: collect(lambda image, generator: single.strong(to_image(image), generator)),
        "weak + strong": both,
    }
    return works | {name: pillow_operation(name, images) for name in RANDAUGMENT}


def pillow_operation(name: str, images: Tensor) -> Work:
    choice = RANDAUGMENT[name]
    magnitude = torch.linspace(choice.low, choice.high, len(images)).tolist()
    operation = OPERATIONS[name]
    return lambda: [to_tensor(operation(to_image(image), value)) for image, value in zip(images, magnitude, strict=True)]


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| | batched | Pillow | batched : Pillow |", "|---|---|---|---|"]
    for name, ways in found.items():
        cells = [f"{way['median']:,.0f}–{way['best']:,.0f}" for way in ways.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {ways['batched']['best'] / ways['Pillow']['best']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=448)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--channels", type=int, choices=(1, 3), default=3)
    parser.add_argument("--pad", type=int, help="largest shift (default: an eighth of the side)")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path, help="file for the figures, in addition")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pad = options.side // 8 if options.pad is None else options.pad
    views = ImageViews([0.5] * options.channels, [0.25] * options.channels, pad=pad)
    shape = (options.batch, options.channels, options.side, options.side)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=Generator().manual_seed(0))
    torch.empty(31 * 2**20, dtype=torch.uint8)
    fast, slow = batched(views, images), one_by_one(views, images)
    found = {}
    for name in fast:
        found[name] = rates({"batched": fast[name], "Pillow": slow[name]}, options.batch, options.repeats)
    print(f"torch {torch.__version__}, 1 thread, {options.repeats} repeats, images {shape}, pad {pad}")
    print(f"images per second and core, median–best\n\n{table(found)}")
    if options.json is not None:
        figures = {"shape": shape, "pad": pad, "repeats": options.repeats, "torch": torch.__version__, "images_per_second": found}
        options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
