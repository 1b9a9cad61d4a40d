"""The last layers of an encoder, trained on cached activations: texts, images, everything that comes after training."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import softmatch
from softmatch.classifier import Classifier
from softmatch.config import make_config
from softmatch.data import Examples
from softmatch.data.preparations.text_preparations import fit_tokens
from softmatch.errors import InputError
from softmatch.inference.export import export
from softmatch.inference.predict import predict
from softmatch.inference.pseudo_labels import write_pseudo_labels
from softmatch.inference.suggest import suggest
from softmatch.networks import Tuning, build_network
from softmatch.runs.model import load_model
from softmatch.training import activations
from softmatch.training.bench import plan
from softmatch.training.opening import Job
from softmatch.training.task import Task
from softmatch.views import TextViews
from softmatch.views.activation_views import ActivationViews
from tests.own.sources import write_csv
from tests.prepared import copied_state, prepare_examples, same_state, trainer_of
from tests.tiny_encoder import WORDS, make_resnet, make_text_encoder, make_vit

QUICK: dict[str, Any] = {"steps": 4, "evaluate_every": 2, "labeled_batch": 4, "unlabeled_batch": 6, "threads": 1, "lr": 0.01}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOFTMATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("bert"))


def _texts(number: int) -> list[str]:
    draws = torch.randint(4, 10, (number, 12), generator=torch.Generator().manual_seed(0)).tolist()
    return [" ".join([("dog", "cat")[row % 2], *(WORDS[word] for word in draws[row][: row % 12])]) for row in range(number)]


def _examples(encoder: Path, number: int = 40) -> Examples:
    texts = _texts(number)
    versions = [f"{text} mat" for text in texts]
    preparation = fit_tokens([texts, versions], "text", str(encoder))
    items, augmented = preparation(texts), preparation(versions)[:, None]
    labels, classes = torch.arange(number) % 2, ("dog", "cat")
    test = Examples(items[:10], labels[:10], classes, "text")
    return Examples(items, labels, classes, "text", test=test, preparation=preparation, augmented=augmented)


def _task(examples: Examples, encoder: Path, **settings: Any) -> Task:
    chosen = {"network": f"encoder={encoder}", "labels": 8, "tune": "last-1", "optimizer": "adamw"}
    return prepare_examples("items", make_config(QUICK, chosen, settings), examples)


def test_the_rows_of_a_task_are_the_activations_of_its_items(encoder: Path) -> None:
    examples = _examples(encoder)
    task = _task(examples, encoder)
    assert isinstance(task.views, ActivationViews)
    assert isinstance(task.item_views, TextViews)
    assert task.augmented is not None
    network = build_network(f"encoder={encoder}", task.shape, 2, tuning=Tuning(layers=1, cached=True)).eval()
    with torch.no_grad():
        for rows, items in (
            (task.items, examples.items),
            (task.augmented[:, 0], examples.augmented[:, 0]),  # type: ignore[index]  # there are some
            (task.test[0], examples.items[:10]),
        ):
            assert torch.allclose(network(task.views.plain(rows)), network(items.long()), atol=5e-3)  # type: ignore[arg-type]  # rows
    lengths = (examples.items != 0).sum(1)
    assert torch.equal(task.views.lengths[task.items[:, 0]], lengths), "padding is not stored"  # type: ignore[index]  # rows


def test_only_the_last_layer_and_the_head_are_trained_and_resume_exactly(encoder: Path) -> None:
    examples = _examples(encoder)
    whole = trainer_of(_task(examples, encoder))
    before = {name: value.clone() for name, value in whole.network.state_dict().items()}
    records = [{**record, "seconds": 0} for record in whole.run()]
    changed = {name for name, value in whole.network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(".layer.1." in name or name.startswith("head.") for name in changed)
    first = trainer_of(_task(examples, encoder))
    next(first.run())
    state = copied_state(first)
    torch.manual_seed(99)
    second = trainer_of(_task(examples, encoder))
    second.load_state(2, state)
    assert [{**record, "seconds": 0} for record in second.run()] == records
    assert same_state(whole, second)


def test_activations_are_computed_once_and_after_a_kill_only_what_is_missing(
    encoder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, encode = list[int](), activations._encode

    def counted(network: Any, views: Any, items: torch.Tensor) -> Any:
        passed.append(len(items))
        return encode(network, views, items)

    monkeypatch.setattr(activations, "_encode", counted)
    monkeypatch.setattr(activations, "TEXTS", 16)
    examples, add = _examples(encoder), activations.ActivationCache.add

    def killed(self: Any, contents: Any, made: Any) -> None:
        if len(self):
            raise KeyboardInterrupt
        add(self, contents, made)

    monkeypatch.setattr(activations.ActivationCache, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        _task(examples, encoder)
    monkeypatch.setattr(activations.ActivationCache, "add", add)
    every = {tuple(row) for row in [*examples.items.tolist(), *examples.augmented[:, 0].tolist()]}  # type: ignore[index]  # some
    known = {tuple(row) for row in examples.items[:16].tolist()}
    passed.clear()
    task = _task(examples, encoder)
    assert sum(passed) == 1 + len(every - known), "a trial, and what the first process had not written"
    passed.clear()
    again = _task(replace(examples, labels=1 - examples.labels), encoder)
    assert sum(passed) == 1, "new labels cost nothing"
    assert torch.equal(again.items, task.items)  # type: ignore[arg-type]  # rows
    assert len(list((cache / "activations").iterdir())) == 1


@pytest.mark.parametrize("make", [make_vit, make_resnet])
def test_images_train_and_predict_like_the_whole_encoder(make: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for kind in ("red", "blue", "unlabeled"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(8):
            pixels = draw.integers(0, 256, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{number}.png")
    folder, both = make(tmp_path / "encoder"), {"evaluation": "crossfit", "folds": 2}
    done = softmatch.train(tmp_path / "photos", encoder=str(folder), tune="last-1", out=tmp_path / "run", **both, **QUICK)
    assert done.evaluation["kind"] == "crossfit"
    shutil.rmtree(folder)
    files = sorted((tmp_path / "photos" / "red").iterdir())
    probs = load_model(done.run).predict_proba(files)
    assert torch.allclose(probs.sum(1), torch.ones(8))
    make(tmp_path / "encoder")
    with pytest.raises(InputError, match="method 'remixmatch' changes the items themselves"):
        softmatch.train(tmp_path / "photos", encoder=str(folder), tune="last-1", method="remixmatch", **QUICK)


def test_everything_after_training(encoder: Path, tmp_path: Path) -> None:
    table = write_csv(
        tmp_path / "t.csv",
        [(text, ("dog", "cat")[row % 2] if row < 12 else "", f"{text} tree") for row, text in enumerate(_texts(30))],
        ("text", "label", "aug_0"),
    )
    copy = Path(shutil.copytree(encoder, tmp_path / "encoder"))
    settings = {**QUICK, "evaluation": "none", "views": {"drop": 0.3, "strong_noise": 0.1}}
    run = softmatch.train(table, encoder=str(copy), tune="last-2", out=tmp_path / "run", **settings).run
    model = load_model(run)
    assert isinstance(model.views, TextViews)
    probs = model.predict_proba(_texts(5))
    assert export(run, "onnx").difference < 1e-4
    assert export(run, "torchscript").difference < 1e-4
    assert predict(run, table).samples == 30
    write_pseudo_labels(run)
    suggest(run, 3)
    again = softmatch.train(table, encoder=str(copy), tune="last-2", out=tmp_path / "again", **settings).run
    assert torch.equal(load_model(again).predict_proba(_texts(5)), probs)
    frame = Classifier(encoder=str(copy), tune="last-1", steps=2, labeled_batch=4, unlabeled_batch=4)
    fitted = frame.fit(_texts(12), ["dog", "cat"] * 4 + [None] * 4)
    assert fitted.predict_proba(_texts(3)).shape == (3, 2)


def test_the_cost_is_known_before_anything_is_written(encoder: Path, cache: Path) -> None:
    examples = _examples(encoder)
    config = make_config(QUICK, {"network": f"encoder={encoder}", "labels": 8, "tune": "last-1", "optimizer": "adamw"})
    found = plan(Job("texts", config, examples))
    assert not cache.exists()
    unique = {tuple(token for token in row if token) for row in [*examples.items.tolist(), *examples.augmented[:, 0].tolist()]}  # type: ignore[index]  # some
    assert found.encoding is not None
    assert found.encoding.size == sum(map(len, unique)) * 16 * 2
    assert found.encoding.seconds > 0
    assert found.seconds > found.encoding.seconds
    _task(examples, encoder)
    known = plan(Job("texts", config, examples)).encoding
    assert known is not None
    assert (known.size, known.seconds) == (0, 0.0)
    assert (cache / "activations" / known.folder.name / "values.f16").stat().st_size == found.encoding.size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tune": "last-3"}, r"--tune last-3: this encoder has 2 layers\. Give fewer, or --tune all"),
        ({"tune": "last-1", "compile": True}, "--compile does not work with --tune last-1"),
        ({"tune": "last-1", "lora": 4}, "exclude each other"),
        ({"tune": "last-1", "tuned_layers": 1}, "--tuned-layers is for --tune all, and this is --tune last-1"),
        ({"tune": "last-1", "network": "mlp"}, "trains the last layers of a pretrained encoder. Leave out --network"),
        ({"tune": "last-1", "views": {"swap": 0.1}}, "views: this kind of data has no option 'swap'"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], message: str, encoder: Path, cache: Path) -> None:
    with pytest.raises(InputError, match=message):
        _task(_examples(encoder), encoder, **settings)


@pytest.mark.parametrize("value", ["last-0", "last", "last--1", "adapters", ""])
def test_an_unknown_part_is_refused(value: str) -> None:
    with pytest.raises(InputError, match=r"tune = .*: it must be head, lora, all, or last-N with N from 1"):
        make_config({"tune": value})


def test_an_encoder_whose_layers_do_not_follow_each_other_is_refused(tmp_path: Path) -> None:
    from transformers import AlbertConfig, AlbertModel

    folder = make_text_encoder(tmp_path / "albert")
    sizes = {"vocab_size": 30, "embedding_size": 8, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    AlbertModel(AlbertConfig(num_hidden_layers=3, **sizes)).save_pretrained(folder)
    with pytest.raises(InputError, match=r"--tune last-1: the layers of encoder .* Use --tune lora, --tune all or --tune head"):
        build_network(f"encoder={folder}", (5,), 2, tuning=Tuning(layers=1, cached=True))
