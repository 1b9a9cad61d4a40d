"""Features of frozen encoders: the right numbers, kept on disk, and nothing unsafe opened."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from softmatch.data.preparations import encoder_features as module
from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.encoder_features import (
    EncoderPreparation,
    fit_image_encoder,
    fit_text_encoder,
)
from softmatch.errors import InputError
from tests.tiny_encoder import add_sentence_settings, make_resnet, make_text_encoder, make_vit

TEXTS = ["the cat sat on a mat", "", "dogs ran", "how much is it ?", "bird 😀", "the cat sat on the tree on the mat"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "has_bf16_units", lambda device: False)  # so that every machine computes the same
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_vit(tmp_path_factory.mktemp("vit"))


def _hidden(folder: Path, text: str, length: int = 64) -> torch.Tensor:
    """States of all tokens of one text, by the library itself."""
    from transformers import AutoModel, AutoTokenizer

    found = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=length)
    with torch.no_grad():
        return AutoModel.from_pretrained(folder).eval()(**found).last_hidden_state[0]


def test_features_of_a_text_are_the_mean_of_its_tokens(bert: Path) -> None:
    features = fit_text_encoder(str(bert), "body")(TEXTS)
    assert features.shape == (6, 16)
    assert features.dtype == torch.float32
    for text, row in zip(TEXTS, features, strict=True):
        assert torch.allclose(row, _hidden(bert, text).mean(0), atol=1e-5), text


def test_a_device_with_units_multiplies_in_bf16_unless_told_otherwise(
    bert: Path, vit: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "one.png"
    Image.fromarray(np.arange(1200, dtype=np.uint8).reshape(20, 20, 3)).save(path)
    exact = fit_text_encoder(str(bert), "body")(TEXTS), fit_image_encoder(str(vit), [path]).items
    monkeypatch.setattr(module, "has_bf16_units", lambda device: device.type == "cpu")
    prepared = fit_text_encoder(str(bert), "body")
    found = prepared(TEXTS), fit_image_encoder(str(vit), [path]).items
    for features, wanted in zip(found, exact, strict=True):
        assert features.dtype == torch.float32
        assert 0.0 < float((features - wanted).norm() / wanted.norm()) < 0.03
    assert len([*cache.rglob("*.sqlite")]) == 4, "features of one precision are never taken for those of the other"
    assert torch.equal(fit_text_encoder(str(bert), "body", half=False)(TEXTS), exact[0])
    again = preparation_from(prepared.settings(), prepared.tensors())
    assert torch.equal(again(TEXTS), found[0]), "a saved model goes on as it was trained"
    older = {key: value for key, value in prepared.settings().items() if key != "half"}
    assert torch.equal(preparation_from(older, {})(TEXTS), exact[0])


def test_settings_of_sentence_transformers_are_followed(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    add_sentence_settings(folder, "cls", length=5, normalize=True)
    features = fit_text_encoder(str(folder), "body")(TEXTS)
    for text, row in zip(TEXTS, features, strict=True):
        assert torch.allclose(row, F.normalize(_hidden(folder, text, 5)[0], dim=0), atol=1e-5), text


def test_pieces_give_what_the_whole_gives(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = fit_text_encoder(str(bert), "body")
    whole = prepared(TEXTS)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setattr(module, "TEXTS", 4)
    assert torch.allclose(prepared(TEXTS), whole, atol=1e-6)
    assert torch.allclose(torch.cat([prepared(TEXTS[:1]), prepared(TEXTS[1:])]), whole, atol=1e-6)
    assert prepared([]).shape == (0, 16)


def test_progress_is_told_of_all_texts(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setattr(module, "TEXTS", 4)
    told: list[tuple[int, int]] = []
    fit_text_encoder(str(bert), "body", lambda done, total: told.append((done, total)))(TEXTS)
    assert told == [(2, 6), (4, 6), (4, 6), (6, 6), (6, 6)]


def test_kept_features_are_used_instead_of_the_encoder(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = fit_text_encoder(str(bert), "body")(TEXTS)
    again = fit_text_encoder(str(bert), "another column")
    monkeypatch.setattr(again, "load", lambda: pytest.fail("it was computed again"))
    assert torch.equal(again(TEXTS), features)
    with pytest.raises(pytest.fail.Exception, match="again"):
        again([*TEXTS[:-1], "another text"])


def test_an_interruption_costs_one_part(bert: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXTS", 2)

    def interrupt(done: int, total: int) -> None:
        if done > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_text_encoder(str(bert), "body", interrupt)(TEXTS)
    told = list[int]()
    fit_text_encoder(str(bert), "body", lambda done, total: told.append(done))(TEXTS)
    assert told == [2, 4, 6, 6]  # only the last part goes through the encoder


def test_a_new_or_moved_input_costs_only_itself(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = fit_text_encoder(str(bert), "body")(TEXTS)
    again = fit_text_encoder(str(bert), "body")
    computed = list[list[str]]()
    compute = again._compute
    monkeypatch.setattr(again, "_compute", lambda texts, *rest: (computed.append(texts), compute(texts, *rest))[1])
    found = again(["a new cat", *TEXTS[::-1], TEXTS[0]])
    assert computed == [["a new cat"]]
    assert torch.equal(found[1:], torch.cat([features.flip(0), features[:1]]))


def test_a_saved_preparation_gives_the_same_features_and_keeps_none(bert: Path, cache: Path) -> None:
    prepared = fit_text_encoder(str(bert), "body")
    settings = json.loads(json.dumps(prepared.settings()))
    assert prepared.tensors() == {}
    again = preparation_from(settings, {})
    assert isinstance(again, EncoderPreparation)
    assert (again.takes, again.columns) == ("text", ("body",))
    computed = again(TEXTS)
    assert not (cache / "features").exists()
    assert torch.equal(computed, prepared(TEXTS))
    assert again.settings() == prepared.settings()
    assert str(bert) in again.describe()


def test_a_changed_or_missing_encoder_is_refused(tmp_path: Path) -> None:
    folder = make_text_encoder(tmp_path / "bert")
    settings = fit_text_encoder(str(folder), "body").settings()
    make_text_encoder(folder, seed=1)  # the same files, other weights
    saved = preparation_from(settings, {})
    with pytest.raises(InputError, match="not the one that this model was trained with"):
        saved(TEXTS)
    folder.rename(tmp_path / "moved")
    with pytest.raises(InputError, match="does not exist"):
        saved(TEXTS)


def test_damaged_settings_are_refused() -> None:
    with pytest.raises(InputError, match=r"damaged: encoder\.of"):
        preparation_from({"kind": "encoder"}, {})


def test_other_inputs_than_texts_are_refused(bert: Path) -> None:
    with pytest.raises(InputError, match="number 1 is a int"):
        fit_text_encoder(str(bert), "body")([1])  # type: ignore[list-item]  # the mistake


def test_an_encoder_for_something_else_is_refused(bert: Path, vit: Path) -> None:
    with pytest.raises(InputError, match="cannot read texts"):
        fit_text_encoder(str(vit), "body")(TEXTS)
    with pytest.raises(InputError, match="cannot read images"):
        EncoderPreparation.find(str(bert), "image")([Image.new("RGB", (20, 20))])  # type: ignore[list-item]  # as a notebook has them


def _write_images(folder: Path, number: int = 3, side: int = 16) -> list[Path]:
    generator = np.random.default_rng(0)
    paths = [folder / f"{n}.png" for n in range(number)]
    for path in paths:
        Image.fromarray(generator.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)
    return paths


def test_features_of_images(vit: Path, tmp_path: Path) -> None:
    from transformers import ViTModel

    paths = _write_images(tmp_path)
    prepared, features, kept, findings = fit_image_encoder(str(vit), paths)[:4]
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1) for path in paths])
    with torch.no_grad():
        expected = ViTModel.from_pretrained(vit).eval()((pixels / 255 - 0.5) / 0.25).pooler_output
    assert isinstance(prepared, EncoderPreparation)
    assert torch.allclose(features, prepared.reduce(expected), atol=1e-5)
    assert (kept, findings, prepared.takes, prepared.columns) == ([0, 1, 2], [], "image", ())
    again = preparation_from(json.loads(json.dumps(prepared.settings())), prepared.tensors())
    assert torch.equal(again(paths), features)
    assert torch.equal(again([Image.open(path) for path in paths]), features)  # type: ignore[list-item]  # as a notebook has them


def test_features_of_images_are_reduced_to_their_principal_directions(vit: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(300, 200, generator=generator) * torch.linspace(3, 0.1, 200) + 5
    prepared = EncoderPreparation.find(str(vit), "image")
    assert prepared.reduce(features) is features
    prepared.fit_directions(features)
    items, unit = prepared.reduce(features), F.normalize(features, dim=1)
    assert items.shape == (300, 128)
    assert torch.allclose(items.mean(0), torch.zeros(128), atol=1e-5)
    assert torch.allclose(items.T @ items, torch.diag(items.square().sum(0)), atol=1e-4)  # not correlated
    assert (items.std(0).diff() <= 1e-6).all()  # the most important first
    assert prepared.directions is not None
    assert torch.allclose(prepared.directions.T @ prepared.directions, torch.eye(128), atol=1e-5)
    kept = items.square().sum() / (unit - unit.mean(0)).square().sum()
    assert 0.95 < kept < 1
    assert torch.allclose(prepared.reduce(7 * features), items, atol=1e-5)  # the length of a feature vector says nothing
    with pytest.raises(InputError, match="damaged: its directions"):
        preparation_from(prepared.settings(), {"origin": prepared.tensors()["origin"], "directions": torch.eye(3)})


def test_directions_of_many_images_come_from_some_of_them(vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, widths, told = _write_images(tmp_path, 20), list[int](), list[tuple[int, int]]()
    raw = EncoderPreparation.find(str(vit), "image")(paths)
    monkeypatch.setattr(module, "FITTED", 5)
    monkeypatch.setattr(module, "IMAGES", 8)
    monkeypatch.setattr(EncoderPreparation, "_joined", lambda _, parts: widths.extend(map(len, parts)) or torch.cat(parts))
    paths[0].write_bytes(b"")  # one that is looked at
    prepared, features, kept, findings = fit_image_encoder(str(vit), paths, lambda *done: told.append(done))[:4]
    assert isinstance(prepared, EncoderPreparation)
    expected = EncoderPreparation.find(str(vit), "image")
    expected.fit_directions(raw[[4, 8, 12, 16]])
    assert torch.allclose(features, expected.reduce(raw[1:]), atol=1e-4)
    assert (features.shape, kept, len(findings)) == ((19, 3), list(range(1, 20)), 1)
    assert widths == [4, 7, 8, 4]
    assert {total for _, total in told} == {20}


def test_images_of_any_size_and_mode(tmp_path: Path) -> None:
    folder = make_resnet(tmp_path / "resnet")
    Image.new("CMYK", (50, 20), (10, 20, 30, 40)).save(tmp_path / "one.jpg")
    Image.new("LA", (1, 1), (10, 128)).save(tmp_path / "two.png")
    _, features, _, _ = fit_image_encoder(str(folder), [tmp_path / "one.jpg", tmp_path / "two.png"])[:4]
    assert features.shape == (2, 1)
    assert torch.isfinite(features).all()


def test_images_that_cannot_be_read_are_left_out_and_named(vit: Path, tmp_path: Path) -> None:
    paths = _write_images(tmp_path)
    whole = EncoderPreparation.find(str(vit), "image")(paths)
    paths[1].write_bytes(paths[1].read_bytes()[:60])
    prepared, features, kept, findings = fit_image_encoder(str(vit), paths)[:4]
    assert kept == [0, 2]
    assert isinstance(prepared, EncoderPreparation)
    assert torch.allclose(features, prepared.reduce(whole[[0, 2]]), atol=1e-6)
    assert "1.png" in findings[0].text
    with pytest.raises(InputError, match=r"1\.png"):
        prepared(paths)
