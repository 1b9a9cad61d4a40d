"""What every method promises the training loop, whatever it needs: real trainers on images and on vectors."""

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest
import torch

from softmatch.config import make_config
from softmatch.data import find_source
from softmatch.errors import InputError
from softmatch.methods import METHODS, Problem, read_card
from softmatch.step import Output
from softmatch.training.loop import Trainer
from softmatch.training.setup import build_method, make_trainer
from tests.contracts.examples import assert_same_state, state
from tests.prepared import prepare

WRAPPERS = ("influence", "semireward", "darp", "crest", "crest_plus", "abc", "cossl", "saw", "adsh")
BASES = ("softmatch", "flexmatch", "adamatch", "uda")
REFUSED = {("saw", "adamatch"): "labelled loss of its own"}
"""Bases that a wrapper cannot go around, and what it says."""
STEPS = 30
LOW = {"threshold": 0.2}
EARLY: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("fixmatch", "flexmatch", "uda", "debiaspl", "sequencematch", "abc", "simmatch"), LOW),
    "comatch": {**LOW, "memory": 2, "graph_threshold": 0.1},
    "cgmatch": {"history": 1, "warmup": 1},
    "dash": {"warmup": 2, "every": 2},
    "meta_pseudo_labels": {**LOW, "finetune": 0.25, "baseline": 0.5},
    "influence": {"every": 2, "base_options": LOW},
    "semireward": {"warmup": 2, "every": 2, "base_options": LOW},
    "darp": {"warmup": 0.0, "every": 3, "base_options": LOW},
    "saw": {"every": 2},
    "cossl": {"teach_from": 0.3, "base_options": LOW},
}
"""Options with which every term of a method has set in after a few steps."""


def make(source: str, method: str, **settings: Any) -> Trainer:
    base = {"steps": STEPS, "unlabeled_batch": 24, "labeled_batch": 20, "threads": 1, "labels": 20, "method": method}
    if source == "digits":
        base |= {"network": "small-conv-4"}
    config = make_config(find_source(source).defaults, base, settings)
    task = prepare(source, config)
    return make_trainer(task, build_method(task, method))


def outputs(trainer: Trainer, number: int) -> list[Output]:
    """Of the first steps; every output is looked at as it comes."""
    found, step = [], trainer.method.step

    def noted(*arguments: Any) -> Output:
        found.append(step(*arguments))
        return found[-1]

    trainer.method.step = noted  # type: ignore[method-assign]  # to see what the loop is given
    for _ in range(number):
        trainer.advance()
    return found


def check(found: list[Output], classes: int, batch: int) -> None:
    for output in found:
        assert output.loss.shape == ()
        assert output.loss.dtype == torch.float32
        assert bool(torch.isfinite(output.loss))
        for part in (output.supervised_loss, output.unsupervised_loss):
            assert part is None or (not part.requires_grad and bool(torch.isfinite(part)))
        if output.pseudo is None:
            continue
        pseudo = output.pseudo
        for value in (pseudo.labels, pseudo.weights, pseudo.unaligned_weights, pseudo.confidence):
            assert value.shape == (batch,)
            assert not value.requires_grad
        assert 0 <= int(pseudo.labels.min()) <= int(pseudo.labels.max()) < classes
        assert pseudo.confidence.dtype == pseudo.weights.dtype == torch.float32
        assert float(pseudo.weights.min()) >= 0.0
        assert 0.0 <= float(pseudo.confidence.min()) <= float(pseudo.confidence.max()) <= 1.0 + 1e-5


@pytest.mark.parametrize("statistics", ["joint", "separate"])
@pytest.mark.parametrize("method", METHODS)
def test_it_trains_on_images(method: str, statistics: str) -> None:
    trainer = make("digits", method, batch_statistics=statistics, steps=12, method_options=EARLY.get(method, {}))
    before = [p.detach().clone() for p in trainer.network.parameters()]
    check(outputs(trainer, 12), 10, 24)
    assert all(bool(torch.isfinite(value.float()).all()) for value in trainer.state().values())
    own = [p for name, p in trainer.network.named_parameters() if not name.startswith("heads.")]
    assert sum(not torch.equal(a, b) for a, b in zip(before, trainer.network.parameters(), strict=True)) >= len(own)
    assert (method == "supervised") == (trainer.method.unlabeled_views == ())


@pytest.mark.parametrize("method", METHODS)
def test_it_trains_on_vectors(method: str) -> None:
    check(outputs(make("two-moons", method), STEPS), 2, 24)


@pytest.mark.parametrize("method", METHODS)
def test_it_trains_in_half_precision(method: str) -> None:
    check(outputs(make("digits", method, precision="bf16"), 6), 10, 24)


@pytest.mark.parametrize("method", METHODS)
def test_every_part_of_the_network_gets_a_gradient(method: str) -> None:
    """Late in the run, when every term has set in; a head that gets none would be dead weight (and break data parallelism)."""
    trainer, seen = make("two-moons", method, labels=40, labeled_batch=40), set[str]()
    zero = trainer.optimizer.zero_grad

    def note(*arguments: Any, **options: Any) -> None:
        seen.update(name for name, p in trainer.network.named_parameters() if p.grad is not None and bool(p.grad.abs().sum() > 0))
        zero(*arguments, **options)

    for _ in range(STEPS):
        trainer.advance()
        zero = type(trainer.optimizer).zero_grad.__get__(trainer.optimizer)
        trainer.optimizer.zero_grad = note  # type: ignore[method-assign]  # to look at the gradients before they go
    assert seen == {name for name, _ in trainer.network.named_parameters()}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_goes_around_any_match_method(wrapper: str, base: str) -> None:
    if (wrapper, base) in REFUSED:
        with pytest.raises(InputError, match=REFUSED[wrapper, base]):
            make("two-moons", f"{wrapper}+{base}")
        return
    trainer = make("two-moons", f"{wrapper}+{base}")
    assert set(make("two-moons", base).method.unlabeled_views) <= set(trainer.method.unlabeled_views)
    check(outputs(trainer, STEPS), 2, 24)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_refuses_what_is_no_match_method(wrapper: str) -> None:
    with pytest.raises(InputError, match="goes around a match method"):
        make("two-moons", f"{wrapper}+supervised")


@pytest.mark.parametrize("method", METHODS)
def test_a_step_in_evaluation_mode_changes_no_state(method: str) -> None:
    trainer = make("two-moons", method)
    for _ in range(STEPS // 2):
        trainer.advance()
    trainer.method.eval()
    trainer.network.eval()
    before = state(trainer.method)
    trainer.method.step(trainer.forward, trainer.batches(3))
    assert_same_state(before, state(trainer.method))


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_equals_the_uninterrupted_one(method: str) -> None:
    def run(steps: int, trainer: Trainer) -> dict[str, torch.Tensor]:
        for _ in range(steps):
            trainer.advance()
        return {name: value.clone() for name, value in trainer.state().items()}

    def fresh() -> Trainer:
        return make("two-moons", method, steps=10, method_options=EARLY.get(method, {}))

    whole, saved = run(10, fresh()), run(5, fresh())
    torch.manual_seed(99)  # a restarted process has another global state
    resumed = fresh()
    resumed.load_state(5, saved)
    assert_same_state(whole, run(5, resumed))


@pytest.mark.parametrize("method", METHODS)
def test_statistics_can_be_logged(method: str) -> None:
    trainer = make("two-moons", method)
    for _ in range(3):
        trainer.advance()
    record = trainer._record()
    assert all(value is not None for value in record["statistics"].values())
    if trainer.method.unlabeled_views:
        assert record["quantity"] >= 0.0


@pytest.mark.parametrize("method", METHODS)
def test_its_card_says_what_the_builder_takes(method: str) -> None:
    """Its six sections are there; every option of its table exists, and every option of the builder is in the table."""
    card = read_card(method)
    for section in ("Idea", "Formula", "When to use it", "Options", "What differs", "Measured"):
        assert f"\n## {section}\n" in card, section
    assert card.startswith("# ")
    assert f"(`{method}`)" in card.splitlines()[0]
    table = card.partition("\n## Options\n")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE))
    given = {"base_options", *(field.name for field in fields(Problem))}
    assert ("base_options" in told) == METHODS[method].wraps
    assert told - given == set(inspect.signature(METHODS[method].builder).parameters) - given
