"""Folders of small pictures, and servers that start at once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.label_servers import LabelServers


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
