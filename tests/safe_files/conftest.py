"""A file that code of others would make, bytes that run code when unpickled, and a run to put them into."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from softmatch.data.preparations import plain_preparation
from softmatch.networks import build_network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, save_model
from softmatch.views import ImageViews
from tests.safe_files.hostile import SHAPE


class Payload:
    """A pickle of this runs code when an ordinary unpickler reads it."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.canary,))


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "code has run"


@pytest.fixture
def live(canary: Path) -> bytes:
    """A pickle that makes the canary: it is a real one."""
    content = pickle.dumps(Payload(canary))
    pickle.loads(content)
    assert canary.exists()
    canary.unlink()
    return content


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a model of small images, as training saves it."""
    folder = RunFolder.create(tmp_path / "run")
    network = build_network("small-conv-4", SHAPE, 10)
    classes = tuple("0123456789")
    samples = torch.zeros(2, *SHAPE, dtype=torch.uint8)
    views = ImageViews([0.3], [0.3], pad=1, flip=False)
    model = Model(network, views, classes, SHAPE, plain_preparation("image", SHAPE), samples=samples)
    save_model(folder, model, "small-conv-4")
    (folder.path / "config.yaml").write_text(yaml.safe_dump({"source": "digits", "method": "softmatch", "steps": 2}))
    return folder.path
