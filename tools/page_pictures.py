"""Take the pictures of the labelling page in docs/: `python -m tools.page_pictures FOLDER`, with one folder per class.

The images are copied into one folder without labels. A program labels some of them with the names of their folders, as a person
would on the page, and a browser shows the screens.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
from label_servers import Client, LabelServers  # noqa: E402  # from here, as the benchmarks import each other

from tests.report.chrome import Chrome  # noqa: E402  # likewise

DOCS = ROOT / "docs"
COLORS = 128
"""Of a palette: keeps the files small."""


def copy_flat(folder: Path, to: Path) -> dict[str, str]:
    """Copy all images into one folder, in random order; the class of each, by its new name."""
    files = sorted(path for path in folder.glob("*/*") if path.is_file())
    random.Random(0).shuffle(files)
    to.mkdir()
    classes = {}
    for number, path in enumerate(files):
        name = f"{number:04}{path.suffix}"
        shutil.copy(path, to / name)
        classes[name] = path.parent.name
    return classes


def label(client: Client, classes: dict[str, str], number: int) -> None:
    """Label samples as they are suggested, when the suggestions are up to date."""
    for _ in range(number):
        (sample,) = client.get("next?number=1&tab=program")["samples"]
        client.label([sample["id"]], classes[sample["name"]])
        while client.get("state")["ready"] and not client.get("state")["fresh"]:
            time.sleep(0.05)


def untick(chrome: Chrome, classes: dict[str, str]) -> None:
    """Untick what does not belong to the group."""
    group = chrome.run("document.querySelector('.class[aria-pressed=true]').title")
    for name in chrome.run("[...document.querySelectorAll('.cell')].map(cell => cell.title)"):
        if classes[name] != group:
            chrome.run(f"[...document.querySelectorAll('.cell')].find(cell => cell.title === '{name}').click()")
    chrome.run("document.querySelector('.grid').scrollTop = 0")


def take(chrome: Chrome, name: str, screen: str, width: int, height: int, dark: bool, to: Path) -> None:
    """Save the picture of a screen."""
    chrome.resize(width, height)
    chrome.scheme(dark)
    chrome.run(f"location.hash = '{screen}'")
    time.sleep(2)
    path = to / f"{name}.png"
    path.write_bytes(chrome.picture())
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLORS, Image.Quantize.MEDIANCUT).save(path, optimize=True)
    print(path, f"{path.stat().st_size / 1000:.0f} kB", *chrome.problems)


def main() -> None:
    """Take the pictures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="images, one folder per class")
    options.add_argument("--labels", type=int, default=60)
    options.add_argument("--out", type=Path, default=DOCS)
    options.add_argument("--all", action="store_true", help="every screen, light and dark, on a desktop and a phone, to look at")
    given, more = options.parse_known_args()  # further options are those of softmatch label
    with tempfile.TemporaryDirectory() as temporary, LabelServers(Path(temporary)) as servers:
        source = Path(temporary) / given.folder.name
        classes = copy_flat(given.folder, source)
        server = servers.start(str(source), "--port", "0", *more)
        client = Client(server.address)
        while not client.get("state")["ready"]:
            time.sleep(0.5)
        label(client, classes, given.labels)
        chrome = Chrome(Path(temporary) / "profile")
        try:
            chrome.open(server.address)
            time.sleep(3)
            if not given.all:
                take(chrome, "label_page", "label", 1100, 700, False, given.out)
                chrome.run("location.hash = 'group'")
                time.sleep(2)
                untick(chrome, classes)
                take(chrome, "group_page", "group", 1100, 700, True, given.out)
                return
            client.post("train", how="start")
            while client.get("runs")["runs"][-1]["state"] == "running":
                time.sleep(1)
            for screen in ("label", "group", "review", "training", "enough"):
                for dark in (False, True):
                    take(chrome, f"{screen}-{'dark' if dark else 'light'}", screen, 1200, 800, dark, given.out)
                take(chrome, f"{screen}-phone", screen, 390, 844, False, given.out)
        finally:
            chrome.close()


if __name__ == "__main__":
    main()
