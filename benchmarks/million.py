"""Train on a million images in an S3 bucket: by two workers of Ray, one of which is killed, and undisturbed by one process.

    python benchmarks/million.py FOLDER > benchmarks/results/million.md      # begins where it was interrupted

The images are drawn from a seed and lie in tar shards. moto's server gives them out on this machine. Every run has a cache of
its own, which is too small for all shards. A third run, by two processes without a kill, tells
what is from the kill and what from rounding. The exit code is 1 unless the weights agree as docs/reliability.md promises.
"""

import argparse
import io
import json
import logging
import os
import platform
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import fsspec
import numpy as np
import ray
import torch
from PIL import Image
from ray_predict import start_ray
from safetensors.torch import load_file

SIDE, CLASSES, PER_SHARD, LABELLED = 8, 10, 10_000, 10
"""Pixels, classes, images of a shard and those of them with a label."""
CACHE_GB = "0.8"
PROMISED = 1e-6
LOOK = 0.2
"""Seconds between two looks at a run."""
RUNS = {
    "one": ("one process", ()),
    "ray": ("two Ray workers, one killed", ("--on", "ray", "--processes", "2")),
    "two": ("two processes", ("--processes", "2")),
}


class Run(NamedTuple):
    """How a run went.

    Attributes:
        cpu: processor seconds of the processes that trained and read, those of a killed group included.
        peak: largest memory of one process, in MB.
        resumed: what was printed when it began again.
    """

    seconds: float
    cpu: float
    peak: float
    killed: str
    resumed: str


def draw(shard: int) -> tuple[np.ndarray, np.ndarray]:
    """Stripes whose direction and colour follow from the class, with noise; pixels (n, side, side, 3) and classes."""
    rng = np.random.default_rng(shard)
    labels = rng.integers(0, CLASSES, PER_SHARD)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    angle, phase = (labels * np.pi / CLASSES)[:, None, None], rng.uniform(0, 2 * np.pi, (PER_SHARD, 1, 1))
    wave = np.sin(7 * (x * np.cos(angle) + y * np.sin(angle)) + phase)[..., None]
    pixels = 128 + 70 * wave * rng.uniform(0.3, 1.0, (PER_SHARD, 1, 1, 3)) + rng.normal(0, 25, (*wave.shape[:3], 3))
    return pixels.clip(0, 255).astype(np.uint8), labels


def make(folder: Path, shards: int) -> None:
    """Write the shards that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        path = folder / f"shard-{shard:05d}.tar"
        if path.exists():
            continue
        pixels, labels = draw(shard)
        with tarfile.open(part := folder.parent / "part", "w") as tar:
            for number in range(PER_SHARD):
                file = io.BytesIO()
                Image.fromarray(pixels[number]).save(file, "png", compress_level=1)
                _add(tar, f"{shard:05d}{number:05d}.png", file.getvalue())
                if number < LABELLED:
                    _add(tar, f"{shard:05d}{number:05d}.cls", str(labels[number]).encode())
        part.rename(path)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    tar.addfile(about, io.BytesIO(content))


@contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """Serve a folder as a bucket; the environment has the address of the server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").disabled = True
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    os.environ |= {"AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()), "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    files = fsspec.filesystem("s3")
    files.mkdir("million")
    for path in sorted(folder.iterdir()):
        files.put_file(str(path), f"million/{path.name}")
    yield "s3://million/" + f"shard-{{00000..{len(list(folder.iterdir())) - 1:05d}}}.tar"
    server.stop()


class Watch:
    """The processes of a run: their memory and processor time, and which of them is a worker of Ray."""

    def __init__(self, out: Path) -> None:
        self.out, self.peak, self._cpu = str(out).encode(), 0.0, dict[int, float]()

    @property
    def cpu(self) -> float:
        return sum(self._cpu.values())

    def look(self) -> list[int]:
        """Take note of all processes that train, and give them."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self.out not in (path / "cmdline").read_bytes():
                    continue
                status = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines())
                times = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
            except (OSError, ValueError):  # it has just ended
                continue
            found.append(int(path.name))
            self.peak = max(self.peak, int(status.get("VmHWM", "0").split()[0]) / 1024)
            self._cpu[found[-1]] = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        return found

    def worker(self) -> int | None:
        """The worker of Ray that has the second process as a child."""
        for number in self.look():
            try:
                parent = int((Path("/proc") / f"{number}" / "stat").read_text().rpartition(")")[2].split()[1])
                started = (Path("/proc") / f"{parent}" / "cmdline").read_bytes()
                second = b"RANK=1" in (Path("/proc") / f"{number}" / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if started.startswith(b"ray::") and second:
                return parent
        return None


def train(folder: Path, name: str, where: str, settings: Sequence[str], kill_at: int) -> Run:
    """Train a run, unless it was trained before; kill a worker of Ray once that many steps are recorded."""
    out, noted = folder / name, folder / f"{name}.json"
    if noted.exists():
        return Run(**json.loads(noted.read_text()))
    command = [sys.executable, "-m", "softmatch", "train", where, "--out", str(out), *settings, *RUNS[name][1]]
    if name == "ray":
        start_ray(2)
        command += ["--address", ray.get_runtime_context().gcs_address]
    environment = {**os.environ, "SOFTMATCH_CACHE": str(folder / f"cache-{name}"), "SOFTMATCH_CACHE_GB": CACHE_GB}
    watch, killed, log, began = Watch(out), "", folder / f"{name}.log", time.perf_counter()
    with log.open("wb") as file:
        child = subprocess.Popen(command, env=environment, stdout=file, stderr=file, cwd=folder)
        while child.poll() is None:
            time.sleep(LOOK)
            watch.look()
            if name == "ray" and not killed and (step := _step(out)) >= kill_at and (worker := watch.worker()) is not None:
                os.kill(worker, signal.SIGKILL)
                killed = f"after step {step:,} or a little later"
    said = log.read_text(errors="replace")
    assert child.returncode == 0, said[-3000:]
    resumed = "; ".join(re.findall(r"resuming after step [\d,]+ of [\d,]+", said))
    run = Run(time.perf_counter() - began, watch.cpu, watch.peak, killed, resumed)
    noted.write_text(json.dumps(run._asdict()))
    return run


def _step(out: Path) -> int:
    """The last step that was recorded."""
    try:
        return int(json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["step"])
    except (OSError, ValueError, IndexError, KeyError):
        return 0


def weights(out: Path) -> dict[str, torch.Tensor]:
    """The weights of a finished run."""
    return {name: value.double() for name, value in load_file(out / "model" / "model.safetensors").items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--batch", type=int, default=10_000, help="unlabelled images of a step")
    parser.add_argument("--steps", type=int, help="default: as many as it takes to draw each image once")
    parser.add_argument("--workers", type=int, default=1, help="processes that read, for each that trains")
    parser.add_argument("--together", action="store_true", help="all runs at the same time, for a machine that is busy anyway")
    options = parser.parse_args()
    folder, total = options.folder.resolve(), options.shards * PER_SHARD
    steps = options.steps or total // options.batch
    settings = ["--steps", str(steps), "--unlabeled-batch", str(options.batch), "--labeled-batch", "500", "--network", "mlp"]
    settings += ["--checkpoint-every", str(steps // 10), "--evaluate-every", str(steps // 20), "--evaluation", "none"]
    settings += ["--no-baseline", "--device", "cpu", "--threads", "1", "--workers", str(options.workers), "--resume", "auto"]
    os.environ |= {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    make(folder / "shards", options.shards)
    with bucket(folder / "shards") as where, ThreadPoolExecutor(len(RUNS) if options.together else 1) as pool:
        started = {name: pool.submit(train, folder, name, where, settings, steps * 11 // 20) for name in RUNS}
        runs = {name: run.result() for name, run in started.items()}
    found = {name: weights(folder / name) for name in RUNS}
    away = {name: max(float((found[name][key] - value).abs().max()) for key, value in found["one"].items()) for name in RUNS}
    same = all(torch.equal(found["two"][key], value) for key, value in found["ray"].items())
    size = sum(path.stat().st_size for path in (folder / "shards").iterdir())
    print("# A million images from S3, two workers of Ray, one killed\n")
    print(f"`python benchmarks/million.py FOLDER --shards {options.shards} --batch {options.batch}`\n")
    print(
        f"{total:,} PNG images of 3×{SIDE}×{SIDE} ({CLASSES} classes, {LABELLED * options.shards:,} of them with a label) in "
        f"{options.shards} tar shards, {size / 1e9:.2f} GB, from moto's S3 server on this machine, into a cache of {CACHE_GB} "
        f"GB. {os.cpu_count()} cores, torch {torch.__version__}, Python {platform.python_version()}; load average at the end "
        f"{os.getloadavg()[2]:.1f} over 15 minutes, so processor seconds say more than minutes.\n\n"
        f"`softmatch train s3://… {' '.join(settings)}`\n"
    )
    print("| run | minutes | CPU s | largest process, MB | furthest weight from one process |\n|---|---|---|---|---|")
    for name, run in runs.items():
        print(f"| {RUNS[name][0]} | {run.seconds / 60:.1f} | {run.cpu:,.0f} | {run.peak:,.0f} | {away[name]:.1e} |")
    print(f"\nThe second worker was killed with SIGKILL {runs['ray'].killed}. Then: {runs['ray'].resumed}.", end=" ")
    print(f"The weights after the kill are {'bit for bit those' if same else 'NOT those'} of two processes without one.")
    return int(not same or away["ray"] > PROMISED or not runs["ray"].killed or not runs["ray"].resumed)


if __name__ == "__main__":
    sys.exit(main())
