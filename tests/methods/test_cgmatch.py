"""CGMatch: the gap, the robust loss, the history against a plain one, two steps by hand, the warm-up and the state."""

import copy
from collections import Counter, deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import cgmatch
from softmatch.methods.cgmatch import CGMatch, LabelHistory, count_gap, generalized_cross_entropy
from softmatch.methods.forward import Forward
from softmatch.step import Output
from tests.contracts.examples import assert_same_state, state
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, Step, close
from tests.methods.networks import batch, normalised

UNLABELED = 10


def make(**options: Any) -> CGMatch:
    settings = {"num_unlabeled": UNLABELED, "unlabeled_batch": 4, "total_steps": 4, "momentum": MOMENTUM, "warmup": 0} | options
    return cgmatch(CLASSES, **settings)


def output_of(method: CGMatch, step: Step, index: Tensor) -> Output:
    return method.compute(step.labeled.log(), step.labels, step.weak.log(), step.strong.log(), index)


def test_count_gap_is_the_largest_count_less_the_second() -> None:
    counts = torch.tensor([[5, 1, 2], [0, 0, 0], [3, 3, 1], [0, 4, 0]], dtype=torch.int32)
    assert count_gap(counts).tolist() == [3.0, 0.0, 0.0, 4.0]


def test_generalized_cross_entropy_by_hand() -> None:
    probs = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    logits, labels = torch.tensor(np.log(probs)), torch.tensor([0, 1])
    close(generalized_cross_entropy(labels, logits, 0.7), [(1 - 0.7**0.7) / 0.7, (1 - 0.3**0.7) / 0.7])
    close(generalized_cross_entropy(labels, logits, 1.0), [0.3, 0.7])
    close(generalized_cross_entropy(labels, logits, 1e-4), [-np.log(0.7), -np.log(0.3)], tolerance=1e-3)


def test_generalized_cross_entropy_is_finite_where_the_label_is_impossible() -> None:
    logits = torch.tensor([[-300.0, 0.0, 0.0]], requires_grad=True)
    loss = generalized_cross_entropy(torch.tensor([0]), logits, 0.7).sum()
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
    close(loss.detach(), 1 / 0.7)
    assert bool(torch.isfinite(logits.grad).all())


@pytest.mark.parametrize(("length", "visits", "forgets"), [(5, 100, True), (1000, 100, False), (1, 9, True), (8, 8, False)])
def test_history_equals_a_plain_one(length: int, visits: int, forgets: bool) -> None:
    """Of each sample the last labels, a sample twice in a batch counting twice."""
    history = LabelHistory(CLASSES, UNLABELED, length, visits)
    assert history.forgets is forgets
    plain: list[deque[int]] = [deque(maxlen=length) for _ in range(UNLABELED)]
    generator = torch.Generator().manual_seed(1)
    for _ in range(8 if not forgets else 30):
        index = torch.randint(0, UNLABELED, (6,), generator=generator)
        if length == 1 or visits == length:
            index = torch.randperm(UNLABELED, generator=generator)[:6]
        labels = torch.randint(0, CLASSES, (6,), generator=generator)
        history.add(index, labels)
        for position, label in zip(index.tolist(), labels.tolist(), strict=True):
            plain[position].append(label)
        expected = [[Counter(labels)[c] for c in range(CLASSES)] for labels in plain]
        assert history(torch.arange(UNLABELED)).tolist() == expected


class ByHand:
    """The method in NumPy, one sample after the other."""

    def __init__(self, total_steps: int) -> None:
        self.marginal, self.mean = np.full(CLASSES, 1 / CLASSES), 1 / CLASSES
        self.gap: float | None = None
        self.labels: dict[int, list[int]] = {}
        self.steps, self.total = 0, total_steps

    def __call__(self, step: Step, index: list[int]) -> tuple[list[str], list[int], float, float]:
        """Set and label of each sample, unlabelled loss, and weight of the ambiguous samples."""
        weak, strong = step.weak.double().numpy(), step.strong.double().numpy()
        self.marginal = MOMENTUM * self.marginal + (1 - MOMENTUM) * weak.mean(0)
        aligned = weak / (CLASSES * self.marginal)
        aligned /= aligned.sum(1, keepdims=True)
        self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * aligned.max(1).mean()
        labels = aligned.argmax(1)
        for position, label in zip(index, labels, strict=True):
            self.labels.setdefault(position, []).append(int(label))
        gaps = []
        for position in index:
            counts = sorted(Counter(self.labels[position]).values(), reverse=True)
            gaps.append(counts[0] - (counts[1] if len(counts) > 1 else 0))
        mean_gap = float(np.mean(gaps))
        self.gap = mean_gap if self.gap is None else MOMENTUM * self.gap + (1 - MOMENTUM) * mean_gap
        weight = (self.steps / self.total) ** 2
        self.steps += 1
        sets, loss = [], 0.0
        for n, label in enumerate(labels):
            if aligned[n].max() >= self.mean:
                sets.append("easy")
                loss += -np.log(strong[n, label])
            elif gaps[n] >= self.gap:
                sets.append("ambiguous")
                loss += weight * ((1 - weak[n, label] ** 0.7) / 0.7 + (1 - strong[n, label] ** 0.7) / 0.7)
            else:
                sets.append("hard")
        return sets, labels.tolist(), loss / len(index), weight


def test_steps_by_hand() -> None:
    """Eight steps, whose samples fall into all three sets; one of them stands in a batch twice."""
    method, by_hand, seen = make(total_steps=8), ByHand(8), set[str]()
    method.mean.value.fill_(0.75)
    by_hand.mean = 0.75
    generator = torch.Generator().manual_seed(2)
    for number in range(8):
        step = STEP_1 if number % 2 == 0 else STEP_2
        index = torch.randint(0, 5, (4,), generator=generator)
        output = output_of(method, step, index)
        sets, labels, loss, weight = by_hand(step, index.tolist())
        seen.update(sets)
        assert output.pseudo.labels.tolist() == labels
        close(output.pseudo.weights, [{"easy": 1.0, "ambiguous": weight, "hard": 0.0}[name] for name in sets])
        close(output.unsupervised_loss, loss, tolerance=1e-5)
        close(output.loss, float(output.supervised_loss) + loss, tolerance=1e-5)
        close(output.pseudo.confidence, step.weak.max(-1).values.tolist())
        statistics = method.statistics()
        close(statistics["threshold"], by_hand.mean)
        close(statistics["mean_gap"], by_hand.gap)
        close(statistics["marginal"], by_hand.marginal.tolist())
    assert seen == {"easy", "ambiguous", "hard"}


def test_labels_may_come_from_raw_predictions() -> None:
    """Rows 2 and 4 of step 1 have another argmax when aligned by this marginal."""
    found = []
    for align_targets in (True, False):
        method = make(align_targets=align_targets)
        method.alignment.marginal.value.copy_(torch.tensor([0.5, 0.3, 0.2]))
        pseudo = output_of(method, STEP_1, torch.arange(4)).pseudo
        assert method.history(torch.arange(4)).argmax(-1).tolist() == pseudo.labels.tolist()
        found.append(pseudo.labels.tolist())
    assert found == [[0, 1, 1, 2], [0, 0, 1, 0]]


def test_unaligned_weights_are_those_of_raw_predictions() -> None:
    method = make(clip=(0.6, 0.6))
    method.alignment.marginal.value.copy_(torch.tensor([0.5, 0.3, 0.2]))
    pseudo = output_of(method, STEP_1, torch.arange(4)).pseudo
    assert pseudo.unaligned_weights.tolist() == (STEP_1.weak.max(-1).values >= 0.6).float().tolist()


def test_threshold_can_be_clipped() -> None:
    method = make(clip=(0.9, 0.95))
    pseudo = output_of(method, STEP_2, torch.arange(4)).pseudo
    close(method.statistics()["threshold"], 0.9)
    assert pseudo.weights.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_weak_views_are_trained_only_where_samples_are_ambiguous() -> None:
    method = make(total_steps=2)
    method.mean.value.fill_(0.75)
    weak, strong = (value.log().requires_grad_() for value in (STEP_1.weak, STEP_1.strong))
    output_of(method, STEP_1, torch.arange(4))  # a step first, so that the weight of ambiguous samples is not zero
    output = method.compute(STEP_1.labeled.log(), STEP_1.labels, weak, strong, torch.arange(4))
    output.loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
    ambiguous = (output.pseudo.weights > 0) & (output.pseudo.weights < 1)
    assert 0 < int(ambiguous.sum()) < 4
    assert torch.equal(weak.grad.abs().sum(-1) > 0, ambiguous)
    assert torch.equal(strong.grad.abs().sum(-1) > 0, output.pseudo.weights > 0)


def test_max_weight_scales_the_ambiguous_part() -> None:
    found = []
    for max_weight in (1.0, 0.5):
        method = make(total_steps=2, max_weight=max_weight)
        method.mean.value.fill_(0.75)
        for _ in range(2):
            pseudo = output_of(method, STEP_1, torch.arange(4)).pseudo
        found.append(pseudo.weights)
    ambiguous = found[0] < 1.0
    assert float(found[0][ambiguous].max()) == 0.25
    torch.testing.assert_close(found[1][ambiguous], 0.5 * found[0][ambiguous])
    assert torch.equal(found[1][~ambiguous], found[0][~ambiguous])


def test_the_first_steps_are_on_labels_alone() -> None:
    network = normalised()
    plain, data = copy.deepcopy(network), replace(batch(), index=torch.tensor([0, 3, 3, 5, 6, 7]))
    method = make(warmup=2, total_steps=6)
    for _ in range(2):
        output = method.step(Forward(network), data)
        assert output.pseudo is None
        torch.testing.assert_close(output.loss, F.cross_entropy(plain(data.labeled["weak"]), data.labels))
        for ours, theirs in zip(network.buffers(), plain.buffers(), strict=True):
            assert torch.equal(ours, theirs)
    assert int(method.history(torch.arange(UNLABELED)).sum()) == 0
    output = method.step(Forward(network), data)
    assert output.pseudo is not None
    assert method.history(torch.arange(UNLABELED)).sum(-1).tolist() == [1, 0, 0, 2, 0, 1, 1, 1, 0, 0]
    close(method.statistics()["ramp"], 0.0)
    method.step(Forward(network), data)
    close(method.statistics()["ramp"], (1 / 4) ** 2)


def test_what_is_not_finite_is_refused_and_changes_nothing() -> None:
    method, broken = make(), STEP_1.strong.log()
    broken[2, 1] = float("nan")
    before = state(method)
    with pytest.raises(InputError, match="strong_logits contains NaN"):
        method.compute(STEP_1.labeled.log(), STEP_1.labels, STEP_1.weak.log(), broken, torch.arange(4))
    with pytest.raises(InputError, match="labeled_logits contains NaN"):
        method.compute(broken[:2] * float("nan"), STEP_1.labels, STEP_1.weak.log(), STEP_1.strong.log(), torch.arange(4))
    assert_same_state(before, state(method))


def test_warm_up_is_a_share_of_the_run() -> None:
    assert make(total_steps=2**20, warmup=None, history=10).warmup == 2048
    assert make(total_steps=300, warmup=None).warmup == 1


def test_one_class_has_no_gap_between_counts() -> None:
    with pytest.raises(InputError, match="two classes"):
        cgmatch(1, num_unlabeled=3)
