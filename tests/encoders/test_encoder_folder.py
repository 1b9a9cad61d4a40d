"""Folders of encoders: where they are looked for, what is refused, what their files say."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from softmatch.encoders.encoder_folder import (
    ImageReading,
    TextReading,
    find_encoder,
    read_image_settings,
    read_text_settings,
    take_fingerprint,
)
from softmatch.errors import InputError
from tests.tiny_encoder import add_sentence_settings, make_text_encoder


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return make_text_encoder(tmp_path / "bert")


def test_a_folder_is_found(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_encoder(str(bert)) == bert
    monkeypatch.chdir(bert.parent)
    assert find_encoder("bert") == bert
    assert find_encoder("./bert") == bert


def test_what_is_no_encoder_is_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/missing': the folder does not exist.*hub"):
        find_encoder(str(tmp_path / "missing"))
    with pytest.raises(InputError, match="the folder is a file"):
        find_encoder(str(bert / "config.json"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no config\.json"):
        find_encoder(str(tmp_path / "empty"))


def test_pickled_weights_are_not_opened(bert: Path) -> None:
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"can run code when they are read.*save_pretrained\('NEW'\)"):
        find_encoder(str(bert))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"'other/encoder' is not a local folder.*pip install 'softmatch\[text\]'"):
        find_encoder("other/encoder")


def test_fingerprints_are_of_the_content(bert: Path, tmp_path: Path) -> None:
    first = take_fingerprint(bert)
    copied = Path(shutil.copytree(bert, tmp_path / "copy"))
    (copied / "README.md").write_text("decides nothing")
    assert take_fingerprint(copied) == first
    (copied / "tokenizer_config.json").write_text("{}")
    assert take_fingerprint(copied) != first
    weights = bytearray((bert / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (bert / "model.safetensors").write_bytes(weights)
    assert take_fingerprint(bert) != first


def test_reading_of_texts(bert: Path) -> None:
    assert read_text_settings(bert) == TextReading("mean", normalize=False, length=64, lower=False)
    add_sentence_settings(bert, "cls", length=8)
    assert read_text_settings(bert) == TextReading("cls", normalize=True, length=8, lower=False)
    (bert / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    (bert / "sentence_bert_config.json").write_text('{"max_seq_length": null, "do_lower_case": true}')
    assert read_text_settings(bert) == TextReading("mean", normalize=True, length=64, lower=True)
    (bert / "modules.json").write_text("{")
    with pytest.raises(InputError, match=r"modules\.json is damaged"):
        read_text_settings(bert)


def _images(folder: Path, settings: dict[str, object]) -> ImageReading:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return read_image_settings(folder)


def test_reading_of_images(tmp_path: Path) -> None:
    usual = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert read_image_settings(tmp_path) == ImageReading(*usual, 224)
    own = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    assert _images(tmp_path, {**own, "size": {"height": 32, "width": 32}}) == ImageReading((0.5, 0.4, 0.3), (0.2, 0.3, 0.4), 32)
    cropped = {"size": {"shortest_edge": 256}, "crop_size": {"height": 240, "width": 240}, "do_center_crop": True}
    assert _images(tmp_path, cropped).side == 240
    assert _images(tmp_path, {**cropped, "do_center_crop": False}).side == 256
    assert _images(tmp_path, {"size": 96}).side == 96
    assert _images(tmp_path, {"do_normalize": False}) == ImageReading((0.0,) * 3, (1.0,) * 3, 224)


def test_images_that_are_not_scaled_to_one(tmp_path: Path) -> None:
    """(level − 127.5)/127.5, said in two ways."""
    levels = {"do_rescale": False, "image_mean": [127.5] * 3, "image_std": [127.5] * 3}
    assert _images(tmp_path, levels) == ImageReading((0.5,) * 3, (0.5,) * 3, 224)
    shifted = _images(tmp_path, {"rescale_factor": 1 / 127.5, "rescale_offset": True, "do_normalize": False})
    assert shifted.mean == pytest.approx((0.5,) * 3)
    assert shifted.std == pytest.approx((0.5,) * 3)


@pytest.mark.parametrize("wrong", [{"image_std": [0, 1, 1]}, {"image_mean": 0.5}, {"size": -3}, {"image_mean": [0.5]}])
def test_impossible_settings_of_images_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"preprocessor_config\.json cannot be used"):
        _images(tmp_path, wrong)


def test_an_adapter_beside_the_weights_is_refused(bert: Path) -> None:
    (bert / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"has an adapter in addition to its weights \(adapter_config.json\). Merge"):
        find_encoder(str(bert))
