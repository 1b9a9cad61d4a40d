"""SimMatch: steps against an independent NumPy version, the bank, the teacher, gradients and state."""

import copy
import math
import sys

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, build, simmatch
from softmatch.methods.embeddings import SimMatch
from softmatch.methods.forward import Encoded, Forward
from softmatch.networks.heads import Headed
from softmatch.step import Batch
from tests.contracts.examples import assert_same_state, state
from tests.golden import close
from tests.methods.networks import Given, Normalised

CLASSES, LABELED, BANK, UNLABELED, SIZE = 3, 3, 5, 4, 6
BANK_LABELS = torch.tensor([0, 1, 2, 0, 1])

Array = NDArray[np.float64]
Views = tuple[Encoded, Tensor, Tensor, Encoded, Encoded]


def make(**options: float | bool | None) -> SimMatch:
    given = {"queue": 3, "embedding": SIZE, "threshold": 0.6} | options
    return build(simmatch, Problem(CLASSES, num_labeled=BANK), given)


def views(seed: int, index: list[int] | None = None) -> Views:
    """What `compute` is given: labelled, labels, positions, weak and strong. Two steps show every labelled sample."""
    generator = torch.Generator().manual_seed(seed)

    def view(size: int) -> Encoded:
        points = F.normalize(torch.randn(size, SIZE, generator=generator), dim=-1)
        return Encoded(points, 2.0 * torch.randn(size, CLASSES, generator=generator))

    positions = torch.tensor([[0, 1, 2], [3, 4, 3], [2, 4, 0]][seed % 3] if index is None else index)
    return view(len(positions)), BANK_LABELS[positions], positions, view(UNLABELED), view(UNLABELED)


def softmax(values: Array) -> Array:
    return np.exp(values) / np.exp(values).sum(-1, keepdims=True)


class Reference:
    """The same method in float64 with dictionaries and loops."""

    def __init__(self) -> None:
        self.means = [np.full(CLASSES, 1 / CLASSES)] * 3
        self.bank: dict[int, Array] = {}

    def step(self, given: Views) -> dict[str, Array | float]:
        labeled, labels, positions, weak, strong = given
        e_x, z_x, e_w, z_w, e_s, z_s = (value.double().numpy() for value in (*labeled, *weak, *strong))
        raw = softmax(z_w)
        self.means = [*self.means[1:], raw.mean(0)]
        aligned = raw / np.mean(self.means, 0)
        aligned /= aligned.sum(1, keepdims=True)
        p, matched = aligned.copy(), [0.0] * UNLABELED
        if len(self.bank) == BANK:
            for i in range(UNLABELED):
                s, log_near = (self.near(e[i]) for e in (e_w, e_s))
                wanted = np.array([s[j] * aligned[i, BANK_LABELS[j]] for j in range(BANK)])
                matched[i] = -(wanted / wanted.sum()) @ np.log(log_near)
                for c in range(CLASSES):
                    p[i, c] = 0.9 * aligned[i, c] + 0.1 * sum(s[j] for j in range(BANK) if int(BANK_LABELS[j]) == c)
        log_q, log_x = np.log(softmax(z_s)), np.log(softmax(z_x))
        classified = [-(p[i] @ log_q[i]) if p[i].max() >= 0.6 else 0.0 for i in range(UNLABELED)]
        old = dict(self.bank)
        for e, j in zip(e_x, positions.tolist(), strict=True):
            moved = 0.7 * old[j] + 0.3 * e if j in old else e
            self.bank[j] = moved / np.linalg.norm(moved)
        supervised = -np.mean([log_x[i, y] for i, y in enumerate(labels)])
        return {"p": p, "supervised": float(supervised), "unsupervised": float(np.mean(classified) + np.mean(matched))}

    def near(self, embedding: Array) -> Array:
        return softmax(np.array([embedding @ self.bank[j] / 0.1 for j in range(BANK)]))


def test_steps_equal_the_numpy_version() -> None:
    """Two steps fill the bank, one of them with a sample twice; from the third on both corrections act."""
    method, reference, masks = make(), Reference(), []
    for seed in range(7):
        expected, output = reference.step(views(seed)), method.compute(*views(seed))
        p = np.asarray(expected["p"])
        close(output.supervised_loss, float(expected["supervised"]), tolerance=1e-5)
        close(output.unsupervised_loss, float(expected["unsupervised"]), tolerance=1e-5)
        close(output.loss.detach(), float(expected["supervised"]) + float(expected["unsupervised"]), tolerance=1e-5)
        assert output.pseudo.labels.tolist() == p.argmax(1).tolist()
        assert output.pseudo.weights.tolist() == (p.max(1) >= 0.6).astype(float).tolist()
        close(output.pseudo.confidence, torch.softmax(views(seed)[3].logits, -1).max(-1).values.tolist())
        masks += output.pseudo.weights.tolist()
        for j, row in reference.bank.items():
            close(method.bank.rows[j], row.tolist(), tolerance=1e-5)
    assert 0.0 < np.mean(masks) < 1.0
    assert method.bank_labels.rows.tolist() == BANK_LABELS.tolist()
    close(method.bank.rows.norm(dim=-1), [1.0] * BANK)
    close(method.statistics()["marginal"], np.mean(reference.means, 0).tolist(), tolerance=1e-5)


def test_targets_golden() -> None:
    """s = (.4, .1, .2, .2, .1) over labels (0, 1, 2, 0, 1): class sums .6, .2, .2."""
    method = make()
    method.bank_labels.write(torch.arange(BANK), BANK_LABELS)
    probs, nearness = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.4, 0.1, 0.2, 0.2, 0.1]])
    close(method.smooth(probs, nearness), [[0.51, 0.29, 0.20]])
    close(method.instance_target(probs, nearness), [[0.2 / 0.4, 0.03 / 0.4, 0.04 / 0.4, 0.1 / 0.4, 0.03 / 0.4]])


def test_until_every_labelled_sample_was_seen_it_is_aligned_predictions_alone() -> None:
    method, data = make(threshold=0.0), views(0)
    for _ in range(3):  # never shows samples 3 and 4
        output = method.compute(*data)
    raw = torch.softmax(data[3].logits, dim=-1)
    p = raw / raw.mean(0)
    p = p / p.sum(-1, keepdim=True)
    expected = -(p * torch.log_softmax(data[4].logits, -1)).sum(-1).mean()
    close(output.unsupervised_loss, float(expected), tolerance=1e-5)
    assert method.bank_labels.rows.tolist() == [0, 1, 2, -1, -1]
    method.compute(*views(1))
    output = method.compute(*views(2))
    assert float(output.unsupervised_loss) > 0.0
    assert method.bank_labels.rows.tolist() == BANK_LABELS.tolist()


def filled(**options: float | bool | None) -> SimMatch:
    method = make(**options)
    for seed in range(2):
        method.compute(*views(seed))
    return method


def test_bank_is_written_after_the_loss() -> None:
    data = views(2)
    other = (Encoded(-data[0].features, data[0].logits), *data[1:])
    left, right = filled(), filled()
    assert torch.equal(left.compute(*data).loss, right.compute(*other).loss)
    assert not torch.equal(left.bank.rows, right.bank.rows)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_of_a_sample_twice_in_a_batch_the_later_embedding_counts(momentum: float) -> None:
    method, data = filled(bank_momentum=momentum), views(9, index=[2, 4, 2])
    before = method.bank.rows.clone()
    method.compute(*data)
    expected = F.normalize(momentum * before[2] + (1 - momentum) * data[0].features[2], dim=-1)
    torch.testing.assert_close(method.bank.rows[2], expected)
    assert torch.equal(method.bank.rows[[0, 1, 3]], before[[0, 1, 3]])


def test_gradient_reaches_labelled_logits_and_the_strong_view_alone() -> None:
    method = filled(threshold=0.0)
    labeled, labels, index, weak, strong = views(2)
    tensors = [value.requires_grad_() for value in (*labeled, *weak, *strong)]
    method.compute(labeled, labels, index, weak, strong).loss.backward()  # although the bank has been written since
    moved = [value.grad is not None and float(value.grad.abs().sum()) > 0.0 for value in tensors]
    assert moved == [False, True, False, False, True, True]
    assert all(not buffer.requires_grad and buffer.grad_fn is None for buffer in method.buffers())


def test_before_the_bank_is_full_embeddings_get_no_gradient_and_no_nan() -> None:
    method = make(threshold=0.0)
    labeled, labels, index, weak, strong = views(0)
    strong.features.requires_grad_()
    strong.logits.requires_grad_()
    method.compute(labeled, labels, index, weak, strong).loss.backward()
    assert float(strong.features.grad.abs().sum()) == 0.0


def test_weights_of_the_two_terms() -> None:
    def unsupervised(**options: float) -> Tensor:
        found = filled(**options).compute(*views(2)).unsupervised_loss
        assert float(found) > 0.0
        return found

    classes, instances = unsupervised(instance_weight=0.0), unsupervised(unlabeled_weight=0.0)
    torch.testing.assert_close(unsupervised(), classes + instances)
    torch.testing.assert_close(unsupervised(unlabeled_weight=2.0, instance_weight=5.0), 2.0 * classes + 5.0 * instances)


def batch() -> Batch:
    return Batch(
        labeled={"weak": torch.randn(BANK, 4)},
        labels=BANK_LABELS,
        unlabeled={"weak": torch.randn(UNLABELED, 4), "strong": torch.randn(UNLABELED, 4)},
        index=torch.arange(UNLABELED),
        labeled_index=torch.arange(BANK),
    )


def embedded(forward: Forward, view: Encoded) -> Encoded:
    return Encoded(forward.head(view.features, "projector"), view.logits)


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_step_is_compute_on_embeddings_of_the_views(mode: str) -> None:
    method, other = make(threshold=0.0), make(threshold=0.0)
    network = Headed(Normalised(4, relu=True), method.heads(8))
    forward = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    for _ in range(2):
        data = batch()
        output = method.step(forward, data)
        encoded = forward.encode(data.labeled["weak"], *data.unlabeled.values())
        x, weak, strong = (embedded(forward, view) for view in encoded)
        expected = other.compute(x, data.labels, data.labeled_index, Encoded(*map(Tensor.detach, weak)), strong)
        torch.testing.assert_close(output.loss, expected.loss)
    output.loss.backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0.0 for p in network.heads.parameters())
    close(method.bank.rows.norm(dim=-1), [1.0] * BANK)


def test_teacher_gives_targets_and_bank() -> None:
    """The averaged network, with running statistics; the network itself is asked for labelled and strong views."""
    method, other = make(threshold=0.0, teacher=True), make(threshold=0.0, bank_momentum=0.0)
    network = Headed(Normalised(4, relu=True), method.heads(8))
    average = copy.deepcopy(network).requires_grad_(False)
    for parameter in average.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    forward, teacher = Forward(network, average=average), Forward(copy.deepcopy(average).eval())
    running = [value.clone() for value in average.buffers()]
    for _ in range(2):
        data = batch()
        output = method.step(forward, data)
        with torch.no_grad():
            taught = [embedded(teacher, *teacher.encode(view)) for view in (data.labeled["weak"], data.unlabeled["weak"])]
        labeled, strong = (embedded(forward, v) for v in forward.encode(data.labeled["weak"], data.unlabeled["strong"]))
        labeled = Encoded(taught[0].features, labeled.logits)
        expected = other.compute(labeled, data.labels, data.labeled_index, taught[1], strong)
        torch.testing.assert_close(output.loss, expected.loss)
        torch.testing.assert_close(method.bank.rows, taught[0].features)
    output.loss.backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert all(torch.equal(a, b) for a, b in zip(average.buffers(), running, strict=True))


def test_losses_and_state_are_float32_under_autocast() -> None:
    cast, full = make(), make()
    for seed in range(4):
        data = views(seed)
        given = Batch({"weak": data[0].logits}, data[1], {"weak": data[3].logits, "strong": data[4].logits}, data[2], data[2])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cast.step(Given(data[0], data[3], data[4]), given).loss
        assert loss.dtype == torch.float32
        assert torch.equal(loss, full.compute(*data).loss)
    assert_same_state(state(cast), state(full))
    assert cast.state_dict()["bank_labels.values"].dtype == torch.int64


def test_bank_takes_in_the_samples_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process with the same embeddings, of samples two places further on."""

    def two(value: Tensor) -> Tensor:
        return torch.cat([value, value if value.is_floating_point() else (value + 2) % BANK])

    monkeypatch.setattr(sys.modules[SimMatch.__module__], "gather", two)
    method, data = make(), views(0, index=[0, 1])
    method.compute(*data)
    torch.testing.assert_close(method.bank.rows[:4], torch.cat([data[0].features, data[0].features]))
    assert method.bank_labels.rows.tolist()[4] == -1


def test_evaluation_and_refused_batches_change_no_state() -> None:
    method, data = filled(), views(2)
    before = state(method)
    broken = Encoded(data[3].features, data[3].logits.clone())
    broken.logits[2, 1] = math.inf
    with pytest.raises(InputError, match="weak_logits"):
        method.compute(*data[:3], broken, data[4])
    with pytest.raises(InputError, match="index must lie in"):
        method.compute(data[0], data[1], data[2] + BANK, *data[3:])
    with pytest.raises(InputError, match="labeled_index"):
        method.compute(data[0], data[1], torch.zeros(0, dtype=torch.int64), *data[3:])
    method.eval().compute(*data)
    assert_same_state(before, state(method))


def test_builder_takes_the_problem() -> None:
    method = build(simmatch, Problem(CLASSES, num_labeled=17, total_steps=400))
    assert (len(method.bank), method.alignment.queue, method.bank_momentum) == (17, 10, 0.7)
    assert simmatch(CLASSES, num_labeled=4).alignment.queue == 32
    assert simmatch(CLASSES, num_labeled=4, teacher=True).bank_momentum == 0.0
    assert simmatch(CLASSES, num_labeled=4, teacher=True, bank_momentum=0.5).bank_momentum == 0.5
