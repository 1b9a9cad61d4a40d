"""CoSSL: the blended features by hand, gradients to the head alone, and pseudo-labels from the head in the last part."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Forward, Problem, build, fixmatch, pseudo_label
from softmatch.methods.forward import Encoded
from softmatch.methods.longtail_heads import CoLearning, TaughtForward, cossl
from softmatch.networks.heads import Headed
from softmatch.step import Batch, Labeled
from tests.contracts.examples import assert_same_state, state
from tests.methods.networks import Normalised
from tests.methods.networks import batch as plain_batch

COUNTS = (20, 10, 2)


def made(teach_from: float = 0.8, mix: float = 0.6, threshold: float = 0.5) -> CoLearning:
    return cossl(3, base=fixmatch(3, threshold=threshold), class_counts=COUNTS, total_steps=10, teach_from=teach_from, mix=mix)


def networks(method: CoLearning) -> tuple[Headed, Headed]:
    """A network, and an average that differs from it in weights and statistics."""
    network = Headed(Normalised(), method.heads(8))
    average = Headed(Normalised(), method.heads(8)).requires_grad_(False)
    average.features(3 + torch.randn(20, 5))
    return network, average


def batch(unlabeled: int = 8) -> Batch:
    balanced = Labeled({"weak": torch.randn(6, 5)}, torch.tensor([0, 1, 2, 0, 1, 2]))
    return plain_batch(size=unlabeled, streams={"balanced": balanced})


def test_what_it_asks_for() -> None:
    method = made()
    assert method.streams == ("balanced",)
    assert method.unlabeled_views == ("weak", "strong")
    assert method.final_head == "balanced"
    assert method.needs_features
    assert method.teach_from == 8
    torch.testing.assert_close(method.blending, torch.tensor([0.0, 0.5, 0.9]))


@pytest.mark.parametrize("unlabeled", [8, 4])
def test_head_loss_by_hand(unlabeled: int) -> None:
    """Features of the average in evaluation mode; sample by sample, blended or not. Of few unlabelled ones, some serve twice."""
    method = made()
    (network, average), data = networks(method), batch(unlabeled)
    forward = Forward(network, average=average)
    blended = 0
    for seed in range(5):
        torch.manual_seed(seed)
        found = method.head_loss(forward, data.streams["balanced"], data.unlabeled["strong"])
        torch.manual_seed(seed)
        chance, share = torch.rand(2, 6).tolist()
        average.eval()
        ours, others = average.features(data.streams["balanced"].views["weak"]), average.features(data.unlabeled["strong"])
        average.train()
        head, total = network.heads["balanced"], 0.0
        for i, label in enumerate([0, 1, 2, 0, 1, 2]):
            feature = ours[i]
            if chance[i] < (20 - COUNTS[label]) / 20:
                assert label != 0
                blended += 1
                factor = 0.6 + 0.4 * share[i]
                feature = factor * feature + (1 - factor) * others[i % unlabeled]
            total -= float(torch.log_softmax(head(feature), -1)[label].detach()) / 6
        torch.testing.assert_close(found, torch.tensor(total))
    assert 5 < blended < 20


def test_without_mixing_it_is_cross_entropy_on_balanced_samples() -> None:
    method = made(mix=1.0)
    (network, average), data = networks(method), batch()
    found = method.head_loss(Forward(network, average=average), data.streams["balanced"], data.unlabeled["strong"])
    logits = network.heads["balanced"](average.eval().features(data.streams["balanced"].views["weak"]))
    torch.testing.assert_close(found, F.cross_entropy(logits, data.streams["balanced"].labels))


def test_head_loss_moves_the_head_alone_and_leaves_the_average_as_it_is() -> None:
    method = made()
    (network, average), data = networks(method), batch()
    before = state(average)
    method.head_loss(Forward(network, average=average), data.streams["balanced"], data.unlabeled["strong"]).backward()
    moved = {name for name, p in network.named_parameters() if p.grad is not None}
    assert moved == {"heads.balanced.weight", "heads.balanced.bias"}
    assert average.training
    assert_same_state(before, state(average))


def test_before_the_share_the_base_is_alone_with_its_predictions() -> None:
    method = made()
    (network, average), data = networks(method), batch()
    other, alone = copy.deepcopy(network), fixmatch(3, threshold=0.5)
    output = method.step(Forward(network, average=average), data)
    base = alone.step(Forward(other), data)
    assert torch.equal(output.pseudo.labels, base.pseudo.labels)
    torch.testing.assert_close(output.pseudo.confidence, base.pseudo.confidence)
    torch.testing.assert_close(output.unsupervised_loss, base.unsupervised_loss)
    head_loss = (output.loss - base.loss).detach()
    assert float(head_loss) > 0
    torch.testing.assert_close(output.supervised_loss, base.supervised_loss + head_loss)
    for ours, theirs in zip(network.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
    output.loss.backward()  # from the first step on, the head that is evaluated learns
    assert float(network.heads["balanced"].weight.grad.abs().sum()) > 0  # type: ignore[union-attr,operator]  # a linear layer


def test_from_the_share_on_the_head_makes_the_pseudo_labels() -> None:
    method = made(teach_from=0.2, threshold=0.4)
    (network, average), data = networks(method), batch()
    forward = Forward(network, average=average)
    expected = torch.softmax(network.heads["balanced"](average.eval().features(data.unlabeled["weak"])), -1).detach()
    for step in range(4):
        output = method.step(forward, data)
        taught = torch.allclose(output.pseudo.confidence, expected.max(-1).values)
        assert taught == (step >= 2)
    assert torch.equal(output.pseudo.labels, expected.argmax(-1))
    assert torch.equal(output.pseudo.weights, (expected.max(-1).values >= 0.4).float())
    with torch.no_grad():
        joint = network(torch.cat([data.labeled["weak"], data.unlabeled["strong"]]))  # the weak view is not among them
    loss = F.cross_entropy(joint[4:], expected.argmax(-1), reduction="none")
    torch.testing.assert_close(output.unsupervised_loss, (output.pseudo.weights * loss).mean())


def test_pseudo_labels_give_the_head_no_gradient() -> None:
    method = made(teach_from=0.0, mix=1.0, threshold=0.0)
    (network, average), data = networks(method), batch()
    forward = Forward(network, average=average)
    method.step(forward, data).loss.backward()
    taught = network.heads["balanced"].weight.grad.clone()  # type: ignore[union-attr,operator]  # a linear layer
    network.zero_grad()
    method.head_loss(forward, data.streams["balanced"], data.unlabeled["strong"]).backward()
    torch.testing.assert_close(network.heads["balanced"].weight.grad, taught)


def test_the_head_learns_under_autocast_too() -> None:
    """Autocast keeps the cast weights of a pass: one without gradient must not come first."""
    method = made(teach_from=0.0)
    (network, average), data = networks(method), batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = method.step(Forward(network, average=average), data)
    output.loss.backward()
    assert output.loss.dtype == torch.float32
    assert float(network.heads["balanced"].weight.grad.abs().sum()) > 0  # type: ignore[union-attr,operator]  # a linear layer


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_taught_forward_answers_for_one_view(mode: str) -> None:
    network, _ = networks(made())
    inner = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    first, view, last = torch.randn(3, 5), torch.randn(4, 5), torch.randn(4, 5)
    answer = Encoded(torch.zeros(4, 8), torch.ones(4, 3))
    taught = TaughtForward(inner, view, answer)
    found = taught(first, view, last, gradient=(True, False, False))
    expected = inner(first, last)
    assert torch.equal(found[1], answer.logits)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[2], expected[1])
    assert [z.requires_grad for z in found] == [True, False, False]
    assert taught.encode(view)[0] is answer
    (same,) = taught(view.clone())
    assert not torch.equal(same, answer.logits)


def test_built_for_a_problem_around_another_method() -> None:
    problem = Problem(3, class_counts=COUNTS, total_steps=40, start="debiased")
    method = build("softmatch.methods.longtail_heads:cossl+softmatch", problem)
    assert method.teach_from == 32
    (network, average), data = networks(method), batch()
    assert torch.isfinite(method.step(Forward(network, average=average), data).loss)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="class_counts"):
        cossl(3, base=fixmatch(3))
    with pytest.raises(InputError, match="teach_from"):
        cossl(3, base=fixmatch(3), class_counts=COUNTS, teach_from=80)
    with pytest.raises(InputError, match="mix"):
        cossl(3, base=fixmatch(3), class_counts=COUNTS, mix=1.2)
    with pytest.raises(InputError, match="strong view"):
        cossl(3, base=pseudo_label(3), class_counts=COUNTS)
