"""Networks of timm by name, with a small library of that name in its place: timm needs a torchvision for this torch."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import softmatch
from softmatch.networks import build_network, is_own
from softmatch.runs.model import load_model
from tests.refusals import refused

LIBRARY = '''
"""A library with the calls of timm that are used: create_model, num_features, head_hidden_size."""
from torch import nn


class Any(nn.Module):
    """For images of any size; what it returns is wider than its last layer."""
    num_features, head_hidden_size = 4, 6

    def __init__(self, in_chans):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(in_chans, 6, 3), nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.body(x)


class Fixed(nn.Module):
    """For images of one size."""
    num_features = 5

    def __init__(self, in_chans, img_size=(224, 224)):
        super().__init__()
        self.body = nn.Linear(in_chans * img_size[0] * img_size[1], 5)

    def forward(self, x):
        return self.body(x.flatten(1))


def create_model(name, pretrained=False, num_classes=1000, **options):
    assert not pretrained and num_classes == 0
    if name not in ("any_net", "fixed_net.a1"):
        raise RuntimeError(f"Unknown model ({name})")
    return (Any if name == "any_net" else Fixed)(**options)
'''


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "timm.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path / "library")
    monkeypatch.delitem(sys.modules, "timm", raising=False)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(("name", "width"), [("timm:any_net", 6), ("timm:fixed_net.a1", 5)])
def test_a_network_of_timm_has_features_and_a_head(name: str, width: int) -> None:
    built, images = build_network(name, (1, 9, 8), 3, batch_norm_momentum=0.01), torch.rand(2, 1, 9, 8)
    assert not is_own(name)
    assert built.features(images).shape == (2, width)  # type: ignore[operator]  # a method of the module
    assert torch.equal(built.head(built.features(images)), built(images))  # type: ignore[operator]  # as above
    assert {module.momentum for module in built.modules() if isinstance(module, nn.BatchNorm2d)} <= {0.01}


@pytest.mark.usefixtures("library")
def test_training_saving_and_loading(tmp_path: Path) -> None:
    settings = {"labels": 20, "steps": 2, "labeled_batch": 4, "unlabeled_batch": 8, "baseline": False}
    result = softmatch.train("digits", network="timm:any_net", out=tmp_path / "run", **settings)
    items = torch.randint(256, (3, 1, 8, 8), dtype=torch.uint8)
    assert load_model(result.run).predict_proba(items).shape == (3, 10)
    refused("cannot be built by timm .* Unknown model", build_network, "timm:other", (3, 8, 8), 2)
    refused("is for images", build_network, "timm:any_net", (8,), 2)
    for name in ("timm:hf-hub:evil/model", "timm:../model", "timm:"):
        refused("give a name of timm's list", build_network, name, (3, 8, 8), 2)


def test_without_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    refused("needs timm, which cannot be imported.*pip install timm", build_network, "timm:resnet18", (3, 8, 8), 2)
