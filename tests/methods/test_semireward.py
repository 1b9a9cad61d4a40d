"""SemiReward: similarity, networks, both losses by their gradients, what is kept, the two stages, and the saved state."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.methods import fixmatch, pseudo_label, semireward, softmatch, uda
from softmatch.methods.forward import Forward
from softmatch.methods.match import Match
from softmatch.methods.semireward import Generator, Rewarder, SemiReward, similarity
from softmatch.step import Batch
from tests.golden import close
from tests.methods.networks import batch

CLASSES, SIZE = 3, 4
EARLY = {"warmup": 2, "every": 2}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(5, SIZE)
        self.head = nn.Linear(SIZE, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.body(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))


class Given(nn.Module):
    """A rewarder that gives the same rewards to every batch."""

    def __init__(self, rewards: list[float]) -> None:
        super().__init__()
        self.rewards = nn.Parameter(torch.tensor(rewards))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        return self.rewards


def unused(module: nn.Module) -> torch.optim.Optimizer:
    raise AssertionError("rewarder and generator have optimisers of their own")


def begun(network: nn.Module, base: Match | None = None, **options: Any) -> SemiReward:
    method = semireward(CLASSES, base=fixmatch(CLASSES, threshold=0.0) if base is None else base, **options)
    method.begin(network, unused)
    return method


def test_similarity_of_labels() -> None:
    labels = F.one_hot(torch.tensor([0, 1, 2]), 3).float()
    other = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]])
    close(similarity(labels, other), [1.0, 0.5, 0.5 + 0.5 / 2**0.5])


def test_reward_of_a_sample_is_its_own() -> None:
    """Between 0 and 1, and the same whatever else stands in the batch."""
    rewarder = Rewarder(SIZE, CLASSES)
    features, labels = torch.randn(5, SIZE), F.one_hot(torch.tensor([0, 1, 2, 0, 1]), CLASSES).float()
    reward = rewarder(features, labels).detach()
    assert reward.shape == (5,)
    assert 0.0 < float(reward.min()) <= float(reward.max()) < 1.0
    torch.testing.assert_close(rewarder(features[2:3], labels[2:3]).detach(), reward[2:3])


def test_generator_draws_one_hot_labels_with_the_gradient_of_the_softmax() -> None:
    generator, features = Generator(SIZE, CLASSES), torch.randn(2, SIZE)
    noise = torch.tensor([[1.0, 1.0, 1e-4], [1e-4, 1.0, 1.0]])
    drawn = generator(features, noise)
    close(drawn.detach(), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    probs = torch.softmax(generator.perceptron(features), -1)
    parameters = list(generator.parameters())
    direction = torch.randn(2, CLASSES)
    for left, right in zip(
        torch.autograd.grad((drawn * direction).sum(), parameters),
        torch.autograd.grad((probs * direction).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(left, right)


def test_generator_draws_by_its_probabilities() -> None:
    generator, features = Generator(SIZE, CLASSES), torch.randn(1, SIZE).expand(20_000, SIZE)
    drawn = generator(features, torch.empty(20_000, CLASSES).exponential_()).detach().mean(0)
    torch.testing.assert_close(drawn, torch.softmax(generator.perceptron(features[:1]), -1)[0].detach(), atol=0.015, rtol=0)


@pytest.mark.parametrize("kept", [None, [1.0, 0.0, 1.0, 0.0]])
def test_both_losses_by_their_gradients(kept: list[float] | None) -> None:
    method = begun(Network())
    features, labels = torch.randn(4, SIZE, requires_grad=True), torch.tensor([0, 1, 2, 0])
    rewarder, generator = copy.deepcopy(method.rewarder), copy.deepcopy(method.generator)
    torch.manual_seed(5)
    method.teach(features, labels, None if kept is None else torch.tensor(kept))

    torch.manual_seed(5)
    noise = torch.empty(4, CLASSES).exponential_()
    chosen = [0, 1, 2, 3] if kept is None else [0, 2]
    given, made, truth = features.detach(), generator(features.detach(), noise), F.one_hot(labels, CLASSES).float()
    loss = torch.stack([(rewarder(given, made)[n] - 1.0) ** 2 for n in chosen]).mean()
    expected = torch.autograd.grad(loss, list(generator.parameters()))
    right = 0.5 + 0.5 * (made.detach().argmax(-1) == labels).float()
    parts = [(rewarder(given, made.detach()) - right)[n] ** 2 + (rewarder(given, truth)[n] - 1.0) ** 2 for n in chosen]
    expected += torch.autograd.grad(torch.stack(parts).mean(), list(rewarder.parameters()))
    found = [p.grad for module in (method.generator, method.rewarder) for p in module.parameters()]
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, wanted, atol=1e-7, rtol=1e-4)
    assert features.grad is None
    for old, new in ((rewarder, method.rewarder), (generator, method.generator)):
        assert any(not torch.equal(a, b) for a, b in zip(old.parameters(), new.parameters(), strict=True))


def test_labels_with_rewards_of_at_least_the_mean_are_kept() -> None:
    network, data, base = Network(), batch(seed=0), softmatch(CLASSES)
    method = begun(network, copy.deepcopy(base), warmup=0)
    method.rewarder = Given([0.9, 0.2, 0.5, 0.8, 0.1, 0.5])  # mean 0.5
    method.optimizers["rewarder"] = torch.optim.Adam(method.rewarder.parameters())
    method.eval()
    base.eval()
    output, alone = method.step(Forward(network), data), base.step(Forward(network), data)
    expected = alone.pseudo.weights * torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(output.pseudo.weights, expected)
    assert not output.pseudo.weights.requires_grad
    losses = F.cross_entropy(network(data.unlabeled["strong"]), output.pseudo.labels, reduction="none")
    torch.testing.assert_close(output.unsupervised_loss, (expected * losses).mean().detach())


def test_rewards_are_those_of_weak_features_and_pseudo_labels() -> None:
    network, data = Network(), batch(seed=0)
    method, seen = begun(network, uda(CLASSES, threshold=0.0), warmup=0), list[tuple[Tensor, Tensor]]()
    reward = method.reward

    def noted(features: Tensor, labels: Tensor) -> Tensor:
        seen.append((features, labels))
        return reward(features, labels)

    method.reward = noted  # type: ignore[method-assign]  # to see what is asked for
    method.eval()
    method.step(Forward(network), data)
    ((features, labels),) = seen
    torch.testing.assert_close(features, network.features(data.unlabeled["weak"]))
    assert torch.equal(labels, F.one_hot(network(data.unlabeled["weak"]).argmax(-1), CLASSES).float())


def test_in_the_first_steps_the_base_is_alone() -> None:
    network, base = Network(), softmatch(CLASSES)
    method = begun(network, copy.deepcopy(base), warmup=3)
    for seed in range(3):
        ours, theirs = (each.step(Forward(network), batch(seed=seed)) for each in (method, base))
        assert torch.equal(ours.loss, theirs.loss)
    method.step(Forward(network), batch(seed=3))
    assert method.count.steps == 4


def test_what_rewarder_and_generator_learn_from_when() -> None:
    """Labelled samples at each step; from the fourth on, every second step, the kept unlabelled ones."""
    network, seen = Network(), list[tuple[int, list[int], list[float] | None]]()
    method = begun(network, warmup=3, every=2)
    teach = method.teach

    def noted(features: Tensor, labels: Tensor, kept: Tensor | None = None) -> None:
        seen.append((method.count.steps, labels.tolist(), None if kept is None else kept.tolist()))
        teach(features, labels, kept)

    method.teach = noted  # type: ignore[method-assign]  # to see what is learned from
    expected: list[tuple[int, list[int], list[float] | None]] = []
    for number in range(7):
        output = method.step(Forward(network), batch(seed=number))
        expected.append((number, [0, 1, 2, 0], None))
        if number in (3, 5):
            expected.append((number, output.pseudo.labels.tolist(), output.pseudo.weights.tolist()))
    assert seen == expected
    assert all(p.grad is None for p in network.parameters())


def test_the_rewarder_learns_to_tell_right_labels_from_wrong_ones() -> None:
    method = begun(Network(), lr=5e-3)
    labels = torch.randint(0, CLASSES, (60,))
    features = 2.0 * F.one_hot(labels, SIZE).float() + 0.2 * torch.randn(60, SIZE)
    for _ in range(100):
        method.teach(features, labels)
    fresh = torch.randint(0, CLASSES, (60,))
    features = 2.0 * F.one_hot(fresh, SIZE).float() + 0.2 * torch.randn(60, SIZE)
    with torch.no_grad():
        right, wrong = (method.reward(features, F.one_hot((fresh + n) % CLASSES, CLASSES)) for n in (0, 1))
    assert float(right.mean()) > 0.85
    assert float((right > wrong).float().mean()) > 0.95


def test_a_base_without_strong_view_is_served() -> None:
    network, data = Network(), batch(seed=0)
    method = begun(network, pseudo_label(CLASSES), warmup=0)
    output = method.step(Forward(network), Batch(data.labeled, data.labels, {"weak": data.unlabeled["weak"]}, data.index))
    assert output.pseudo is not None
    assert method.unlabeled_views == ("weak",)


def test_warm_up_follows_the_run() -> None:
    for total_steps, warmup in ((2**20, 104858), (1000, 100), (300, 100), (30, 10)):
        assert semireward(CLASSES, total_steps=total_steps, base=fixmatch(CLASSES)).warmup == warmup
