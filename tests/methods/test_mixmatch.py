"""MixMatch and ReMixMatch: losses from equations, what learns when, which passes have a gradient, and the rotation task.

Samples are unit vectors, so that what the network is given shows what was mixed with what, and in which share.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import Forward, Method, Problem, build
from softmatch.methods.mixmatch import MixMatch, ReMixMatch, mixmatch, remixmatch
from softmatch.step import Batch
from tests.contracts.examples import assert_same_state, state
from tests.methods.networks import normalised

CLASSES, LABELED, UNLABELED = 3, 2, 3
LABELS = torch.tensor([2, 0])
BOTH = pytest.mark.parametrize("make", [mixmatch, partial(remixmatch, rotation=False)], ids=["mixmatch", "remixmatch"])
Array = np.ndarray[Any, Any]


class Watched(nn.Module):
    """A linear network that remembers what it is given: one entry a pass."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, CLASSES)
        self.passes: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes.append(inputs.detach().clone())
        return self.linear(inputs)


def unit_batch(method: Method) -> Batch:
    """Every sample of every view is another unit vector; the labelled ones come first, then the views in their order."""
    names = method.unlabeled_views
    rows = torch.eye(LABELED + UNLABELED * len(names))
    views = torch.split(rows[LABELED:], UNLABELED)
    return Batch(
        labeled={"weak": rows[:LABELED]},
        labels=LABELS,
        unlabeled=dict(zip(names, views, strict=True)),
        index=torch.arange(UNLABELED),
    )


def size(method: Method) -> int:
    return LABELED + UNLABELED * len(method.unlabeled_views)


def softmax(logits: Tensor) -> Array:
    power = np.exp(logits.detach().double().numpy())
    return power / power.sum(-1, keepdims=True)


def sharpen(probs: Array, temperature: float = 0.5) -> Array:
    power = probs ** (1.0 / temperature)
    return power / power.sum(-1, keepdims=True)


def entropy(target: Array, probs: Array) -> float:
    return float(-(target * np.log(probs)).sum())


def mixed_parts(network: Watched, given: list[Tensor], target: Array) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
    """(goal, prediction) of each labelled and each unlabelled mixed sample, from what the network was given."""
    goals = np.concatenate([np.eye(CLASSES)[LABELS.numpy()], *[target] * ((network.linear.in_features - LABELED) // UNLABELED)])
    labeled, unlabeled = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
    for row in torch.cat(given):
        goal = row.double().numpy() @ goals  # the target is mixed in the same shares as the input
        (labeled if int(row.argmax()) < LABELED else unlabeled).append((goal, softmax(network.linear(row))))
    return labeled, unlabeled


def at(method: MixMatch | ReMixMatch, ramp_updates: int) -> None:
    """As if so many steps had been taken."""
    method.ramp.updates.fill_(ramp_updates)


def test_mixmatch_loss_from_its_equations() -> None:
    """At the second of four steps of the ramp: w = ¼."""
    method = mixmatch(CLASSES, weight=20.0, ramp=0.4, total_steps=10)
    at(method, 1)
    network = Watched(size(method))
    output = method.step(Forward(network, "separate"), unit_batch(method))
    assert [len(given) for given in network.passes] == [3, 3, 2, 3, 3]  # two guesses, then the mixed samples
    probs = (softmax(network.linear(network.passes[0])) + softmax(network.linear(network.passes[1]))) / 2
    target = sharpen(probs)
    labeled, unlabeled = mixed_parts(network, network.passes[2:], target)
    assert (len(labeled), len(unlabeled)) == (2, 6)
    supervised = np.mean([entropy(goal, prediction) for goal, prediction in labeled])
    squared = np.mean([(goal - prediction) ** 2 for goal, prediction in unlabeled])
    assert float(output.supervised_loss) == pytest.approx(supervised, rel=1e-5)
    assert float(output.unsupervised_loss) == pytest.approx(20.0 * 0.25 * squared, rel=1e-5)
    assert float(output.loss.detach()) == pytest.approx(supervised + 20.0 * 0.25 * squared, rel=1e-5)
    assert output.pseudo.labels.tolist() == target.argmax(-1).tolist()
    assert output.pseudo.weights.tolist() == [0.25] * UNLABELED
    np.testing.assert_allclose(output.pseudo.confidence.numpy(), probs.max(-1), rtol=1e-6)


def test_mixmatch_gradient_does_not_pass_through_the_guess() -> None:
    method = mixmatch(CLASSES, total_steps=10)
    at(method, 3)
    network = Watched(size(method))
    method.step(Forward(network), unit_batch(method)).loss.backward()
    found = network.linear.weight.grad
    probs = softmax(network.linear(network.passes[0])).reshape(2, UNLABELED, CLASSES).mean(0)
    goals = torch.from_numpy(np.concatenate([np.eye(CLASSES)[LABELS.numpy()], *[sharpen(probs)] * 2])).float()
    again, mixed = copy.deepcopy(network.linear), network.passes[1]
    again.zero_grad()
    mixed_goals, labeled = mixed @ goals, mixed.argmax(1) < LABELED
    cross = -(mixed_goals * again(mixed).log_softmax(-1)).sum(-1)[labeled].mean()
    squared = (mixed_goals - again(mixed).softmax(-1))[~labeled].square().mean()
    (cross + 75.0 * (3 / 4) * squared).backward()
    torch.testing.assert_close(found, again.weight.grad)


def test_mixmatch_begins_with_the_labelled_loss_alone() -> None:
    method = mixmatch(CLASSES, total_steps=10)
    output = method.step(Forward(Watched(size(method))), unit_batch(method))
    assert float(output.loss.detach()) == float(output.supervised_loss)
    assert output.pseudo.weights.tolist() == [0.0] * UNLABELED
    assert float(method.statistics()["ramp"]) == 0.0
    for _ in range(5):
        method.step(Forward(Watched(size(method))), unit_batch(method))
    assert float(method.statistics()["ramp"]) == 1.0


def test_mixmatch_options_reach_the_method() -> None:
    method = mixmatch(CLASSES, views=3, per_sample=False, temperature=1.0, alpha=0.5, weight=150.0)
    assert method.unlabeled_views == ("weak", "weak_2", "weak_3")
    assert (method.temperature, method.alpha, method.weight) == (1.0, 0.5, 150.0)
    network = Watched(size(method))
    method.step(Forward(network), unit_batch(method))
    shares = network.passes[-1].max(1).values
    assert len(set(shares[shares < 1.0].tolist())) == 1  # of one share; a sample that is its own partner has 1


@BOTH
@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_only_the_mixed_passes_move_the_running_statistics(make: Any, mode: Any) -> None:
    method = make(CLASSES)
    network = normalised(size(method))
    method.step(Forward(network, mode), unit_batch(method)).loss.backward()
    assert int(network[1].num_batches_tracked) == (1 if mode == "joint" else 1 + len(method.unlabeled_views))
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in network.parameters())


@BOTH
def test_networks_that_diverge_are_refused_and_change_no_state(make: Any) -> None:
    method = make(CLASSES)
    before = state(method)
    network = Watched(size(method))
    nn.init.constant_(network.linear.bias, float("nan"))
    with pytest.raises(InputError, match="weak_logits contains NaN"):
        method.step(Forward(network), unit_batch(method))
    assert_same_state(before, state(method))


PRIOR = (0.5, 0.3, 0.2)


def test_remixmatch_loss_from_its_equations() -> None:
    """A queue of two batches; the ramp at ¼, then at ½. The marginal of the second step is the mean of 1/C and of p."""
    method = remixmatch(CLASSES, class_prior=PRIOR, total_steps=80, ramp=0.05, rotation=False)
    at(method, 1)
    network, marginal = Watched(size(method)), np.full(CLASSES, 1 / 3)
    assert method.unlabeled_views == ("weak", "strong", "strong_2")
    for ramp in (0.25, 0.5):
        network.passes.clear()
        batch = unit_batch(method)
        output = method.step(Forward(network, "separate"), batch)
        assert [len(given) for given in network.passes] == [3, 2, 3, 3, 3, 3]  # guess, mixed samples, Ω₁
        probs = softmax(network.linear(network.passes[0]))
        scaled = probs * (np.array(PRIOR) + 1e-6) / (marginal + 1e-6)
        target = sharpen(scaled / scaled.sum(-1, keepdims=True))
        labeled, unlabeled = mixed_parts(network, network.passes[1:5], target)
        assert (len(labeled), len(unlabeled)) == (2, 9)
        assert torch.equal(network.passes[5], batch.unlabeled["strong"])
        strong = softmax(network.linear(network.passes[5]))
        supervised = np.mean([entropy(goal, prediction) for goal, prediction in labeled])
        mixed = np.mean([entropy(goal, prediction) for goal, prediction in unlabeled])
        unmixed = np.mean([entropy(t, q) for t, q in zip(target, strong, strict=True)])
        assert float(output.supervised_loss) == pytest.approx(supervised, rel=1e-5)
        assert float(output.loss.detach()) == pytest.approx(supervised + ramp * (1.5 * mixed + 0.5 * unmixed), rel=1e-5)
        assert output.pseudo.labels.tolist() == target.argmax(-1).tolist()
        assert output.pseudo.weights.tolist() == [ramp] * UNLABELED
        np.testing.assert_allclose(output.pseudo.confidence.numpy(), probs.max(-1), rtol=1e-6)
        marginal = (1 / 3 + probs.mean(0)) / 2 if ramp == 0.25 else probs.mean(0)  # the same p twice: the network rests
        np.testing.assert_allclose(method.statistics()["marginal"].numpy(), marginal, rtol=1e-5)


def test_remixmatch_gradient_of_the_unmixed_view_is_that_of_its_cross_entropy() -> None:
    method = remixmatch(CLASSES, weight=0.0, strong_weight=2.0, rotation=False, total_steps=10)
    at(method, 9)
    network, batch = Watched(size(method)), unit_batch(method)
    method.step(Forward(network, "separate"), batch).loss.backward()
    found = network.linear.weight.grad
    target = sharpen(softmax(network.linear(batch.unlabeled["weak"])))  # uniform prior and marginal: nothing is aligned
    strong = softmax(network.linear(batch.unlabeled["strong"]))
    first = LABELED + UNLABELED  # strong samples are the unit vectors from here on; the labelled loss adds little to them
    labeled = torch.cat(network.passes[1:5])
    untouched = [i for i in range(UNLABELED) if not bool((labeled[labeled.argmax(1) < LABELED][:, first + i] > 0).any())]
    assert untouched
    for i in untouched:
        np.testing.assert_allclose(found[:, first + i].numpy(), 2.0 * (strong[i] - target[i]) / UNLABELED, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("total_steps", "queue", "length"), [(2**20, 128, 128), (2000, 128, 50), (10, 128, 1), (2000, 0, 0)])
def test_queue_is_at_most_a_fortieth_of_the_run(total_steps: int, queue: int, length: int) -> None:
    assert remixmatch(CLASSES, total_steps=total_steps, queue=queue).alignment.queue == length


def test_without_a_queue_the_marginal_is_a_running_average() -> None:
    method = remixmatch(CLASSES, queue=0, momentum=0.9, rotation=False)
    network = Watched(size(method))
    method.step(Forward(network), unit_batch(method))
    expected = 0.9 / 3 + 0.1 * softmax(network.linear(network.passes[0])).mean(0)
    np.testing.assert_allclose(method.statistics()["marginal"].numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["mixmatch:mixmatch", "remixmatch:remixmatch"])
@pytest.mark.parametrize("options", [{"views": 0}, {"alpha": 0.0}, {"temperature": 0.0}, {"weight": -1.0}, {"ramp": 2.0}])
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        build(f"softmatch.methods.{name}", Problem(num_classes=CLASSES), options)


def test_text_is_not_served() -> None:
    assert mixmatch(CLASSES).kinds == remixmatch(CLASSES).kinds == ("image", "vector")
