"""Encoders as modules: no code of theirs is run, all weights are there, pooling is what it says."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from softmatch.encoders.backbones import Tokenizer, feature_size, fit_images, load_backbone, load_tokenizer, make_backbone, padded
from softmatch.errors import InputError
from tests.tiny_encoder import make_clip, make_resnet, make_text_encoder, make_vit


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("bert"))


def test_texts_of_a_batch_do_not_depend_on_each_other(bert: Path) -> None:
    backbone, ids = load_backbone(bert, "text"), torch.tensor([[2, 5, 7, 3, 0, 0], [2, 6, 8, 10, 11, 3]])
    with torch.no_grad():
        together, alone = backbone(ids, ids != 0), backbone(ids[:1, :4], torch.ones(1, 4, dtype=torch.bool))
        states = backbone.model(input_ids=ids[:1, :4]).last_hidden_state[0]
    assert torch.allclose(together[0], alone[0], atol=1e-5)
    assert torch.allclose(alone[0], states.mean(0), atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(backbone(ids, ids != 0, "cls")[0], states[0], atol=1e-5)
    assert not backbone.training


def test_a_pooler_that_was_never_trained_is_not_used(tmp_path: Path) -> None:
    images = torch.randn(2, 3, 16, 16)
    with_it, without = (
        load_backbone(make_vit(tmp_path / "a"), "image"),
        load_backbone(make_vit(tmp_path / "b", pooler=False), "image"),
    )
    with torch.no_grad():
        assert torch.equal(with_it(images), with_it.model(pixel_values=images).pooler_output)
        assert torch.equal(without(images), without.model(pixel_values=images).last_hidden_state.mean(1))
    assert (with_it.pooler, without.pooler) == (True, False)


def test_convolutional_encoders_and_halves_of_larger_models(tmp_path: Path) -> None:
    resnet = load_backbone(make_resnet(tmp_path / "resnet"), "image")
    clip = load_backbone(make_clip(tmp_path / "clip"), "image")
    for backbone, side in ((resnet, 32), (clip, 16)):
        assert backbone(torch.randn(2, 3, side, side)).shape == (2, 16)
        assert feature_size(backbone, side, "it") == 16
    assert not any("text" in name for name, _ in clip.named_parameters())


def test_missing_weights_are_refused(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.0.attention.self.key.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"1 of its weights are missing .* encoder\.layer\.0\.attention\.self\.key\.weight"):
        load_backbone(folder, "text")


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:500])
    with pytest.raises(InputError, match="cannot be used"):
        load_backbone(folder, "text")


def test_code_in_the_folder_is_never_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    auto_map = {"AutoConfig": "own.Config", "AutoModel": "own.Model", "AutoTokenizer": [None, "own.Tokenizer"]}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": auto_map}))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    capsys.readouterr()
    with pytest.raises(InputError, match="cannot be used"):
        load_backbone(folder, "text")
    with pytest.raises(InputError, match="the saved network"):
        make_backbone({**config, "model_type": "own", "auto_map": auto_map}, "text", pooler=False)
    assert not (tmp_path / "ran").exists()
    assert capsys.readouterr() == ("", "")


def test_loading_says_nothing_and_leaves_the_librarys_settings(bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_backbone(bert, "text")
    assert capsys.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


@pytest.mark.parametrize(
    "setting",
    [
        {"attn_implementation": "somebody/kernel"},
        {"_attn_implementation": "kernels-community/flash-attn"},
        {"text_config": {"attn_implementation": "flash_attention_2"}},
        {"parts": [{"use_kernels": True}]},
        {"use_pretrained_backbone": True},
        {"use_timm_backbone": True},
    ],
)
def test_settings_that_fetch_code_or_weights_are_refused(bert: Path, tmp_path: Path, setting: dict[str, Any]) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "bert"))
    path = folder / "config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | setting))
    with pytest.raises(InputError, match="asks for other code or weights"):
        load_backbone(folder, "text")
    with pytest.raises(InputError, match="asks for other code or weights"):
        make_backbone(settings | setting, "text", pooler=False)
    path.write_text(json.dumps(settings | {"attn_implementation": "eager", "use_timm_backbone": False}))
    load_backbone(folder, "text")


def test_a_missing_library_is_named(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for use in (
        lambda: load_backbone(bert, "text"),
        lambda: load_tokenizer(bert),
        lambda: Tokenizer.from_saved("{}", 0, None, ()),
    ):
        with pytest.raises(InputError, match=r"pip install 'softmatch\[text\]'"):
            use()


def test_without_a_tokenizer_texts_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        load_tokenizer(make_vit(tmp_path / "vit"))


def test_ids_are_padded_on_the_right() -> None:
    assert padded([[1, 2, 3], [4], []], 9).tolist() == [[1, 2, 3], [4, 9, 9], [9, 9, 9]]
    assert padded([[1]], 9, 3).tolist() == [[1, 9, 9]]


def test_images_are_fitted_to_the_encoder() -> None:
    grey = torch.rand(2, 1, 8, 8)
    assert torch.equal(fit_images(grey, 8), grey.expand(-1, 3, -1, -1))
    assert torch.allclose(fit_images(torch.full((1, 3, 20, 30), 0.7), 16), torch.full((1, 3, 16, 16), 0.7))
    colored = torch.rand(1, 3, 8, 8)
    assert fit_images(colored, 8) is colored
