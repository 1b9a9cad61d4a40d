"""Forward passes and batch statistics, and the two methods of the base: the abstract one and the supervised one."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.methods import Forward, Method, Problem, Supervised, build, pseudo_label, softmatch
from softmatch.methods.forward import RecordedForward, frozen_running_statistics
from softmatch.step import Batch, Output
from tests.contracts.examples import assert_same_state, state
from tests.methods.networks import Normalised, batch, normalised


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))


def norm_state(network: nn.Sequential) -> list[Tensor]:
    return [value.clone() for value in network[1].buffers()]


def test_joint_and_separate_are_equal_without_batch_normalisation() -> None:
    network, views = plain(), [torch.randn(n, 5) for n in (2, 3, 4)]
    joint, separate = (Forward(network, mode)(*views) for mode in ("joint", "separate"))  # type: ignore[arg-type]  # parametrised literal
    assert [len(z) for z in joint] == [2, 3, 4]
    for left, right in zip(joint, separate, strict=True):
        torch.testing.assert_close(left, right)


def test_joint_views_share_batch_statistics_and_separate_do_not() -> None:
    network, views = normalised(), (torch.randn(4, 5), torch.randn(4, 5) * 3 + 1)
    joint = Forward(network)(*views)
    torch.testing.assert_close(torch.cat(joint), network(torch.cat(views)))
    separate = Forward(network, "separate")(*views)
    torch.testing.assert_close(separate[0], network(views[0]))
    assert not torch.allclose(joint[0], separate[0], atol=1e-2)


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_views_without_gradient_are_detached(mode: str) -> None:
    views = [torch.randn(4, 5) for _ in range(3)]
    out = Forward(plain(), mode)(*views, gradient=(True, False, True))  # type: ignore[arg-type]  # parametrised literal
    assert [z.requires_grad for z in out] == [True, False, True]
    assert all(z.requires_grad for z in Forward(plain(), mode)(*views))  # type: ignore[arg-type]  # parametrised literal


def test_separate_respects_an_outer_no_grad() -> None:
    with torch.no_grad():
        (out,) = Forward(plain(), "separate")(torch.randn(4, 5))
    assert not out.requires_grad


def test_unknown_batch_statistics_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_statistics"):
        Forward(plain(), "shared")  # type: ignore[arg-type]  # wrong on purpose


def test_frozen_statistics_normalise_with_the_batch_and_do_not_move() -> None:
    network, view = normalised(), torch.randn(16, 5) * 2 + 3
    before = norm_state(network)
    with frozen_running_statistics(network):
        frozen = network(view)
    assert all(torch.equal(a, b) for a, b in zip(before, norm_state(network), strict=True))
    torch.testing.assert_close(frozen, network(view))  # train mode: the same normalisation, and now they move
    assert not all(torch.equal(a, b) for a, b in zip(before, norm_state(network), strict=True))


def test_frozen_statistics_are_released_after_an_error() -> None:
    network = normalised()
    untracked = nn.BatchNorm1d(8, track_running_stats=False)
    network.append(untracked)
    with pytest.raises(RuntimeError, match="diverged"), frozen_running_statistics(network):
        raise RuntimeError("diverged")
    assert network[1].track_running_stats is True
    assert untracked.track_running_stats is False


def test_frozen_statistics_in_eval_mode_still_use_the_running_ones() -> None:
    network, view = normalised().eval(), torch.randn(16, 5)
    with frozen_running_statistics(network):
        frozen = network(view)
    torch.testing.assert_close(frozen, network(view))


def test_match_step_equals_calling_the_method_with_the_logits() -> None:
    network, data = plain(), batch()
    stepped, called = softmatch(3), softmatch(3)
    output = stepped.step(Forward(network), data)
    logits = [network(view) for view in (data.labeled["weak"], data.unlabeled["weak"], data.unlabeled["strong"])]
    torch.testing.assert_close(output.loss, called(logits[0], data.labels, logits[1], logits[2], data.index))


def test_pseudo_label_step_moves_the_running_statistics_by_labelled_data_alone() -> None:
    network, data = normalised(), batch()
    method = pseudo_label(3)
    assert method.unlabeled_views == ("weak",)
    features = network[0](data.labeled["weak"]).detach()
    method.step(Forward(network), data).loss.backward()
    torch.testing.assert_close(network[1].running_mean, 0.1 * features.mean(0))


def test_supervised_is_the_cross_entropy_of_the_labelled_view() -> None:
    network, data, method = plain(), batch(), Supervised()
    output = method.step(Forward(network), data)
    torch.testing.assert_close(output.loss, F.cross_entropy(network(data.labeled["weak"]), data.labels))
    assert output.loss.requires_grad
    assert not output.supervised_loss.requires_grad
    assert output.unsupervised_loss is None
    assert output.pseudo is None
    assert method.unlabeled_views == ()
    assert method.weight_curve(3) is None
    assert method.statistics() == {}


def test_a_method_without_step_says_so() -> None:
    with pytest.raises(NotImplementedError, match="must define step"):
        Method().step(Forward(plain()), batch())


class Consistency(Method):
    """A method of a researcher's own that is no Match: squared difference of two views."""

    unlabeled_views = ("weak", "strong")

    def step(self, forward: Forward, batch: Batch) -> Output:
        labeled, weak, strong = forward(batch.labeled["weak"], *batch.unlabeled.values())
        supervised = F.cross_entropy(labeled, batch.labels)
        return Output(supervised + (weak.softmax(-1) - strong.softmax(-1)).square().mean(), supervised.detach())


def test_a_method_class_is_built_without_arguments_it_does_not_take() -> None:
    method = build(Consistency, Problem(num_classes=3))
    assert isinstance(method, Consistency)
    network = plain()
    method.step(Forward(network), batch()).loss.backward()
    assert all(p.grad is not None for p in network.parameters())


def test_passes_of_at_most_a_micro_batch_have_statistics_of_their_own() -> None:
    network, view = normalised(), torch.randn(10, 5) * 2 + 1
    (logits,) = Forward(network, "separate", micro_batch=4)(view)
    expected = torch.cat([network(part) for part in (view[:4], view[4:7], view[7:])])  # 10 = 4 + 3 + 3: no small remainder
    torch.testing.assert_close(logits, expected)
    (whole,) = Forward(network, "separate")(view)
    assert not torch.allclose(logits, whole, atol=1e-2)


def test_micro_batches_change_nothing_without_batch_normalisation() -> None:
    network, views = plain(), [torch.randn(n, 5) for n in (3, 9)]
    whole, parts = Forward(network, "separate")(*views), Forward(network, "separate", micro_batch=2)(*views)
    for left, right in zip(whole, parts, strict=True):
        torch.testing.assert_close(left, right)
    gradients = []
    for out in (whole, parts):
        network.zero_grad()
        torch.cat(out).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_micro_batch_has_no_meaning_for_joint_statistics() -> None:
    network, view = normalised(), torch.randn(10, 5)
    torch.testing.assert_close(Forward(network, "joint", micro_batch=2)(view)[0], network(view))


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_encode_gives_the_logits_of_a_call_and_their_features(mode: str) -> None:
    network, first, second = Normalised(features=6), torch.randn(4, 5), torch.randn(3, 5)
    forward = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    logits = forward(first, second, gradient=(True, False), tracking=False)
    encoded = forward.encode(first, second, gradient=(True, False), tracking=False)
    for one, other in zip(encoded, logits, strict=True):
        torch.testing.assert_close(one.logits, other)
        torch.testing.assert_close(forward.head(one.features), one.logits)
    assert [e.logits.requires_grad for e in encoded] == [e.features.requires_grad for e in encoded] == [True, False]


@pytest.mark.parametrize("mode", ["joint", "separate"])
@pytest.mark.parametrize("way", ["call", "encode"])
def test_without_tracking_running_statistics_stay(mode: str, way: str) -> None:
    network = Normalised(features=6)
    forward = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    run = forward if way == "call" else forward.encode
    before = state(network)
    (found,) = run(torch.randn(4, 5), tracking=False)
    assert (found if way == "call" else found.logits).requires_grad
    assert_same_state(before, state(network))
    run(torch.randn(4, 5))
    assert not torch.equal(network.body[1].running_mean, before["body.1.running_mean"])


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_views_together_share_their_statistics_whatever_those_of_a_call(mode: str) -> None:
    network, first, second = Normalised(features=6), torch.randn(4, 5), torch.randn(3, 5) + 2.0
    forward = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    before = state(network)
    found = RecordedForward(forward).together(first, second, tracking=False)
    assert_same_state(before, state(network))
    torch.testing.assert_close(torch.cat(found), network(torch.cat([first, second])))
    assert [len(logits) for logits in found] == [4, 3]
    assert all(logits.requires_grad for logits in found)


def test_around_another_network_everything_else_is_the_same() -> None:
    network, other, views = Normalised(features=6), Normalised(features=6), (torch.randn(8, 5), torch.randn(3, 5))
    forward = Forward(network, "separate", micro_batch=4, average=network)
    found = forward.around(other)(*views, tracking=False)
    expected = Forward(other, "separate", micro_batch=4)(*views, tracking=False)
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))
    assert forward.around(other).average is None


def test_a_teacher_has_the_averaged_weights_and_batch_statistics_but_neither_gradient_nor_memory() -> None:
    network, average, view = Normalised(features=6), Normalised(features=6), torch.randn(4, 5)
    average.eval()
    before = state(average)
    forward = Forward(network, "separate", average=average)
    (taught,), (features,) = forward.teach(view), forward.teach_features(view)
    assert not taught.requires_grad
    assert not average.training
    assert_same_state(before, state(average))
    linear, norm = average.body
    centred = F.batch_norm(linear(view), None, None, norm.weight, norm.bias, training=True)
    torch.testing.assert_close(taught, average.head(centred))
    torch.testing.assert_close(features, average.features(view))  # normalised with the running statistics
    torch.testing.assert_close(forward.head(features, averaged=True), average(view))


def test_an_averaged_teacher_answers_for_views_without_gradient() -> None:
    network, average, views = Normalised(features=6), Normalised(features=6), torch.randn(3, 4, 5)
    forward = Forward(network, "separate", average=average, taught=True)
    (expected,) = forward.teach(views[1])
    labeled, weak, strong = forward(*views, gradient=(True, False, True))
    assert torch.equal(weak, expected)
    plain = Forward(copy.deepcopy(network), "separate")
    for found, alone in zip((labeled, strong), plain(views[0], views[2], tracking=False), strict=True):
        torch.testing.assert_close(found, alone)
        assert found.requires_grad


def test_a_record_answers_for_the_very_view() -> None:
    network, view = Normalised(features=6), torch.randn(4, 5)
    recorded = RecordedForward(Forward(network))
    (logits,) = recorded(view)
    assert recorded.of(view).logits is logits
    torch.testing.assert_close(network.head(recorded.of(view).features), logits)
    with pytest.raises(LookupError, match="has not shown this view"):
        recorded.of(view.clone())
