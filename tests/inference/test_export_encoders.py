"""Exported graphs contain the encoder: token ids or pixels in, probabilities out, run by examples that need nothing of ours."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import softmatch
from softmatch.data.preparations.encoder_features import EncoderPreparation
from softmatch.encoders.encoder_folder import TextReading, take_fingerprint
from softmatch.inference.export import export
from softmatch.inference.graphs import Samples
from softmatch.networks import build_network
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import Model, load_model, save_model, set_temperature
from softmatch.views import VectorViews
from tests.inference.test_export import load_script
from tests.own.sources import write_csv
from tests.refusals import refused
from tests.tiny_encoder import add_sentence_settings, make_resnet, make_text_encoder, make_vit

EXAMPLES = Path(__file__).parents[2] / "examples"
ALONE = """
import json, runpy, sys
found = runpy.run_path(sys.argv[1])["classify"](sys.argv[2], sys.argv[3:])
assert not {"softmatch", "torch", "transformers", "onnx", "safetensors"} & set(sys.modules)
print(json.dumps(found.tolist()))
"""
QUICK: dict[str, Any] = {"steps": 2, "baseline": False, "evaluation": "none", "device": "cpu", "precision": "float32"}
TEXTS = ["cat", "The BIRD ran on the tree", "", "how much is it ? " * 5, "unseen words"]


def run_alone(example: str, model: Path, inputs: list[str]) -> tuple[Tensor, str]:
    """Probabilities and the lines that are printed by an example, in a process of its own."""
    command = [sys.executable, "-c", ALONE, str(EXAMPLES / example), str(model), *inputs]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    *said, last = done.stdout.splitlines()
    return torch.tensor(json.loads(last)), "\n".join(said)


def text_table(path: Path) -> Path:
    rows = [("cat dog bird", "a"), ("the tree mat", "b")] * 6 + [("bird cat", ""), ("tree", ""), ("the cat sat on it", "")] * 4
    return write_csv(path, rows, ("text", "label"))


@pytest.mark.parametrize("tuned", [False, True])
def test_texts_need_a_tokenizer_and_a_runtime(tmp_path: Path, tuned: bool) -> None:
    import onnxruntime

    encoder, run = make_text_encoder(tmp_path / "encoder"), tmp_path / "run"
    add_sentence_settings(encoder, "mean" if tuned else "cls")
    softmatch.train(str(text_table(tmp_path / "t.csv")), encoder=str(encoder), tune="all" if tuned else "head", out=run, **QUICK)
    set_temperature(RunFolder(run), 0.7)
    model = load_model(run)
    expected = model.predict_proba(model.preparation(TEXTS))
    if tuned:
        shutil.rmtree(encoder)
    found = export(run, "onnx", tmp_path / "m.onnx")
    assert found.difference < 1e-5
    assert found.samples == (16 if tuned else 24)
    assert [path.name for path in found.files] == ["m.onnx", "m.onnx.tokenizer.json", "m.onnx.json"]
    session = onnxruntime.InferenceSession(found.path, providers=["CPUExecutionProvider"])
    shape = ["batch", "length"]
    taken = [(each.name, each.shape, each.type) for each in session.get_inputs()]
    assert taken == [("input_ids", shape, "tensor(int64)"), ("attention_mask", shape, "tensor(int64)")]
    about = json.loads((tmp_path / "m.onnx.json").read_text(encoding="utf-8"))
    assert about == json.loads(session.get_modelmeta().custom_metadata_map["softmatch"])
    assert [about[key]["name"] for key in ("input", "mask", "output")] == ["input_ids", "attention_mask", "probabilities"]
    assert about["text"] == {"tokenizer": "m.onnx.tokenizer.json", "prefix": "", "lower": False, "length": 7 if tuned else 8}
    shutil.rmtree(run)
    probs, said = run_alone("onnx_texts.py", found.path, TEXTS)
    assert torch.allclose(probs, expected, atol=1e-5)
    best = int(expected[0].argmax())
    assert said.splitlines()[0].split() == [f"{float(expected[0, best]):.1%}", "ab"[best], "cat"]
    mask, ids = np.array([[1, 1, 1, 0, 0]]), (np.array([[2, 6, 3, 9, 9]]), np.array([[2, 6, 3, 0, 0]]))
    one, other = (session.run(None, {"input_ids": each, "attention_mask": mask})[0] for each in ids)
    assert np.array_equal(one, other)  # what the mask leaves out changes nothing


@pytest.mark.parametrize("make", [make_vit, make_resnet])
def test_images_need_pillow_and_a_runtime(tmp_path: Path, make: Any) -> None:
    encoder, images, run = make(tmp_path / "encoder"), tmp_path / "images", tmp_path / "run"
    noise = np.random.default_rng(0)
    for number in range(16):
        place = images / ("a", "b", "unlabeled", "unlabeled")[number % 4]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(place / f"{number}.png")
    (images / "a" / "broken.png").write_bytes(b"nothing")
    softmatch.train(str(images), encoder=str(encoder), out=run, **QUICK)
    set_temperature(RunFolder(run), 0.7)
    (tmp_path / "damaged").mkdir()
    shutil.copy(images / "a" / "broken.png", tmp_path / "damaged")
    refused("damaged has no samples for the comparison", export, run, "onnx", source=tmp_path / "damaged")
    found = export(run, "onnx", tmp_path / "m.onnx")
    assert found.difference < 1e-5
    assert found.samples == 16
    assert [path.name for path in found.files] == ["m.onnx", "m.onnx.json"]
    assert f"It includes the encoder {encoder}" in found.begins
    about = json.loads((tmp_path / "m.onnx.json").read_text(encoding="utf-8"))
    side = 16 if make is make_vit else 32
    assert (about["input"]["type"], about["input"]["shape"]) == ("uint8", ["batch", 3, side, side])
    assert about["how_to_use"][-1].startswith("Encoder, normalisation")
    clear = tmp_path / "clear.png"
    Image.fromarray(noise.integers(0, 256, (40, 40, 4), dtype=np.uint8)).save(clear)
    Image.fromarray(noise.integers(0, 256, (40, 30), dtype=np.uint8)).save(tmp_path / "grey.png")
    Image.fromarray(noise.integers(0, 256, (300, 400, 3), dtype=np.uint8)).save(tmp_path / "large.jpg")
    files = [clear, tmp_path / "grey.png", tmp_path / "large.jpg", images / "a" / "0.png"]
    expected = load_model(run).predict_proba(files)
    probs, said = run_alone("onnx_images.py", found.path, [str(path) for path in files])
    assert torch.allclose(probs, expected, atol=1e-5)
    assert said.splitlines()[-1].endswith("0.png")


def text_model(folder: Path, encoder: Path, reading: TextReading) -> Path:
    """A run with an untrained model of features of this encoder, and neither samples nor data."""
    folder.mkdir()
    preparation = EncoderPreparation(str(encoder), "text", "text", reading, take_fingerprint(encoder))
    preparation.half = False  # as exported graphs compute
    views = VectorViews([0.1] * 16, [0.5] * 16)
    save_model(RunFolder(folder), Model(build_network("mlp", (16,), 2), views, ("a", "b"), (16,), preparation), "mlp")
    return folder


def test_prefix_and_lower_case_stand_in_the_json(tmp_path: Path) -> None:
    encoder = make_text_encoder(tmp_path / "encoder")
    run = text_model(tmp_path / "run", encoder, TextReading("mean", True, 6, True, "How much "))
    found = export(run, "torchscript", source=text_table(tmp_path / "t.csv"))
    about = json.loads((run / "export" / "model.pt.json").read_text(encoding="utf-8"))
    assert about["text"] == {"tokenizer": "model.pt.tokenizer.json", "prefix": "How much ", "lower": True, "length": 6}
    assert about["how_to_use"][:2] == ["Put 'How much ' before each text.", "Convert texts to lower case."]
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(run / "export" / "model.pt.tokenizer.json"))
    encoded = tokenizer.encode_batch([("How much " + text).lower() for text in TEXTS])
    ids, mask = torch.tensor([each.ids for each in encoded]), torch.tensor([each.attention_mask for each in encoded])
    assert ids.shape == (len(TEXTS), 6)
    assert torch.allclose(load_script(found.path)(ids, mask), load_model(run).predict_proba(TEXTS), atol=1e-5)


def test_a_comparison_without_data_asks_for_some(tmp_path: Path) -> None:
    encoder, run, data = make_text_encoder(tmp_path / "encoder"), tmp_path / "run", text_table(tmp_path / "t.csv")
    softmatch.train(str(data), encoder=str(encoder), out=run, **QUICK)
    data.rename(tmp_path / "moved.csv")
    refused(r"cannot be read for the comparison: .*t\.csv.* Give samples with --source", export, run, "torchscript")
    assert export(run, "safetensors").samples == 16  # saved features, no texts
    assert export(run, "torchscript", source=tmp_path / "moved.csv").samples == 24
    (run / "config.yaml").unlink()
    refused(r"there is no settings file .* Give samples with --source", export, run, "torchscript")
    refused("has no rows", export, run, "torchscript", source=write_csv(data, [], ("text", "label")))
    encoder.rename(tmp_path / "elsewhere")
    refused("--encoder-path", export, run, "torchscript", source=tmp_path / "moved.csv")
    assert export(run, "torchscript", source=tmp_path / "moved.csv", encoder_path=tmp_path / "elsewhere").samples == 24


def test_samples_are_cut_to_their_longest_text() -> None:
    ids, mask = torch.tensor([[5, 6, 0, 0], [5, 6, 7, 0]]), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]])
    samples = Samples(ids, (ids, mask))
    assert [tuple(each.shape) for each in samples.first(1)] == [(1, 2), (1, 2)]
    assert [each.tolist() for each in samples.first(2)] == [[[5, 6, 0], [5, 6, 7]], [[1, 1, 0], [1, 1, 1]]]
    empty = Samples(ids[:1], (ids[:1], mask[:1] * 0))
    assert empty.first(1)[0].shape == (1, 1)
    assert [tuple(each.shape) for each in empty.two()] == [(2, 3), (2, 3)]  # of one text without tokens
