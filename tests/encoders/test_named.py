"""The table of named encoders, what a name stands for, prefixes, and models of timm."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from softmatch.data.preparations.encoder_features import EncoderPreparation, fit_text_encoder
from softmatch.encoders.encoder_folder import TextReading, find_encoder, read_image_settings, take_fingerprint
from softmatch.encoders.model_folder import HUB_ID
from softmatch.encoders.named import NAMED, is_named, prefix_of, resolve
from softmatch.errors import InputError
from tests import forked
from tests.tiny_encoder import make_text_encoder

TIMM = '''
"""A library with the calls of timm that are used: models have forward_features, forward_head and num_features."""
import torch
from torch import nn


class Small(nn.Module):
    num_features = 5

    def __init__(self, num_classes, width=5):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 4, 4)
        self.fc = nn.Linear(width, num_classes) if num_classes else nn.Identity()

    def forward_features(self, x):
        return self.conv(x)

    def forward_head(self, x, pre_logits=False):
        pooled = x.mean((2, 3))
        return pooled if pre_logits else self.fc(pooled)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def create_model(name, pretrained=False, num_classes=1000, **options):
    assert not pretrained, "weights are not fetched by timm"
    if name != "small_net":
        raise RuntimeError(f"Unknown model ({name})")
    return Small(num_classes, **options)
'''
USE = """
import sys
import torch
from PIL import Image
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.errors import InputError
try:
    found = EncoderPreparation.find(sys.argv[1], "image")
    found.keep, found.device, found.half = False, torch.device("cpu"), False
    print(found([Image.new("RGB", (16, 16), (255, 0, 51))]).tolist())
except InputError as error:
    print(error)
"""


def test_the_table() -> None:
    assert list(NAMED) == ["images-small", "images", "images-large", "texts-small", "texts", "texts-multilingual"]
    for name, each in NAMED.items():
        assert (name, name.split("-")[0]) == (each.name, f"{each.of}s")
        assert HUB_ID.fullmatch(each.hub)
        assert re.fullmatch("[0-9a-f]{40}", each.revision)
        assert min(each.megabytes, each.dimension, each.input) > 0
        assert all((each.licence, each.purpose, each.trained_on, each.evidence))
        assert resolve(name) == (each.hub, each.revision)
    assert prefix_of("texts-multilingual") == prefix_of("intfloat/multilingual-e5-small") == "query: "
    assert prefix_of("texts") == prefix_of("some/encoder") == ""


def test_folders_and_ids_keep_their_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()  # photos, for example
    assert is_named("images")
    assert not is_named("./images")
    made = make_text_encoder(tmp_path / "texts")
    assert find_encoder("texts") == find_encoder("./texts") == made
    assert resolve("owner/name") == ("owner/name", None)
    assert resolve("timm:small_net.a1") == ("timm/small_net.a1", None)
    assert resolve("timm:owner/small") == ("owner/small", None)


def test_a_mistyped_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"'image-small' is not on this disk .* Did you mean 'images-small'\?"):
        find_encoder("image-small")
    with pytest.raises(InputError, match=r"give the folder of a local copy\.$"):
        find_encoder("some/model")


def test_a_prefix_goes_before_each_text(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert", words=("query", ":", "cat", "dog"))
    plain = fit_text_encoder(str(folder), "text", device="cpu")
    plain.keep = False
    assert plain.reading == TextReading("mean", normalize=False, length=64, lower=False, prefix="")
    reading = TextReading("mean", normalize=False, length=64, lower=False, prefix="query: ")
    prefixed = EncoderPreparation(str(folder), "text", "text", reading, take_fingerprint(folder))
    prefixed.device = torch.device("cpu")
    assert torch.equal(prefixed(["cat", "dog"]), plain(["query: cat", "query: dog"]))
    assert not torch.equal(prefixed(["cat"]), plain(["cat"]))
    assert prefixed._maker() != plain._maker()
    assert "prefix" not in plain._maker()  # features that version 0.1 has cached are still found


@pytest.fixture
def timm_model(tmp_path: Path) -> Path:
    """A model as timm publishes it on the hub, and beside it a library of that name."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "timm.py").write_text(TIMM)
    folder = tmp_path / "model"
    folder.mkdir()
    torch.manual_seed(0)
    tensors = {"conv.weight": torch.randn(5, 3, 4, 4), "conv.bias": torch.randn(5), "fc.weight": torch.randn(9, 5)}
    save_file({**tensors, "fc.bias": torch.randn(9)}, folder / "model.safetensors")
    given = {"input_size": [3, 16, 16], "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.5, 0.5], "classifier": "fc", "num_classes": 9}
    settings = {"architecture": "small_net", "num_classes": 9, "num_features": 5, "pretrained_cfg": given}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def _use(encoder: str, library: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), os.environ.get("PYTHONPATH", "")])}
    done = forked.run(["-c", USE, encoder], library, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_model_of_timm(timm_model: Path) -> None:
    reading = read_image_settings(timm_model)
    assert (reading.mean, reading.std, reading.side) == ((0.5,) * 3, (0.25, 0.5, 0.5), 16)
    from safetensors.torch import load_file

    weights = load_file(timm_model / "model.safetensors")
    pixels = torch.tensor([(1 - 0.5) / 0.25, (0 - 0.5) / 0.5, (0.2 - 0.5) / 0.5])
    expected = (weights["conv.weight"].sum((2, 3)) @ pixels + weights["conv.bias"])[None]
    found = torch.tensor(json.loads(_use(f"timm:{timm_model}", timm_model.parent / "library")))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architecture": "other_net"}, "Unknown model (other_net)"),
        ({"architecture": "hf-hub:evil/model"}, "asks timm for other files: 'hf-hub:evil/model'"),
        ({"model_args": {"checkpoint_path": "evil.pth"}}, "asks timm for other files"),
        ({"model_args": {"width": 4}}, "size mismatch"),
    ],
)
def test_models_of_timm_that_are_refused(timm_model: Path, change: dict[str, object], said: str) -> None:
    settings = json.loads((timm_model / "config.json").read_text())
    (timm_model / "config.json").write_text(json.dumps({**settings, **change}))
    assert said in _use(f"timm:{timm_model}", timm_model.parent / "library")


def test_timm_that_cannot_be_imported(timm_model: Path) -> None:
    broken = timm_model.parent / "broken"
    broken.mkdir()
    (broken / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    said = _use(f"timm:{timm_model}", broken)
    assert "which cannot be imported: operator torchvision::nms does not exist. Run `pip install timm`" in said
    assert "`softmatch encoders` lists some" in said
