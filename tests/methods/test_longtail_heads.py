"""ABC and CoSSL: losses by hand, gradients, features, running statistics."""

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Forward, Problem, abc, build, cossl, fixmatch, pseudo_label
from softmatch.methods.forward import Encoded
from softmatch.methods.longtail_heads import AuxiliaryBalanced, CoLearning, TaughtForward
from softmatch.networks.heads import Headed
from softmatch.networks.small import MLP
from softmatch.step import Batch, Labeled
from tests.contracts.examples import assert_same_state, state
from tests.methods.networks import Normalised, batch
from tests.methods.networks import batch as plain_batch

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


def test_a_class_without_labels_is_never_thinned_out() -> None:
    method = abc(3, base=fixmatch(3), class_counts=(8, 0, 2))
    torch.testing.assert_close(method.balance, torch.tensor([0.25, 1.0, 1.0]))


def test_built_for_a_problem_around_another_method() -> None:
    problem = Problem(3, class_counts=COUNTS, total_steps=40)
    method = build("softmatch.methods:abc+softmatch", problem, {"base_options": {"k": 1.0}})
    assert method.base.weighting.k == 1.0
    assert method.progress.steps == 40


def made_cossl(teach_from: float = 0.8, mix: float = 0.6, threshold: float = 0.5) -> CoLearning:
    return cossl(3, base=fixmatch(3, threshold=threshold), class_counts=COUNTS, total_steps=10, teach_from=teach_from, mix=mix)


def networks(method: CoLearning) -> tuple[Headed, Headed]:
    """A network, and an average that differs from it in weights and statistics."""
    network = Headed(Normalised(), method.heads(8))
    average = Headed(Normalised(), method.heads(8)).requires_grad_(False)
    average.features(3 + torch.randn(20, 5))
    return network, average


def batch_cossl(unlabeled: int = 8) -> Batch:
    balanced = Labeled({"weak": torch.randn(6, 5)}, torch.tensor([0, 1, 2, 0, 1, 2]))
    return plain_batch(size=unlabeled, streams={"balanced": balanced})


def test_what_it_asks_for_cossl() -> None:
    method = made_cossl()
    assert method.streams == ("balanced",)
    assert method.unlabeled_views == ("weak", "strong")
    assert method.final_head == "balanced"
    assert method.needs_features
    assert method.teach_from == 8
    torch.testing.assert_close(method.blending, torch.tensor([0.0, 0.5, 0.9]))


@pytest.mark.parametrize("unlabeled", [8, 4])
def test_head_loss_by_hand(unlabeled: int) -> None:
    """Features of the average in evaluation mode; sample by sample, blended or not. Of few unlabelled ones, some serve twice."""
    method = made_cossl()
    (network, average), data = networks(method), batch_cossl(unlabeled)
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
    method = made_cossl(mix=1.0)
    (network, average), data = networks(method), batch_cossl()
    found = method.head_loss(Forward(network, average=average), data.streams["balanced"], data.unlabeled["strong"])
    logits = network.heads["balanced"](average.eval().features(data.streams["balanced"].views["weak"]))
    torch.testing.assert_close(found, F.cross_entropy(logits, data.streams["balanced"].labels))


def test_head_loss_moves_the_head_alone_and_leaves_the_average_as_it_is() -> None:
    method = made_cossl()
    (network, average), data = networks(method), batch_cossl()
    before = state(average)
    method.head_loss(Forward(network, average=average), data.streams["balanced"], data.unlabeled["strong"]).backward()
    moved = {name for name, p in network.named_parameters() if p.grad is not None}
    assert moved == {"heads.balanced.weight", "heads.balanced.bias"}
    assert average.training
    assert_same_state(before, state(average))


def test_before_the_share_the_base_is_alone_with_its_predictions() -> None:
    method = made_cossl()
    (network, average), data = networks(method), batch_cossl()
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
    method = made_cossl(teach_from=0.2, threshold=0.4)
    (network, average), data = networks(method), batch_cossl()
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
    method = made_cossl(teach_from=0.0, mix=1.0, threshold=0.0)
    (network, average), data = networks(method), batch_cossl()
    forward = Forward(network, average=average)
    method.step(forward, data).loss.backward()
    taught = network.heads["balanced"].weight.grad.clone()  # type: ignore[union-attr,operator]  # a linear layer
    network.zero_grad()
    method.head_loss(forward, data.streams["balanced"], data.unlabeled["strong"]).backward()
    torch.testing.assert_close(network.heads["balanced"].weight.grad, taught)


def test_the_head_learns_under_autocast_too() -> None:
    """Autocast keeps the cast weights of a pass: one without gradient must not come first."""
    method = made_cossl(teach_from=0.0)
    (network, average), data = networks(method), batch_cossl()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = method.step(Forward(network, average=average), data)
    output.loss.backward()
    assert output.loss.dtype == torch.float32
    assert float(network.heads["balanced"].weight.grad.abs().sum()) > 0  # type: ignore[union-attr,operator]  # a linear layer


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_taught_forward_answers_for_one_view(mode: str) -> None:
    network, _ = networks(made_cossl())
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


def test_built_for_a_problem_around_another_method_cossl() -> None:
    problem = Problem(3, class_counts=COUNTS, total_steps=40, start="debiased")
    method = build("softmatch.methods:cossl+softmatch", problem)
    assert method.teach_from == 32
    (network, average), data = networks(method), batch_cossl()
    assert torch.isfinite(method.step(Forward(network, average=average), data).loss)


def test_bases_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="give the base as an object"):
        abc(3, class_counts=COUNTS)
    with pytest.raises(InputError, match="strong view"):
        cossl(3, base=pseudo_label(3), class_counts=COUNTS)
