"""MixMatch and ReMixMatch: mixup, losses from their equations, the rotation task."""

import copy
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods import Forward, Method, mixmatch, remixmatch
from softmatch.methods.forward import Encoded
from softmatch.methods.mixmatch import (
    MixMatch,
    ReMixMatch,
    blend,
    mixed_logits,
    mixing_shares,
    mixup,
    quarter_turns,
    ramp_steps,
    view_names,
)
from softmatch.networks.heads import Headed
from softmatch.step import Batch
from tests.contracts.examples import assert_same_state, state
from tests.methods.networks import batch, normalised

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


def test_text_is_not_served() -> None:
    assert mixmatch(CLASSES).kinds == remixmatch(CLASSES).kinds == ("array", "image", "series", "vector")


def test_shares_are_those_of_the_larger_part() -> None:
    """max(λ, 1 − λ) of a uniform λ = Beta(1, 1) is uniform in ½ … 1: mean ¾, variance 1/48."""
    share = mixing_shares(20_000, alpha=1.0)
    assert share.shape == (20_000,)
    assert 0.5 <= float(share.min()) < 0.51
    assert 0.99 < float(share.max()) <= 1.0
    assert float(share.mean()) == pytest.approx(0.75, abs=0.005)
    assert float(share.var()) == pytest.approx(1 / 48, abs=0.001)


def test_alpha_is_that_of_the_beta_distribution() -> None:
    """E[(λ − ½)²] of Beta(α, α) is 1 / (4(2α + 1)), and so it is of max(λ, 1 − λ)."""
    for alpha in (0.5, 0.75, 4.0):
        spread = (mixing_shares(20_000, alpha) - 0.5).square().mean()
        assert float(spread) == pytest.approx(1 / (4 * (2 * alpha + 1)), abs=0.004)


def test_one_share_for_the_whole_batch() -> None:
    share = mixing_shares(6, 0.75, per_sample=False)
    assert share.shape == (6,)
    assert len(set(share.tolist())) == 1
    assert len(set(mixing_shares(6, 0.75).tolist())) == 6


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 1, 2, 2)])
def test_blend_takes_each_row_in_its_own_share(shape: tuple[int, ...]) -> None:
    mixed = blend(torch.full(shape, 4.0), torch.full(shape, -2.0), torch.tensor([1.0, 0.75]))
    assert mixed.shape == shape
    torch.testing.assert_close(mixed[0], torch.full(shape[1:], 4.0))
    torch.testing.assert_close(mixed[1], torch.full(shape[1:], 2.5))


def test_inputs_and_targets_are_mixed_with_the_same_partner_in_the_same_share() -> None:
    """Of inputs that name their sample, the mixed ones show partner and share."""
    own = torch.eye(8)
    inputs, targets = mixup(own.reshape(8, 2, 2, 2), own.clone(), alpha=0.75)
    assert torch.equal(inputs.reshape(8, 8), targets)
    torch.testing.assert_close(targets.sum(1), torch.ones(8))
    assert float(targets.diagonal().min()) >= 0.5
    others = targets - torch.diag(targets.diagonal())
    assert int((others > 0).sum(1).max()) == 1  # one partner
    assert int((others > 0).sum(0).max()) == 1  # and each sample is the partner of one at most
    assert float(others.max()) > 0.0


class Recorder(nn.Module):
    """Gives back what it is given, and remembers it: one entry a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes.append(inputs.detach().clone())
        return inputs


def test_logits_come_back_in_the_order_of_the_views() -> None:
    views = list(torch.split(torch.eye(9), [2, 3, 4]))
    logits, targets = mixed_logits(Forward(Recorder()), views, views, alpha=0.75)
    torch.testing.assert_close(logits, targets)
    assert torch.equal(targets.argmax(1), torch.arange(9))


def test_passes_are_as_large_as_the_views_and_draw_from_all_of_them() -> None:
    network, views = Recorder(), list(torch.split(torch.eye(60), 20))
    mixed_logits(Forward(network, "separate"), views, views, alpha=0.75)
    assert [len(part) for part in network.passes] == [20, 20, 20]
    for part in network.passes:
        origin = part.argmax(1) // 20
        assert set(origin.tolist()) == {0, 1, 2}
    assert sorted(torch.cat(network.passes).argmax(1).tolist()) == list(range(60))


def test_names_of_independent_views() -> None:
    assert view_names("weak", 1) == ("weak",)
    assert view_names("strong", 3) == ("strong", "strong_2", "strong_3")


@pytest.mark.parametrize(("total", "ramp", "steps"), [(2**20, None, 2**14), (1000, None, 400), (1, None, 1), (200, 0.1, 20)])
def test_the_ramp_is_the_authors_where_the_run_is_long_enough(total: int, ramp: float | None, steps: int) -> None:
    assert ramp_steps(total, ramp) == steps


ROTATION_CLASSES = 3


def test_quarter_turns_are_of_each_image_alone() -> None:
    images, turns = torch.arange(8.0 * 2 * 9).reshape(8, 2, 3, 3), torch.tensor([0, 3, 1, 2, 2, 0, 1, 3])
    given = images.clone()
    turned = quarter_turns(images, turns)
    assert torch.equal(images, given)
    for image, result, number in zip(images, turned, turns.tolist(), strict=True):
        np.testing.assert_array_equal(result.numpy(), np.rot90(image.numpy(), number, axes=(1, 2)))


class Small(nn.Module):
    """Features and a head, for images of 4×4 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh())
        self.head = nn.Linear(5, ROTATION_CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))


class WatchedForward(Forward):
    """Remembers what was encoded."""

    def encode(self, *views: Tensor, gradient: tuple[bool, ...] | None = None, tracking: bool = True) -> list[Encoded]:
        assert not tracking
        self.encoded = views
        return super().encode(*views, gradient=gradient, tracking=tracking)


def turns_of(turned: Tensor, images: Tensor) -> list[int]:
    """By how many quarters each image was turned."""
    pairs = zip(turned, images, strict=True)
    found = [[n for n in range(4) if torch.equal(result, torch.rot90(image, n, (1, 2)))] for result, image in pairs]
    assert all(len(numbers) == 1 for numbers in found)
    return [numbers[0] for numbers in found]


def test_turns_are_drawn_for_each_image_alone_and_are_the_labels() -> None:
    method = remixmatch(ROTATION_CLASSES, shape=(1, 4, 4))
    network = Headed(Small(), method.heads(5))
    forward, images = WatchedForward(network), torch.randn(64, 1, 4, 4)
    loss = method.rotation_loss(forward, images)
    turns = turns_of(forward.encoded[0], images)
    assert set(turns) == set(turns[:32]) == {0, 1, 2, 3}
    logits = network.heads["rotation"](network.features(forward.encoded[0]))
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, torch.tensor(turns)))


def test_rotation_loss_is_not_ramped_and_trains_its_head_on_turned_strong_views() -> None:
    method = remixmatch(ROTATION_CLASSES, shape=(1, 4, 4))
    network = Headed(Small(), method.heads(5))
    rotation = network.heads["rotation"]
    assert (rotation.in_features, rotation.out_features) == (5, 4)
    nn.init.zeros_(rotation.weight)
    nn.init.zeros_(rotation.bias)
    forward, data = WatchedForward(network), batch("weak", "strong", "strong_2", size=3, inputs=(1, 4, 4))
    output = method.step(forward, data)
    (turned,) = forward.encoded
    turns_of(turned, data.unlabeled["strong"])
    assert float(output.unsupervised_loss) == pytest.approx(0.5 * math.log(4), rel=1e-6)  # a head of zeros, the ramp at 0
    assert float(output.loss.detach()) == pytest.approx(float(output.supervised_loss) + 0.5 * math.log(4), rel=1e-6)
    output.loss.backward()
    assert float(rotation.weight.grad.abs().sum()) > 0


def test_the_rotation_task_reaches_the_features() -> None:
    method = remixmatch(ROTATION_CLASSES, shape=(1, 4, 4))
    network = Headed(Small(), method.heads(5))
    method.rotation_loss(Forward(network), torch.randn(6, 1, 4, 4)).backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in network.network.body.parameters())  # type: ignore[union-attr]  # a module
    assert network.network.head.weight.grad is None  # type: ignore[union-attr]  # a linear layer


SQUARE = {"shape": (3, 8, 8)}
OTHERS = ({**SQUARE, "rotation": False}, {"shape": (3, 8, 6)}, {"shape": (8,), "kind": "vector"}, {})


@pytest.mark.parametrize(("given", "rotates"), [(SQUARE, True), ({"rotation": True}, True), *((each, False) for each in OTHERS)])
def test_rotation_is_for_square_images(given: dict[str, Any], rotates: bool) -> None:
    method = remixmatch(ROTATION_CLASSES, **given)
    assert method.needs_features is rotates
    assert bool(method.heads(5)) is rotates


@pytest.mark.parametrize(
    ("given", "says"),
    [({"shape": (3, 8, 6)}, "not images of 8×6 pixels"), ({"kind": "vector", "shape": (8,)}, "not items of kind 'vector'")],
)
def test_rotation_of_what_cannot_be_turned_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        remixmatch(ROTATION_CLASSES, rotation=True, **given)
