"""Folders of small pictures, and servers that start at once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.label_servers import LabelServers
from softmatch.data.understanding import Reading
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue

KINDS = ("left", "right", "below")
"""Class of each picture, in turn."""


def make_pictures(folder: Path, number: int = 60) -> Path:
    """Write pictures of three kinds: bright at the left, at the right, or below; their names do not tell."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for place in range(number):
        pixels = random.integers(0, 60, (16, 16, 3), dtype=np.uint8)
        part = [np.s_[:, :8], np.s_[:, 8:], np.s_[8:, :]][place % 3]
        pixels[part] += 150
        Image.fromarray(pixels).save(folder / f"{place:03}.png")
    return folder


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelServers]:
    with LabelServers(tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return make_pictures(tmp_path / "pictures")


@pytest.fixture
def queue(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SuggestionQueue]:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    shown, log = ShownSamples(str(pictures), Reading()), LabelLog(tmp_path / "project")
    yield SuggestionQueue(shown, log, Reading())
    log.close()


def put(queue: SuggestionQueue, position: int, label: str | None = None) -> None:
    name = queue.shown.records.names[position]
    purpose = {name: "random" if queue.is_random(position) else "chosen"}
    queue.log.write(f"{name} {queue.log.version}", "key", [(name, "")], label or KINDS[position % 3], purpose)
