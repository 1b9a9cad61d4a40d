"""Measure in a browser how long the labelling page takes from a key press to the next image on the screen.

    python benchmarks/label_keys.py                                  # 100,000 images: some minutes
    python benchmarks/label_keys.py --images 5000 --labels 60        # a minute
    python benchmarks/label_keys.py --before ../other-checkout       # also with the code there, in turn

A key is pressed in Chromium, which needs the tests' `websocket-client`. The clock of the page starts at the time stamp of the key
and stops after the frame that shows the next image, decoded. With --pace 0 the next key follows at once: the user is never that
fast, but the page then waits for the server. The column "server" is the time from the key to the acknowledged label. Labels are
given in blocks that alternate between the two versions of the code, so that a busy machine slows both. "Idle key" is a key that
does nothing, pressed in blocks between the others: the time to the next frame is what browser and machine take by themselves.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from label_servers import Client, LabelServers
from labelling import make_images

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.report.chrome import Chrome  # a browser for tests, and for this

BLOCKS = 4
WHAT = ("key to next image", "key to saved", "idle key")
WATCH = """
window.times = []; window.idle = []; window.saved = []; window.pressed = [];
const fetched = window.fetch;
window.fetch = async (...given) => {
  const found = await fetched(...given);
  if (String(given[0]).includes('/api/act')) saved.push(performance.now() - pressed[saved.length]);
  return found;
};
addEventListener('keydown', (event) => {
  if (event.key === '-') { // no act: what the browser and the machine take by themselves
    requestAnimationFrame(() => setTimeout(() => window.idle.push(performance.now() - event.timeStamp), 0));
    return;
  }
  pressed.push(event.timeStamp);
  const before = document.querySelector('.stage img');
  const look = async () => {
    const now = document.querySelector('.stage img');
    if (!now || now === before || !now.complete) return requestAnimationFrame(look);
    await now.decode().catch(() => null);
    requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - event.timeStamp), 0));
  };
  look();
}, { capture: true });
0
"""


class Labeller:
    """A server, and a browser that labels with it by keyboard."""

    def __init__(self, servers: LabelServers, source: Path, folder: Path, name: str) -> None:
        self.server = servers.start(str(source), "--project", str(folder / f"{name}-labels"), "--port", "0")
        self.client = Client(self.server.address)
        for place, sample in enumerate(self.client.get("next?number=5&tab=t")["samples"]):
            self.client.label([sample["id"]], "abcde"[place], "new")
        self.chrome = Chrome(folder / f"{name}-profile")
        self.chrome.open(self.server.address)
        while not self.chrome.run("document.querySelector('.stage img')?.complete ?? false"):
            time.sleep(0.05)
        self.chrome.run(WATCH)

    def wait_until_ready(self) -> None:
        """Wait until the features are computed, which also starts the light model."""
        while not self.client.get("state")["ready"]:
            time.sleep(1)

    def label(self, number: int, pace: float) -> tuple[list[float], list[float]]:
        """Press keys; milliseconds to the next image, and to the acknowledged label."""
        self.chrome.run("times.length = saved.length = pressed.length = 0")
        for place in range(number):
            key = str(place % 5 + 1)
            event = {"key": key, "code": f"Digit{key}", "windowsVirtualKeyCode": ord(key)}
            self.chrome.send("Input.dispatchKeyEvent", type="keyDown", text=key, **event)
            self.chrome.send("Input.dispatchKeyEvent", type="keyUp", **event)
            while self.chrome.run("times.length") <= place:
                time.sleep(0.002)
            time.sleep(pace)
        while self.chrome.run("saved.length") < number:
            time.sleep(0.02)
        return self.chrome.run("times"), self.chrome.run("saved")

    def press_idly(self, number: int, pace: float) -> list[float]:
        """Press a key that does nothing; milliseconds to the next frame."""
        self.chrome.run("idle.length = 0")
        for place in range(number):
            event = {"key": "-", "code": "Minus", "windowsVirtualKeyCode": 189}
            self.chrome.send("Input.dispatchKeyEvent", type="keyDown", text="-", **event)
            self.chrome.send("Input.dispatchKeyEvent", type="keyUp", **event)
            while self.chrome.run("idle.length") <= place:
                time.sleep(0.002)
            time.sleep(pace)
        return list(self.chrome.run("idle"))

    def close(self) -> None:
        """End both."""
        self.chrome.close()
        self.server.kill()


def describe(times: list[float]) -> str:
    """Median and 95th percentile."""
    return f"{statistics.median(times):.0f} ms | {sorted(times)[int(0.95 * len(times))]:.0f} ms"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=int, default=100_000)
    options.add_argument("--labels", type=int, default=200)
    options.add_argument("--pace", type=float, nargs="+", default=[0.3, 0.0], help="Seconds between an image and the next key.")
    options.add_argument("--before", type=Path, help="Another checkout of the code, to compare with.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = make_images(folder / "images", given.images)
        codes = {**({"before": given.before.resolve()} if given.before else {}), "now": Path(__file__).parents[1]}
        starters = {name: LabelServers(folder, code) for name, code in codes.items()}
        labellers = dict[str, Labeller]()
        try:
            for name, servers in starters.items():
                labellers[name] = Labeller(servers, source, folder, name)
                labellers[name].wait_until_ready()
            load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
            print(f"{given.images:,} images, {os.cpu_count()} cores ({platform.machine()}){load}.\n")
            print(f"| code | pause | {' | 95 % | '.join(f'{what}: median' for what in WHAT)} | 95 % |\n|{'---|' * 8}")
            for pace in given.pace:
                found: dict[str, Any] = {name: ([], [], []) for name in labellers}
                for _ in range(BLOCKS):
                    for name, labeller in labellers.items():
                        number = given.labels // BLOCKS
                        measured = *labeller.label(number, pace), labeller.press_idly(number, pace)
                        for all_times, times in zip(found[name], measured, strict=True):
                            all_times += times
                for name, all_times in found.items():
                    print(f"| {name} | {pace:g} s | {' | '.join(map(describe, all_times))} |", flush=True)
        finally:
            for labeller in labellers.values():
                labeller.close()
            for servers in starters.values():
                servers.__exit__(None, None, None)


if __name__ == "__main__":
    main()
