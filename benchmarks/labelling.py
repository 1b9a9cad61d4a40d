"""Measure the labelling page: start-up and speed on 100,000 images and a million texts, and labels lost when it is killed.

    python benchmarks/labelling.py > benchmarks/results/labelling.md
    python benchmarks/labelling.py --images 2000 --rows 20000 --kills 10      # a minute, to see that it works

The images are JPEG files of 64×64 pixels in 100 folders without labels, the texts rows of a CSV file. A sample is labelled as the
page does it: an act, acknowledged when it is on disk, and a request for the next samples and their images. Times are those of a
client over HTTP, with the features still being computed in the background, and afterwards. In the last part the server is
killed with SIGKILL at random moments of labelling; every act that was acknowledged must be in the log, once.
"""

import argparse
import csv
import os
import platform
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from label_servers import Client, LabelServers, label_until_killed, lost_or_twice
from PIL import Image

SIDE, FOLDERS = 64, 100
LABELS = "abcde"
HEADS = (
    "| data | samples | scan | first sample after | key to next sample, features in work: median | 95 % "
    "| features ready after | key to next sample: median | 95 % | suggestions updated after | peak memory |"
)
EXPLAINED = """The scan begins in a process that has imported everything, which takes a few seconds more. First sample: from
the end of the scan to the answer to the first request. Of the texts, 30,000 at random get features."""
WORDS = ("card", "account", "rate", "transfer", "swallowed", "closed", "late", "refund", "please", "today", "wrong", "twice")


def make_images(folder: Path, number: int) -> Path:
    """Write images of noise and a coloured half, whose side and colour are their kind."""
    randomness = np.random.default_rng(0)
    for place in range(number):
        inner = folder / "unlabeled" / f"{place % FOLDERS:02}"
        inner.mkdir(parents=True, exist_ok=True)
        pixels = randomness.integers(0, 90, (SIDE, SIDE, 3), dtype=np.uint8)
        kind = place % len(LABELS)
        pixels[: SIDE // 2, :, kind % 3] += 60 + 20 * kind
        Image.fromarray(pixels).save(inner / f"{place:06}.jpg", quality=80)
    return folder


def make_table(path: Path, number: int) -> Path:
    """Write texts of some words."""
    randomness = random.Random(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["customer", "message"])
        table.writerows([place, " ".join(randomness.choices(WORDS, k=12)) + f" {place}"] for place in range(number))
    return path


def label_some(client: Client, number: int) -> list[float]:
    """Label samples one after another as the page does; seconds from the key to the next sample, image included."""
    seconds, queue, tab = list[float](), list[int](), secrets.token_hex(4)
    for place in range(number):
        if not queue:
            queue = [each["id"] for each in client.get(f"next?number=1&tab={tab}")["samples"]]
        started = time.perf_counter()
        client.label([queue.pop()], LABELS[place % len(LABELS)])
        queue = [each["id"] for each in client.get(f"next?number=1&tab={tab}")["samples"]]
        if client.state["kind"] == "image":
            client.ask("GET", f"/image/{queue[0]}?side=1200")
        seconds.append(time.perf_counter() - started)
    return seconds


def describe(seconds: list[float]) -> str:
    """Median and 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    return f"{1000 * statistics.median(ordered):.0f} ms | {1000 * ordered[int(0.95 * len(ordered))]:.0f} ms"


def measure(servers: LabelServers, name: str, source: Path, options: list[str], labels: int) -> Iterator[str]:
    """Rows of the table about one source."""
    server = servers.start(str(source), "--project", f"{name}-labels", "--port", "0", *options)
    client = Client(server.address)
    asked = time.perf_counter()
    client.get("next?number=1&tab=t")
    started = time.perf_counter()
    first = server.seconds - server.scanned + started - asked
    early = label_some(client, labels)
    while not client.get("state")["ready"] and time.perf_counter() - started < 3600:
        time.sleep(1)
    ready = time.perf_counter() - started
    late = label_some(client, labels)
    update = time.perf_counter()
    client.label([client.get("next?number=1&tab=z")["samples"][0]["id"]], "a")
    while not client.get("state")["fresh"]:
        time.sleep(0.02)
    update = time.perf_counter() - update
    memory = _memory(server.pid)
    cells = [
        name,
        f"{client.state['total']:,}",
        f"{server.scanned:.1f} s | {first:.1f} s",
        describe(early),
        f"{ready:.0f} s",
        describe(late),
        f"{update:.1f} s",
    ]
    yield f"| {' | '.join(cells)} | {memory:,.0f} MB |"
    server.kill()


def _memory(pid: int) -> float:
    """Largest memory of a process in MB; 0 where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), 0.0)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=int, default=100_000)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--labels", type=int, default=200)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        images, table = make_images(folder / "images", given.images), make_table(folder / "texts.csv", given.rows)
        small = make_images(folder / "small", 200)
        with LabelServers(folder) as servers:
            print("# The labelling page, measured\n")
            load = f"load average at the start {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
            print(f"`python benchmarks/labelling.py --images {given.images} --rows {given.rows} --kills {given.kills}`,")
            print(f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {load}.\n")
            print(HEADS)
            print("|" + "---|" * (HEADS.count("|") - 1))
            for name, source, more in (("images", images, []), ("texts", table, ["--text-column", "message"])):
                for row in measure(servers, name, source, more, given.labels):
                    print(row, flush=True)
            print(f"\n{EXPLAINED}\n")
            acknowledged: dict[str, str] = {}
            for number in range(given.kills):
                server = servers.start(str(small), "--project", "killed", "--port", "0")
                label_until_killed(server, acknowledged, random.Random(number))
            lost, twice = lost_or_twice(folder / "killed", acknowledged)
            print(f"Killed {given.kills} times with SIGKILL while labelling without pause; acknowledged: {len(acknowledged):,}.")
            print(f"Lost: {lost}. Written twice: {twice}.")


if __name__ == "__main__":
    main()
