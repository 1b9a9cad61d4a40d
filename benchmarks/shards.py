"""Measure the reader of tar shards: samples per second beside a plain WebDataset + DataLoader pipeline, and memory.

    python benchmarks/shards.py make shards/ --number 1000000                # small JPEG images of ten classes, a few labelled
    python benchmarks/shards.py read 'shards/*.tar' --repeats 5 [--s3]       # both readers in turn, on the same shards
    python benchmarks/shards.py memory 'shards/*.tar'                        # of a process, as the pool grows; 10⁹ by arithmetic

`read` needs the packages webdataset and, with --s3, moto: the shards are copied to a server on this machine, and both
readers fetch them from there. Both resize and make the weak view with the same code. WebDataset's pipeline decodes with Pillow;
softmatch decodes with simplejpeg, the extra `fast`, and in a row of its own with Pillow, too.
"""

import argparse
import contextlib
import io
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from softmatch.data import pictures
from softmatch.data.batches import Role
from softmatch.data.loading import LoadedBatches
from softmatch.data.pictures import ImageFiles
from softmatch.data.records import Columns
from softmatch.data.shards.lanes import Lanes
from softmatch.data.shards.shard_source import open_shards
from softmatch.views import ImageViews
from softmatch.views.pillow import PillowViews

DISTINCT = 5000
"""Different images; a larger set repeats them, under other names."""
BATCH = 256
WARM = 4
"""Batches before the clock starts, unless opening counts."""
CPU = torch.device("cpu")
VIEWS = ImageViews([0.5] * 3, [0.25] * 3)


def images(side: int) -> list[bytes]:
    """Encode coloured stripes with noise; the class decides their direction and colour."""
    rng, found = np.random.default_rng(0), []
    y, x = np.mgrid[0:side, 0:side] / side
    for number in range(DISTINCT):
        angle, phase = (number % 10) * np.pi / 10, rng.uniform(0, 2 * np.pi)
        wave = np.sin(12 * (x * np.cos(angle) + y * np.sin(angle)) + phase)[..., None]
        pixels = 128 + 80 * wave * rng.uniform(0.4, 1.0, 3) + rng.normal(0, 12, (side, side, 3))
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "jpeg", quality=80)
        found.append(file.getvalue())
    return found


def make(options: argparse.Namespace) -> None:
    """Write the shards; the labelled samples are spread over the first of them."""
    folder, contents = Path(options.where), images(options.side)
    folder.mkdir(parents=True, exist_ok=True)
    every = max(min(options.per_shard, options.number) // options.labelled, 1)
    for start in range(0, options.number, options.per_shard):
        part = folder / f".{start // options.per_shard:05d}.part"
        with part.open("wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            for number in range(start, min(start + options.per_shard, options.number)):
                _add(tar, f"{number:09d}.jpg", contents[number % DISTINCT])
                if start == 0 and number % every == number // every % 10:
                    _add(tar, f"{number:09d}.cls", str(number % 10).encode())
        part.rename(folder / f"shard-{start // options.per_shard:05d}.tar")
    size = sum(path.stat().st_size for path in folder.glob("*.tar"))
    print(f"{options.number:,} images, {np.mean([len(each) for each in contents]):,.0f} bytes each, {size / 1e9:.2f} GB")


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    tar.addfile(about, io.BytesIO(content))


def our_batches(where: str, side: int, workers: int) -> Generator[Tensor, None, None]:
    """The reader of softmatch: weak views in a random order, without end."""
    members = open_shards(where, Columns()).members
    items, labels = ImageFiles(members, side, side, upright=True), torch.zeros(1, dtype=torch.int64).expand(len(members))
    roles = {"labeled": Role(items, labels, ("weak",), Lanes(members.counts, BATCH, 0))}
    with contextlib.closing(LoadedBatches(roles, VIEWS, 0, CPU, workers)) as batches:
        for step in itertools.count():
            yield batches(step).labeled["weak"]


class _Decode:
    """What a plain pipeline does with a sample: decode, resize, one weak view."""

    def __init__(self, side: int) -> None:
        self.side, self.views, self.generator = side, PillowViews(VIEWS, side), torch.Generator()

    def __call__(self, sample: dict[str, Any]) -> Tensor:
        with Image.open(io.BytesIO(sample["jpg"])) as image:
            resized = image.convert("RGB").resize((self.side, self.side), Image.Resampling.BILINEAR)
        return self.views.weak(resized, self.generator)


def their_batches(where: str, side: int, workers: int) -> Generator[Tensor, None, None]:
    """WebDataset's own reader, as its documentation shows it: shards shuffled, a buffer of 1,000 samples, batches."""
    import webdataset

    dataset = webdataset.WebDataset(where, shardshuffle=100, empty_check=False, seed=0).shuffle(1000).map(_Decode(side))
    dataset = dataset.batched(BATCH, collation_fn=torch.stack).repeat()
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in loader:
            yield VIEWS.plain(batch)


def our_batches_by_pillow(where: str, side: int, workers: int) -> Generator[Tensor, None, None]:
    """The reader of softmatch as it is without simplejpeg."""
    pictures.simplejpeg = None
    return our_batches(where, side, workers)


READERS: dict[str, Callable[[str, int, int], Generator[Tensor, None, None]]] = {
    "softmatch": our_batches,
    "softmatch, Pillow": our_batches_by_pillow,
    "WebDataset": their_batches,
}


def one(options: argparse.Namespace) -> None:
    """Time one reader in this process, and print samples per second and processor seconds as JSON."""
    torch.set_num_threads(1)
    began = time.perf_counter(), _processor()
    with contextlib.closing(READERS[options.reader](options.where, options.side, options.workers)) as batches:
        if not options.opening:
            for _ in range(WARM):
                next(batches)
            began = time.perf_counter(), _processor()
        for _ in range(options.samples // BATCH):
            next(batches)
        seconds = time.perf_counter() - began[0]
    samples = options.samples // BATCH * BATCH
    print(json.dumps({"rate": samples / seconds, "cpu": 1000 * (_processor() - began[1]) / samples}))


def _processor() -> float:
    """Processor seconds of this process and of those that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def read(options: argparse.Namespace) -> None:
    """Time both readers in turn, and print a table."""
    print("| shards | workers | reader | samples/s, median (range) | CPU s per 1,000 samples | times WebDataset |")
    print("|---|---|---|---|---|---|")
    for place, where, environment, opening in _places(options):
        for workers in options.workers:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
            for _ in range(options.repeats):
                for name in READERS:
                    found[name].append(_measure(options, name, where[name], workers, environment, opening))
            rates = {name: [each["rate"] for each in runs] for name, runs in found.items()}
            for name, runs in found.items():
                ratio = [one / other for one, other in zip(rates[name], rates["WebDataset"], strict=True)]
                cpu = statistics.median(each["cpu"] for each in runs)
                low, middle, high = min(rates[name]), statistics.median(rates[name]), max(rates[name])
                shown = f"{statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f})"
                print(
                    f"| {place} | {workers} | {name} | {middle:,.0f} ({low:,.0f} to {high:,.0f}) | {cpu:.3f} | {shown} |",
                    flush=True,
                )


def _measure(
    options: argparse.Namespace, name: str, where: str, workers: int, environment: dict[str, str], opening: bool
) -> dict[str, float]:
    """Run `one` in a new process."""
    with tempfile.TemporaryDirectory() as empty:
        cache = {"SOFTMATCH_CACHE": empty} if opening else {}
        words = [sys.executable, __file__, "one", where, "--reader", name, "--side", str(options.side)]
        words += ["--workers", str(workers), "--samples", str(options.samples), *(["--opening"] if opening else [])]
        done = subprocess.run(words, env={**os.environ, **environment, **cache}, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _places(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, str], dict[str, str], bool]]:
    """Give a title, the place for each reader, the environment, and whether opening counts."""
    yield "local", dict.fromkeys(READERS, _braces(options.where)), {}, False
    if not options.s3:
        return
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").disabled = True
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    environment = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    os.environ.update(environment)
    files, names = fsspec.filesystem("s3"), _braces(options.where).rpartition("/")[2]
    files.mkdir("bench")
    for path in sorted(Path(options.where).parent.glob(Path(options.where).name)):
        files.put_file(str(path), f"bench/{path.name}", ACL="public-read")  # WebDataset asks without a key
    where = dict.fromkeys(READERS, f"s3://bench/{names}") | {"WebDataset": f"{address}/bench/{names}"}
    yield "S3, from nothing", where, environment, True
    yield "S3, once fetched", where, environment, False
    server.stop()


def _braces(where: str) -> str:
    """Write the shards of a pattern as both readers understand them."""
    found = sorted(Path(where).parent.glob(Path(where).name))
    return f"{found[0].parent}/shard-{{{found[0].stem[6:]}..{found[-1].stem[6:]}}}.tar"


def memory(options: argparse.Namespace) -> None:
    """Print the memory of a process that draws and reads from pools of growing size, and of the order of 10⁹ samples."""
    print("| samples | opening, s | memory after opening, MB | after 200 batches, MB | peak, MB |")
    print("|---|---|---|---|---|")
    shards = sorted(Path(options.where).parent.glob(Path(options.where).name))
    for number in (10**k for k in range(20)):
        if number > len(shards):
            break
        words = [sys.executable, __file__, "hold", str(shards[0].parent), "--number", str(number), "--side", str(options.side)]
        print(subprocess.run(words, check=True, capture_output=True, text=True).stdout, end="", flush=True)
    began = time.perf_counter()
    order = Lanes(np.full(10**5, 10**4), BATCH, 0)
    made, before = time.perf_counter() - began, _held()["RssAnon"]
    for step in range(1000):
        order(step * 3907)
    each = (time.perf_counter() - began - made) / 1000
    print(
        f"\n10⁹ samples in 10⁵ shards, order only: made in {made:.2f} s, {1000 * each:.1f} ms for a batch of {BATCH}, "
        f"{_held()['RssAnon'] - before:+.1f} MB after 1,000 batches."
    )


def hold(options: argparse.Namespace) -> None:
    """Open so many shards of a folder, read 200 batches in this process, and print its memory as a row."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    where = f"{options.where}/shard-{{00000..{options.number - 1:05d}}}.tar"
    members = open_shards(where, Columns()).members
    batches, opened = our_batches(where, options.side, 0), time.perf_counter() - began
    next(batches)
    first = _held()
    for _ in range(200):
        next(batches)
    last = _held()
    row = f"{len(members):,} | {opened:.1f} | {first['RssAnon']:.1f} | {last['RssAnon']:.1f} | {last['VmHWM']:.1f}"
    print(f"| {row} |")


def _held() -> dict[str, float]:
    """Memory of this process in MB: RssAnon, its own; VmHWM, its peak with the libraries."""
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in lines if words[0] in ("RssAnon:", "VmHWM:")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for work in (make, read, memory, one, hold):
        command = commands.add_parser(work.__name__, help=(work.__doc__ or "").split("\n")[0])
        command.set_defaults(work=work)
        command.add_argument("where", help="a folder (make), or a pattern of shards")
        command.add_argument("--side", type=int, default=32)
        command.add_argument("--number", type=int, default=10**6)
        command.add_argument("--per-shard", type=int, default=10**4)
        command.add_argument("--labelled", type=int, default=1000)
        command.add_argument("--samples", type=int, default=40_000)
        command.add_argument("--repeats", type=int, default=5)
        command.add_argument("--s3", action="store_true")
        command.add_argument("--reader", choices=READERS)
        command.add_argument("--opening", action="store_true")
        command.add_argument("--workers", type=int, **({"nargs": "*", "default": [1, 2]} if work is read else {"default": 0}))
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
