"""Encoders that are trained in part: what changes, resumes exactly, is saved, and is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

import softmatch
from softmatch.config import make_config
from softmatch.data import Examples
from softmatch.data.batches import Batches, LengthSampler, Sampler
from softmatch.data.preparations.text_preparations import fit_tokens
from softmatch.errors import InputError
from softmatch.runs.folder import RunFolder
from softmatch.runs.model import load_model
from softmatch.training.loop import Trainer
from softmatch.training.setup import effective
from softmatch.training.task import Task
from tests.prepared import copied_state, prepare_examples, same_state, small_task, trainer_of
from tests.tiny_encoder import WORDS, make_resnet, make_text_encoder

QUICK: dict[str, Any] = {
    "steps": 4,
    "evaluate_every": 2,
    "labeled_batch": 4,
    "unlabeled_batch": 6,
    "optimizer": "adamw",
    "lr": 0.01,
    "batch_statistics": "separate",
    "threads": 1,
}


def _texts(number: int) -> list[str]:
    """Of one to twelve words; every other one is about a cat."""
    draws = torch.randint(4, 10, (number, 12), generator=torch.Generator().manual_seed(0)).tolist()
    return [" ".join([("dog", "cat")[row % 2], *(WORDS[word] for word in draws[row][: row % 12])]) for row in range(number)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_text_encoder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def examples(encoder: Path) -> Examples:
    texts = _texts(60)
    versions = [[" ".join(reversed(text.split())) for text in texts], [f"{text} mat" for text in texts]]
    preparation = fit_tokens([texts, *versions], "text", str(encoder))
    items, augmented = preparation(texts), torch.stack([preparation(column) for column in versions], 1)
    return Examples(items, torch.arange(60) % 2, ("dog", "cat"), "text", preparation=preparation, augmented=augmented)


def _task(examples: Examples, encoder: Path, **settings: Any) -> Task:
    config = make_config(QUICK, {"network": f"encoder={encoder}", "labels": 8}, settings)
    return prepare_examples("texts", config, examples)


def _trainer(examples: Examples, encoder: Path, **settings: Any) -> Trainer:
    return trainer_of(_task(examples, encoder, **settings))


@pytest.mark.parametrize(
    ("settings", "trained"),
    [({"tuned_layers": 1}, (".layer.1.", "head.")), ({"tuned_layers": 0}, ("head.",)), ({"lora": 2}, ("lora_", "head."))],
)
def test_a_step_changes_what_is_trained_and_nothing_else(
    settings: dict[str, Any], trained: tuple[str, ...], examples: Examples, encoder: Path
) -> None:
    trainer = _trainer(examples, encoder, **settings, weight_decay=0.1)
    before = {name: value.clone() for name, value in trainer.network.state_dict().items()}
    trainer.advance()
    trainer.advance()
    for network in (trainer.network, trainer.average.network):
        changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
        wanted = {name for name in before if any(part in name for part in trained)}
        assert {name for name in wanted if "key.bias" not in name} <= changed <= wanted  # attention does not depend on that
    kept = {name.removeprefix("average.") for name in trainer.state() if name.startswith("average.")}
    assert kept == wanted, "what stays as it is has no second copy"


@pytest.mark.parametrize(
    "settings",
    [
        {"lora": 2, "layer_decay": 0.5},
        {"tuned_layers": 1, "head": "gelu", "warmup": 3},
        {"lora": 2, "method": "meta_pseudo_labels"},
        {"tuned_layers": 0, "length_buckets": 2, "method": "flexmatch", "views": {"replace": 0.3, "span": 0.2, "swap": 0.2}},
    ],
)
def test_training_resumes_exactly_from_its_state(settings: dict[str, Any], examples: Examples, encoder: Path) -> None:
    whole = _trainer(examples, encoder, **settings)
    records = [{**record, "seconds": 0} for record in whole.run()]
    first = _trainer(examples, encoder, **settings)
    next(first.run())
    state = copied_state(first)
    torch.manual_seed(99)  # a restarted process has another global state
    second = _trainer(examples, encoder, **settings)
    second.load_state(2, state)
    assert [{**record, "seconds": 0} for record in second.run()] == records
    assert same_state(whole, second)


def test_a_run_with_adapters_leaves_a_plain_model(encoder: Path, tmp_path: Path) -> None:
    rows = [f"{text},{('dog', 'cat')[row % 2] if row < 52 else ''}" for row, text in enumerate(_texts(60))]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows[12:]]))
    (tmp_path / "test.csv").write_text("\n".join(["text,label", *rows[:12]]))
    settings: dict[str, Any] = {**QUICK, "encoder": str(encoder), "tune": "all", "test": tmp_path / "test.csv"}
    run = softmatch.train(tmp_path / "t.csv", **settings, lora=2, head="gelu", layer_decay=0.7, out=tmp_path / "run").run
    assert RunFolder(run).baseline().records()[-1]["step"] == 4
    model = load_model(run)
    assert not any("lora" in name for name in model.network.state_dict())
    assert model.network.hidden.weight.shape == (16, 16)  # type: ignore[union-attr]  # of the head with a hidden layer
    assert model.samples is not None
    assert model.samples.dtype == torch.int64, "as models always had them"
    assert model.predict(["the cat sat", "a dog ran"]) != []
    assert torch.allclose(model.predict_proba(model.samples).sum(1), torch.ones(len(model.samples)))


def test_unlabelled_batches_are_of_similar_lengths(examples: Examples, encoder: Path) -> None:
    for settings, kind, shown in (
        ({}, LengthSampler, 50),
        ({"length_buckets": 1}, Sampler, 1),
        ({"length_buckets": 3}, LengthSampler, 3),
    ):
        task = _task(examples, encoder, **settings)
        trainer = trainer_of(task)
        assert isinstance(trainer.batches, Batches)
        sampler = trainer.batches.roles["unlabeled"].sampler
        assert type(sampler) is kind
        assert effective(task)["length_buckets"] == shown
        assert type(trainer.batches.roles["labeled"].sampler) is Sampler
    assert isinstance(sampler, LengthSampler)
    assert torch.equal(sampler.lengths, (examples.items != 0).sum(1)[task.split.unlabeled])
    assert effective(small_task())["length_buckets"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lora": 8}, "--lora is for a pretrained encoder that is trained, and the network here is 'small-conv'"),
        ({"lora": 8, "encoder": "some/encoder"}, r"the network here is 'small-conv'\. Leave it out, or give --tune"),
        ({"tuned_layers": 0}, "--tuned-layers is for a pretrained encoder"),
        ({"head": "gelu"}, "--head is for a pretrained encoder"),
        ({"layer_decay": 0.9}, "--layer-decay is for a pretrained encoder"),
        ({"head_rate": 9.0}, "--head-rate is for a pretrained encoder"),
        ({"length_buckets": 5}, "--length-buckets is for texts"),
        ({"warmup": 801}, r"--warmup 801 is more than the 800 steps\. Give fewer"),
        ({"warmup": 401, "method": "crest"}, "--warmup 401 is more than the 400 steps in each of 2 generations"),
    ],
)
def test_settings_that_other_networks_have_no_use_for_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        trainer_of(small_task("digits", **{"steps": 800, **settings}))


def test_the_rate_of_the_head_reaches_the_optimiser(examples: Examples, encoder: Path) -> None:
    trainer = _trainer(examples, encoder, head_rate=8.0, lr=0.25)
    head = {id(parameter) for parameter in trainer.network.head.parameters()}  # type: ignore[union-attr]  # of an encoder
    found = {group["lr"] for group in trainer.optimizer.param_groups if {id(p) for p in group["params"]} & head}
    assert found == {2.0}


def test_warm_up_reaches_the_steps() -> None:
    trainer = trainer_of(small_task("digits", steps=10, warmup=4, lr=0.5, network="small-conv-4"))
    rates = []
    for _ in range(2):
        trainer.advance()
        rates.append({group["lr"] for group in trainer.optimizer.param_groups})
    assert rates == [{0.125}, {0.25}]
    assert [trainer.factor(step) for step in (3, 4)] == [1.0, 1.0]


def test_settings_that_exclude_each_other_or_ask_for_too_much_are_refused(
    examples: Examples, encoder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="exclude each other"):
        _task(examples, encoder, lora=2, tuned_layers=1)
    with pytest.raises(InputError, match="this encoder has 2"):
        _task(examples, encoder, tuned_layers=9)
    pictures = Examples(torch.zeros(8, 3, 8, 8, dtype=torch.uint8), torch.arange(8) % 2, ("a", "b"), "image")
    with pytest.raises(InputError, match="--length-buckets is for texts"):
        _task(pictures, make_resnet(tmp_path), length_buckets=4, labels=4)
