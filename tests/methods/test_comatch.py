"""CoMatch: two steps and more against an independent NumPy version, the graph, the memory, gradients and state."""

import math
import sys

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods import Problem, build, comatch
from softmatch.methods.embeddings import CoMatch
from softmatch.methods.forward import Encoded, Forward
from softmatch.networks.heads import Headed
from softmatch.step import Batch
from tests.contracts.examples import assert_same_state, state
from tests.golden import close
from tests.methods.networks import Given, Normalised

CLASSES, LABELED, UNLABELED, SIZE = 3, 2, 4, 5
LABELS = torch.tensor([0, 2])

Array = NDArray[np.float64]
Views = tuple[Encoded, Tensor, Encoded, Encoded, Tensor]


def make(**options: float) -> CoMatch:
    given = {"memory": 2, "queue": 3, "embedding": SIZE, "threshold": 0.6, "graph_threshold": 0.4} | options
    return build(comatch, Problem(CLASSES, labeled_batch=LABELED, unlabeled_batch=UNLABELED), given)


def views(seed: int) -> Views:
    """What `compute` is given: labelled, labels, weak, strong, and the embeddings of the other strong view."""
    generator = torch.Generator().manual_seed(seed)

    def view(size: int) -> Encoded:
        points = F.normalize(torch.randn(size, SIZE, generator=generator), dim=-1)
        return Encoded(points, 2.0 * torch.randn(size, CLASSES, generator=generator))

    return view(LABELED), LABELS, view(UNLABELED), view(UNLABELED), view(UNLABELED).features


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
    x, weak, strong, other = (Encoded(forward.head(view.features, "projector"), view.logits) for view in encoded)
    expected = make(threshold=0.0).compute(x, data.labels, Encoded(*map(Tensor.detach, weak)), strong, other.features)
    torch.testing.assert_close(output.loss, expected.loss)
    output.loss.backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0.0 for p in network.heads.parameters())
    close(method.embeddings.values[: LABELED + UNLABELED].norm(dim=-1), [1.0] * 6)


def test_losses_and_state_are_float32_under_autocast() -> None:
    cast, full = make(), make()
    for seed in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            labeled, _, weak, strong, other = views(seed)
            loss = cast.step(Given(labeled, weak, strong, Encoded(other, strong.logits)), batch()).loss
        assert loss.dtype == torch.float32
        assert torch.equal(loss, full.compute(*views(seed)).loss)
    assert_same_state(state(cast), state(full))


def test_memory_takes_in_the_samples_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(value: Tensor) -> Tensor:
        return torch.cat([value, value + 10.0 if value.is_floating_point() else value])

    monkeypatch.setattr(sys.modules[CoMatch.__module__], "gather", two)
    method, data = make(), views(0)
    method.compute(*data)
    torch.testing.assert_close(method.embeddings.values[UNLABELED : 2 * UNLABELED], data[2].features + 10.0)
    torch.testing.assert_close(method.embeddings.values[2 * UNLABELED :][:LABELED], data[0].features)
    assert int(method.embeddings.count) == int(method.probs.count) == 2 * (LABELED + UNLABELED)


def test_evaluation_and_refused_batches_change_no_state() -> None:
    method, data = make(), views(1)
    method.compute(*views(0))
    before = state(method)
    broken = Encoded(data[3].features, data[3].logits.clone())
    broken.logits[2, 1] = math.nan
    with pytest.raises(InputError, match="strong_logits"):
        method.compute(*data[:3], broken, data[4])
    method.eval().compute(*data)
    assert_same_state(before, state(method))


def test_builder_takes_the_problem() -> None:
    method = build(comatch, Problem(CLASSES, labeled_batch=10, unlabeled_batch=30, total_steps=400))
    assert (method.embeddings.length, method.probs.length, method.alignment.queue) == (200, 200, 10)
    assert comatch(CLASSES).alignment.queue == 32
    assert method.needs_features
