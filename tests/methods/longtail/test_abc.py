"""ABC: both losses of the balanced head by hand, how often classes are kept, where gradients go, and the untouched base."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Forward, Problem, build, fixmatch, pseudo_label
from softmatch.methods.longtail_heads import AuxiliaryBalanced, abc
from softmatch.methods.match_variants import adamatch
from softmatch.networks.heads import Headed
from softmatch.networks.small import MLP
from tests.methods.networks import Normalised, batch

COUNTS = (20, 10, 2)
VIEWS = ("weak", "strong", "strong_2")


def made(total_steps: int = 10, threshold: float = 0.95, weight: float = 1.0, base: float = 0.5) -> AuxiliaryBalanced:
    return abc(
        3, base=fixmatch(3, threshold=base), class_counts=COUNTS, total_steps=total_steps, threshold=threshold, weight=weight
    )


def headed(method: AuxiliaryBalanced) -> Headed:
    return Headed(MLP(5, 3, (8,)), method.heads(8))


def softmax(rows: Tensor) -> list[list[float]]:
    return [[float(v) for v in row] for row in torch.softmax(rows.double(), -1)]


def test_what_it_asks_for() -> None:
    method = made()
    assert method.unlabeled_views == VIEWS
    assert method.final_head == "balanced"
    assert method.needs_features
    (head,) = method.heads(8).values()
    assert head.weight.shape == (3, 8)


def test_losses_by_hand() -> None:
    method = made(total_steps=10, threshold=0.5)
    method.progress.updates.fill_(4)  # the fifth step: t/K = 0.4
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0])
    labeled, weak, first, second = (2 * torch.randn(n, 3) for n in (8, 12, 12, 12))
    state = torch.get_rng_state()
    found = method.balanced_losses(labeled, labels, weak, [first, second])
    torch.set_rng_state(state)
    drawn = torch.rand(8).tolist(), torch.rand(12).tolist()
    ratio = [2 / 20, 2 / 10, 2 / 2]

    p = softmax(labeled)
    kept = [drawn[0][i] < ratio[int(y)] for i, y in enumerate(labels)]
    expected = sum(-torch.tensor(p[i][int(y)]).log() for i, y in enumerate(labels) if kept[i]) / 8
    assert True in kept
    assert False in kept
    torch.testing.assert_close(found[0], torch.as_tensor(expected, dtype=torch.float32))

    target, number, total = softmax(weak), 0, 0.0
    for view in (first, second):
        q = softmax(view)
        for i, row in enumerate(target):
            top = max(row)
            if top >= 0.5 and drawn[1][i] < 1 - 0.4 * (1 - ratio[row.index(top)]):
                total -= sum(a * float(torch.tensor(b).log()) for a, b in zip(row, q[i], strict=True)) / 12
                number += 1
    assert 0 < number < 24
    torch.testing.assert_close(found[1], torch.tensor(total))


def test_how_often_a_class_is_kept() -> None:
    """Labelled N_min/N_y at once; unlabelled from all at the first step to N_min/N_y at the end."""
    method, n = made(total_steps=100, threshold=0.0), 20000
    logits = torch.zeros(n, 3)
    for label, ratio in enumerate((0.1, 0.2, 1.0)):
        labels = torch.full((n,), label)
        weak = 20.0 * F.one_hot(labels, 3).float()
        for done, share in ((0, 0.0), (50, 0.5), (100, 1.0)):
            method.progress.updates.fill_(done)
            labeled, unlabeled = method.balanced_losses(logits, labels, weak, [logits])
            loss = float(torch.tensor(3.0).log())
            assert float(labeled) / loss == pytest.approx(ratio, abs=0.02)
            assert float(unlabeled) / loss == pytest.approx(1 - share * (1 - ratio), abs=0.02)


def test_unconfident_samples_do_not_count() -> None:
    method = made(threshold=0.95)
    sure = torch.tensor([[4.0, 0.0, 0.0]])  # max p = 0.9646
    unsure = torch.tensor([[3.5, 0.0, 0.0]])  # 0.9430
    strong = torch.zeros(2, 3)
    _, unlabeled = method.balanced_losses(torch.zeros(1, 3), torch.tensor([2]), torch.cat([sure, unsure]), [strong])
    torch.testing.assert_close(unlabeled, torch.tensor(3.0).log() / 2)


def test_target_is_soft_and_has_no_gradient() -> None:
    method = made(threshold=0.0)
    weak, strong = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3, requires_grad=True)
    method.balanced_losses(torch.zeros(1, 3), torch.tensor([2]), weak, [strong])[1].backward()
    assert weak.grad is None
    expected = (torch.softmax(strong, -1) - torch.softmax(weak, -1)).detach() / 6
    torch.testing.assert_close(strong.grad, expected)


def test_step_adds_the_head_to_the_base() -> None:
    method = made(threshold=0.0, weight=0.5)
    network, data = headed(method), batch(*VIEWS, labeled=("weak", "strong"))
    state = torch.get_rng_state()
    output = method.step(Forward(network), data)
    base = fixmatch(3, threshold=0.5).step(Forward(network), data)
    torch.set_rng_state(state)
    fresh, head = made(threshold=0.0), network.heads["balanced"]
    views = [head(network.features(data.unlabeled[name])) for name in ("weak", "strong", "strong_2")]
    labeled, unlabeled = fresh.balanced_losses(head(network.features(data.labeled["weak"])), data.labels, views[0], views[1:])
    torch.testing.assert_close(output.loss, base.loss + 0.5 * (labeled + unlabeled))
    torch.testing.assert_close(output.supervised_loss, base.supervised_loss + 0.5 * labeled.detach())
    assert base.unsupervised_loss is not None
    torch.testing.assert_close(output.unsupervised_loss, base.unsupervised_loss + 0.5 * unlabeled.detach())
    assert torch.equal(output.pseudo.weights, base.pseudo.weights)
    assert not output.supervised_loss.requires_grad


def test_gradient_of_the_head_reaches_the_features_but_not_the_other_head() -> None:
    method = made(threshold=0.0)
    network, data = headed(method), batch(*VIEWS, labeled=("weak", "strong"))
    base = copy.deepcopy(network)
    method.step(Forward(network), data).loss.backward()
    method.base.step(Forward(base), data).loss.backward()
    features = [n.network.body[0].weight.grad for n in (network, base)]  # type: ignore[union-attr,index]  # an MLP's body
    assert not torch.allclose(features[0], features[1])
    torch.testing.assert_close(network.head.weight.grad, base.head.weight.grad)
    assert float(network.heads["balanced"].weight.grad.abs().sum()) > 0  # type: ignore[union-attr,operator]  # a linear layer
    assert base.heads["balanced"].weight.grad is None


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_running_statistics_are_those_of_the_base(mode: str) -> None:
    method, data = made(), batch(*VIEWS, labeled=("weak", "strong"))
    network = Headed(Normalised(), method.heads(8))
    other = copy.deepcopy(network)
    method.step(Forward(network, mode), data)  # type: ignore[arg-type]  # parametrised literal
    method.base.step(Forward(other, mode), data)  # type: ignore[arg-type]  # parametrised literal
    for ours, theirs in zip(network.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_around_a_base_without_a_strong_view() -> None:
    method = abc(3, base=pseudo_label(3), class_counts=COUNTS, threshold=0.0)
    assert method.unlabeled_views == VIEWS
    network = headed(method)
    output = method.step(Forward(network), batch(*VIEWS, labeled=("weak", "strong")))
    output.loss.backward()
    assert float(network.heads["balanced"].weight.grad.abs().sum()) > 0  # type: ignore[union-attr,operator]  # a linear layer


def test_around_adamatch() -> None:
    method = abc(3, base=adamatch(3), class_counts=COUNTS)
    assert method.labeled_views == ("weak", "strong")
    assert torch.isfinite(method.step(Forward(headed(method)), batch(*VIEWS, labeled=("weak", "strong"))).loss)


def test_a_class_without_labels_is_never_thinned_out() -> None:
    method = abc(3, base=fixmatch(3), class_counts=(8, 0, 2))
    torch.testing.assert_close(method.balance, torch.tensor([0.25, 1.0, 1.0]))


def test_built_for_a_problem_around_another_method() -> None:
    problem = Problem(3, class_counts=COUNTS, total_steps=40)
    method = build("softmatch.methods.longtail_heads:abc+softmatch", problem, {"base_options": {"k": 1.0}})
    assert method.base.weighting.k == 1.0
    assert method.progress.steps == 40


def test_options_that_make_no_sense_are_refused() -> None:
    base = fixmatch(3)
    with pytest.raises(InputError, match="class_counts"):
        abc(3, base=base)
    for counts in ((1, 2), (0, 0, 0), (1, -1, 3)):
        with pytest.raises(InputError, match="class_counts"):
            abc(3, base=base, class_counts=counts)
    with pytest.raises(InputError, match="threshold"):
        abc(3, base=base, class_counts=COUNTS, threshold=1.5)
    with pytest.raises(InputError, match="weight"):
        abc(3, base=base, class_counts=COUNTS, weight=0.0)
    with pytest.raises(InputError, match="give the base as an object"):
        abc(3, class_counts=COUNTS)
