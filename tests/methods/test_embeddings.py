"""CoMatch and SimMatch: steps against independent NumPy versions, graph, memory, bank, teacher, gradients and state."""

import copy
import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, build, comatch, simmatch
from softmatch.methods.embeddings import CoMatch, SimMatch
from softmatch.methods.forward import Encoded, Forward
from softmatch.networks.heads import Headed
from softmatch.step import Batch
from tests.contracts.examples import assert_same_state, state
from tests.golden import close
from tests.methods.networks import Normalised

CLASSES, LABELED, UNLABELED, SIZE = 3, 2, 4, 5
LABELS = torch.tensor([0, 2])
BANK, BANK_LABELS = 5, torch.tensor([0, 1, 2, 0, 1])

Array = NDArray[np.float64]
Views = tuple[Encoded, Tensor, Encoded, Encoded, Tensor]
BankViews = tuple[Encoded, Tensor, Tensor, Encoded, Encoded]


def make(**options: float) -> CoMatch:
    given = {"memory": 2, "queue": 3, "embedding": SIZE, "threshold": 0.6, "graph_threshold": 0.4} | options
    return build(comatch, Problem(CLASSES, labeled_batch=LABELED, unlabeled_batch=UNLABELED), given)


def views(seed: int) -> Views:
    """What `compute` is given: labelled, labels, weak, strong, and the embeddings of the other strong view."""
    view = viewer(seed)
    return view(LABELED), LABELS, view(UNLABELED), view(UNLABELED), view(UNLABELED).features


def viewer(seed: int) -> Callable[[int], Encoded]:
    """Makes random embeddings and logits of so many samples."""
    generator = torch.Generator().manual_seed(seed)

    def view(size: int) -> Encoded:
        points = F.normalize(torch.randn(size, SIZE, generator=generator), dim=-1)
        return Encoded(points, 2.0 * torch.randn(size, CLASSES, generator=generator))

    return view


def softmax(values: Array) -> Array:
    return np.exp(values) / np.exp(values).sum(-1, keepdims=True)


class Reference:
    """The same method in float64 with lists and loops."""

    def __init__(self) -> None:
        self.means = [np.full(CLASSES, 1 / CLASSES)] * 3
        self.memory: list[tuple[Array, Array]] = []

    def step(self, given: Views) -> dict[str, Array | float]:
        labeled, labels, weak, strong, other = given
        e_x, z_x, e_w, z_w, e_0, z_0, e_1 = (value.double().numpy() for value in (*labeled, *weak, *strong, other))
        raw = softmax(z_w)
        self.means = [*self.means[1:], raw.mean(0)]
        aligned = raw / np.mean(self.means, 0)
        aligned /= aligned.sum(1, keepdims=True)
        p = aligned.copy()
        if len(self.memory) == 2 * (LABELED + UNLABELED):
            for i in range(UNLABELED):
                near = np.array([math.exp(e_w[i] @ e / 0.2) for e, _ in self.memory])
                p[i] = 0.9 * aligned[i] + 0.1 * sum(a * q for a, (_, q) in zip(near / near.sum(), self.memory, strict=True))
        self.memory += list(zip(e_w, aligned, strict=True)) + [(e, np.eye(CLASSES)[y]) for e, y in zip(e_x, labels, strict=True)]
        self.memory = self.memory[-2 * (LABELED + UNLABELED) :]
        log_q, log_x = np.log(softmax(z_0)), np.log(softmax(z_x))
        classified = [-(p[i] @ log_q[i]) if p[i].max() >= 0.6 else 0.0 for i in range(UNLABELED)]
        contrast = []
        for i in range(UNLABELED):
            edges = np.array([1.0 if i == j else p[i] @ p[j] for j in range(UNLABELED)])
            edges = np.where(edges >= 0.4, edges, 0.0)
            log_near = np.log(softmax(e_0[i] @ e_1.T / 0.2))
            contrast.append(-(edges / edges.sum()) @ log_near)
        supervised = -np.mean([log_x[i, y] for i, y in enumerate(labels)])
        unsupervised = np.mean(classified) + np.mean(contrast)
        return {"p": p, "raw": raw, "supervised": float(supervised), "unsupervised": float(unsupervised)}


def test_steps_equal_the_numpy_version() -> None:
    """Two steps fill the memory; from the third on it smooths."""
    method, reference, masks = make(), Reference(), []
    for seed in range(6):
        expected, output = reference.step(views(seed)), method.compute(*views(seed))
        p, raw = np.asarray(expected["p"]), np.asarray(expected["raw"])
        close(output.supervised_loss, float(expected["supervised"]), tolerance=1e-5)
        close(output.unsupervised_loss, float(expected["unsupervised"]), tolerance=1e-5)
        close(output.loss.detach(), float(expected["supervised"]) + float(expected["unsupervised"]), tolerance=1e-5)
        assert output.pseudo.labels.tolist() == p.argmax(1).tolist()
        assert output.pseudo.weights.tolist() == (p.max(1) >= 0.6).astype(float).tolist()
        close(output.pseudo.confidence, raw.max(1).tolist(), tolerance=1e-5)
        masks += output.pseudo.weights.tolist()
    assert 0.0 < np.mean(masks) < 1.0
    close(method.statistics()["marginal"], np.mean(reference.means, 0).tolist(), tolerance=1e-5)


def test_memory_holds_aligned_predictions_without_smoothing_and_labels() -> None:
    """Also where the memory is not a multiple of what a step brings: the oldest rows make room."""
    method = CoMatch(CLASSES, memory=1, labeled_batch=3, unlabeled_batch=5, queue=3, embedding=SIZE)
    reference = Reference()
    for seed in range(4):
        reference.step(views(seed))
        method.compute(*views(seed))
    found = sorted(torch.cat([method.embeddings.values, method.probs.values], 1).tolist())
    expected = sorted([*e, *p] for e, p in reference.memory[-8:])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_no_smoothing_before_the_memory_is_full() -> None:
    method, data = make(), views(0)
    probs = torch.softmax(data[2].logits, dim=-1)
    assert torch.equal(method.smooth(data[2].features, probs), probs)
    method.compute(*data)
    assert torch.equal(method.smooth(data[2].features, probs), probs)
    method.compute(*views(1))
    assert not torch.equal(method.smooth(data[2].features, probs), probs)
    close(method.smooth(data[2].features, probs).sum(-1), [1.0] * UNLABELED)


def test_graph_golden() -> None:
    probs = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.1, 0.9, 0.0]])
    expected = [
        [1 / 1.9, 0.9 / 1.9, 0, 0],
        [0.9 / 1.9, 1 / 1.9, 0, 0],
        [0, 0, 1 / 1.72, 0.72 / 1.72],
        [0, 0, 0.72 / 1.72, 1 / 1.72],
    ]
    close(make(graph_threshold=0.72 - 1e-6).graph(probs), expected)
    close(make(graph_threshold=1.0).graph(probs), torch.eye(4).tolist())
    everything = make(graph_threshold=0.0).graph(probs)
    close(everything[0], [1 / 2.0, 0.9 / 2.0, 0.0, 0.1 / 2.0])


def test_weights_of_the_two_terms() -> None:
    def unsupervised(**options: float) -> Tensor:
        found = make(**options).compute(*views(3)).unsupervised_loss
        assert float(found) > 0.0
        return found

    classified, contrast = unsupervised(contrast_weight=0.0), unsupervised(unlabeled_weight=0.0)
    torch.testing.assert_close(unsupervised(), classified + contrast)
    torch.testing.assert_close(unsupervised(unlabeled_weight=3.0, contrast_weight=2.0), 3.0 * classified + 2.0 * contrast)


def test_unaligned_weights_leave_out_the_alignment() -> None:
    method, data = make(queue=1), views(0)
    logits = torch.tensor([[3.0, 0.0, 0.0], [2.5, 0.0, 0.0], [2.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    output = method.compute(*data[:2], Encoded(data[2].features, logits), *data[3:])
    raw = torch.softmax(logits, dim=-1)
    aligned = raw / raw.mean(0)
    aligned = aligned / aligned.sum(-1, keepdim=True)
    assert output.pseudo.unaligned_weights.tolist() == (raw.max(-1).values >= 0.6).float().tolist()
    assert output.pseudo.weights.tolist() == (aligned.max(-1).values >= 0.6).float().tolist()
    assert output.pseudo.weights.tolist() != output.pseudo.unaligned_weights.tolist()


def test_gradient_reaches_labelled_logits_and_strong_views_alone() -> None:
    method = make(threshold=0.0)
    method.compute(*views(0))
    method.compute(*views(1))
    labeled, labels, weak, strong, other = views(2)
    tensors = [value.requires_grad_() for value in (*labeled, *weak, *strong, other)]
    method.compute(labeled, labels, weak, strong, other).loss.backward()
    moved = [value.grad is not None and float(value.grad.abs().sum()) > 0.0 for value in tensors]
    assert moved == [False, True, False, False, True, True, True]
    assert all(not buffer.requires_grad and buffer.grad_fn is None for buffer in method.buffers())


def embedded(forward: Forward, view: Encoded) -> Encoded:
    return Encoded(forward.head(view.features, "projector"), view.logits)


def batch() -> Batch:
    return Batch(
        labeled={"weak": torch.randn(LABELED, 6)},
        labels=LABELS,
        unlabeled={name: torch.randn(UNLABELED, 6) for name in ("weak", "strong", "strong_2")},
        index=torch.arange(UNLABELED),
        labeled_index=torch.arange(LABELED),
    )


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_step_is_compute_on_embeddings_of_the_views(mode: str) -> None:
    method, data = make(threshold=0.0), batch()
    network = Headed(Normalised(6, relu=True), method.heads(8))
    forward = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    output = method.step(forward, data)
    encoded = forward.encode(data.labeled["weak"], *data.unlabeled.values())
    x, weak, strong, other = (embedded(forward, view) for view in encoded)
    expected = make(threshold=0.0).compute(x, data.labels, Encoded(*map(Tensor.detach, weak)), strong, other.features)
    torch.testing.assert_close(output.loss, expected.loss)
    output.loss.backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0.0 for p in network.heads.parameters())
    close(method.embeddings.values[: LABELED + UNLABELED].norm(dim=-1), [1.0] * 6)


def test_memory_takes_in_the_samples_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(value: Tensor) -> Tensor:
        return torch.cat([value, value + 10.0 if value.is_floating_point() else value])

    monkeypatch.setattr(sys.modules[CoMatch.__module__], "gather", two)
    method, data = make(), views(0)
    method.compute(*data)
    torch.testing.assert_close(method.embeddings.values[UNLABELED : 2 * UNLABELED], data[2].features + 10.0)
    torch.testing.assert_close(method.embeddings.values[2 * UNLABELED :][:LABELED], data[0].features)
    assert int(method.embeddings.count) == int(method.probs.count) == 2 * (LABELED + UNLABELED)


def test_refused_batches_change_no_memory() -> None:
    method, data = make(), views(1)
    method.compute(*views(0))
    before = state(method)
    broken = Encoded(data[3].features, data[3].logits.clone())
    broken.logits[2, 1] = math.nan
    with pytest.raises(InputError, match="strong_logits"):
        method.compute(*data[:3], broken, data[4])
    assert_same_state(before, state(method))


def test_builder_takes_the_problem() -> None:
    method = build(comatch, Problem(CLASSES, labeled_batch=10, unlabeled_batch=30, total_steps=400))
    assert (method.embeddings.length, method.probs.length, method.alignment.queue) == (200, 200, 10)
    assert comatch(CLASSES).alignment.queue == 32
    assert method.needs_features


def make_simmatch(**options: float | bool | None) -> SimMatch:
    given = {"queue": 3, "embedding": SIZE, "threshold": 0.6} | options
    return build(simmatch, Problem(CLASSES, num_labeled=BANK), given)


def bank_views(seed: int, index: list[int] | None = None) -> BankViews:
    """What `compute` is given: labelled, labels, positions, weak and strong. Two steps show every labelled sample."""
    view = viewer(seed)
    positions = torch.tensor([[0, 1, 2], [3, 4, 3], [2, 4, 0]][seed % 3] if index is None else index)
    return view(len(positions)), BANK_LABELS[positions], positions, view(UNLABELED), view(UNLABELED)


class BankReference:
    """The same method in float64 with dictionaries and loops."""

    def __init__(self) -> None:
        self.means = [np.full(CLASSES, 1 / CLASSES)] * 3
        self.bank: dict[int, Array] = {}

    def step(self, given: BankViews) -> dict[str, Array | float]:
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


def test_simmatch_steps_equal_the_numpy_version() -> None:
    """Two steps fill the bank, one of them with a sample twice; from the third on both corrections act."""
    method, reference, masks = make_simmatch(), BankReference(), []
    for seed in range(7):
        expected, output = reference.step(bank_views(seed)), method.compute(*bank_views(seed))
        p = np.asarray(expected["p"])
        close(output.supervised_loss, float(expected["supervised"]), tolerance=1e-5)
        close(output.unsupervised_loss, float(expected["unsupervised"]), tolerance=1e-5)
        close(output.loss.detach(), float(expected["supervised"]) + float(expected["unsupervised"]), tolerance=1e-5)
        assert output.pseudo.labels.tolist() == p.argmax(1).tolist()
        assert output.pseudo.weights.tolist() == (p.max(1) >= 0.6).astype(float).tolist()
        close(output.pseudo.confidence, torch.softmax(bank_views(seed)[3].logits, -1).max(-1).values.tolist())
        masks += output.pseudo.weights.tolist()
        for j, row in reference.bank.items():
            close(method.bank.rows[j], row.tolist(), tolerance=1e-5)
    assert 0.0 < np.mean(masks) < 1.0
    assert method.bank_labels.rows.tolist() == BANK_LABELS.tolist()
    close(method.bank.rows.norm(dim=-1), [1.0] * BANK)
    close(method.statistics()["marginal"], np.mean(reference.means, 0).tolist(), tolerance=1e-5)


def test_targets_golden() -> None:
    """s = (.4, .1, .2, .2, .1) over labels (0, 1, 2, 0, 1): class sums .6, .2, .2."""
    method = make_simmatch()
    method.bank_labels.write(torch.arange(BANK), BANK_LABELS)
    probs, nearness = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.4, 0.1, 0.2, 0.2, 0.1]])
    close(method.smooth(probs, nearness), [[0.51, 0.29, 0.20]])
    close(method.instance_target(probs, nearness), [[0.2 / 0.4, 0.03 / 0.4, 0.04 / 0.4, 0.1 / 0.4, 0.03 / 0.4]])


def test_until_every_labelled_sample_was_seen_it_is_aligned_predictions_alone() -> None:
    method, data = make_simmatch(threshold=0.0), bank_views(0)
    for _ in range(3):  # never shows samples 3 and 4
        output = method.compute(*data)
    raw = torch.softmax(data[3].logits, dim=-1)
    p = raw / raw.mean(0)
    p = p / p.sum(-1, keepdim=True)
    expected = -(p * torch.log_softmax(data[4].logits, -1)).sum(-1).mean()
    close(output.unsupervised_loss, float(expected), tolerance=1e-5)
    assert method.bank_labels.rows.tolist() == [0, 1, 2, -1, -1]
    method.compute(*bank_views(1))
    output = method.compute(*bank_views(2))
    assert float(output.unsupervised_loss) > 0.0
    assert method.bank_labels.rows.tolist() == BANK_LABELS.tolist()


def filled(**options: float | bool | None) -> SimMatch:
    method = make_simmatch(**options)
    for seed in range(2):
        method.compute(*bank_views(seed))
    return method


def test_bank_is_written_after_the_loss() -> None:
    data = bank_views(2)
    other = (Encoded(-data[0].features, data[0].logits), *data[1:])
    left, right = filled(), filled()
    assert torch.equal(left.compute(*data).loss, right.compute(*other).loss)
    assert not torch.equal(left.bank.rows, right.bank.rows)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_of_a_sample_twice_in_a_batch_the_later_embedding_counts(momentum: float) -> None:
    method, data = filled(bank_momentum=momentum), bank_views(9, index=[2, 4, 2])
    before = method.bank.rows.clone()
    method.compute(*data)
    expected = F.normalize(momentum * before[2] + (1 - momentum) * data[0].features[2], dim=-1)
    torch.testing.assert_close(method.bank.rows[2], expected)
    assert torch.equal(method.bank.rows[[0, 1, 3]], before[[0, 1, 3]])


def test_gradient_reaches_labelled_logits_and_the_strong_view_alone() -> None:
    method = filled(threshold=0.0)
    labeled, labels, index, weak, strong = bank_views(2)
    tensors = [value.requires_grad_() for value in (*labeled, *weak, *strong)]
    method.compute(labeled, labels, index, weak, strong).loss.backward()  # although the bank has been written since
    moved = [value.grad is not None and float(value.grad.abs().sum()) > 0.0 for value in tensors]
    assert moved == [False, True, False, False, True, True]
    assert all(not buffer.requires_grad and buffer.grad_fn is None for buffer in method.buffers())


def test_before_the_bank_is_full_embeddings_get_no_gradient_and_no_nan() -> None:
    method = make_simmatch(threshold=0.0)
    labeled, labels, index, weak, strong = bank_views(0)
    strong.features.requires_grad_()
    strong.logits.requires_grad_()
    method.compute(labeled, labels, index, weak, strong).loss.backward()
    assert float(strong.features.grad.abs().sum()) == 0.0


def test_weights_of_the_two_terms_of_simmatch() -> None:
    def unsupervised(**options: float) -> Tensor:
        found = filled(**options).compute(*bank_views(2)).unsupervised_loss
        assert float(found) > 0.0
        return found

    classes, instances = unsupervised(instance_weight=0.0), unsupervised(unlabeled_weight=0.0)
    torch.testing.assert_close(unsupervised(), classes + instances)
    torch.testing.assert_close(unsupervised(unlabeled_weight=2.0, instance_weight=5.0), 2.0 * classes + 5.0 * instances)


def bank_batch() -> Batch:
    return Batch(
        labeled={"weak": torch.randn(BANK, 4)},
        labels=BANK_LABELS,
        unlabeled={"weak": torch.randn(UNLABELED, 4), "strong": torch.randn(UNLABELED, 4)},
        index=torch.arange(UNLABELED),
        labeled_index=torch.arange(BANK),
    )


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_simmatch_step_is_compute_on_embeddings_of_the_views(mode: str) -> None:
    method, other = make_simmatch(threshold=0.0), make_simmatch(threshold=0.0)
    network = Headed(Normalised(4, relu=True), method.heads(8))
    forward = Forward(network, mode)  # type: ignore[arg-type]  # parametrised literal
    for _ in range(2):
        data = bank_batch()
        output = method.step(forward, data)
        encoded = forward.encode(data.labeled["weak"], *data.unlabeled.values())
        x, weak, strong = (embedded(forward, view) for view in encoded)
        expected = other.compute(x, data.labels, data.labeled_index, Encoded(*map(Tensor.detach, weak)), strong)
        torch.testing.assert_close(output.loss, expected.loss)
    output.loss.backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0.0 for p in network.heads.parameters())
    close(method.bank.rows.norm(dim=-1), [1.0] * BANK)


def test_teacher_gives_targets_and_bank() -> None:
    """The averaged network, with running statistics; the network itself is asked for labelled and strong bank_views."""
    method, other = make_simmatch(threshold=0.0, teacher=True), make_simmatch(threshold=0.0, bank_momentum=0.0)
    network = Headed(Normalised(4, relu=True), method.heads(8))
    average = copy.deepcopy(network).requires_grad_(False)
    for parameter in average.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    forward, teacher = Forward(network, average=average), Forward(copy.deepcopy(average).eval())
    running = [value.clone() for value in average.buffers()]
    for _ in range(2):
        data = bank_batch()
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


def test_bank_takes_in_the_samples_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process with the same embeddings, of samples two places further on."""

    def two(value: Tensor) -> Tensor:
        return torch.cat([value, value if value.is_floating_point() else (value + 2) % BANK])

    monkeypatch.setattr(sys.modules[SimMatch.__module__], "gather", two)
    method, data = make_simmatch(), bank_views(0, index=[0, 1])
    method.compute(*data)
    torch.testing.assert_close(method.bank.rows[:4], torch.cat([data[0].features, data[0].features]))
    assert method.bank_labels.rows.tolist()[4] == -1


def test_refused_batches_change_no_bank() -> None:
    method, data = filled(), bank_views(2)
    before = state(method)
    broken = Encoded(data[3].features, data[3].logits.clone())
    broken.logits[2, 1] = math.inf
    with pytest.raises(InputError, match="weak_logits"):
        method.compute(*data[:3], broken, data[4])
    with pytest.raises(InputError, match="index must lie in"):
        method.compute(data[0], data[1], data[2] + BANK, *data[3:])
    with pytest.raises(InputError, match="labeled_index"):
        method.compute(data[0], data[1], torch.zeros(0, dtype=torch.int64), *data[3:])
    assert_same_state(before, state(method))


def test_simmatch_builder_takes_the_problem() -> None:
    method = build(simmatch, Problem(CLASSES, num_labeled=17, total_steps=400))
    assert (len(method.bank), method.alignment.queue, method.bank_momentum) == (17, 10, 0.7)
    assert simmatch(CLASSES, num_labeled=4).alignment.queue == 32
    assert simmatch(CLASSES, num_labeled=4, teacher=True).bank_momentum == 0.0
    assert simmatch(CLASSES, num_labeled=4, teacher=True, bank_momentum=0.5).bank_momentum == 0.5
