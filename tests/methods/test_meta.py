"""Meta Pseudo Labels: both losses and the teacher's step by hand, the sign of the feedback, fine-tuning, and the saved state."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from softmatch.methods import meta, meta_pseudo_labels
from softmatch.methods.forward import Forward
from softmatch.methods.meta import MetaPseudoLabels
from softmatch.step import Batch
from tests.golden import close
from tests.methods.networks import batch, trainer

CLASSES, LR = 3, 0.2


def network(normalised: bool = False) -> nn.Sequential:
    middle: nn.Module = nn.BatchNorm1d(6) if normalised else nn.Tanh()
    return nn.Sequential(nn.Linear(4, 6), middle, nn.Linear(6, CLASSES))


def descent(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=LR)


def begun(student: nn.Module, total_steps: int = 100, **options: Any) -> MetaPseudoLabels:
    method = meta_pseudo_labels(CLASSES, total_steps=total_steps, **options)
    method.begin(student, descent)
    return method


def learn(student: nn.Module, method: MetaPseudoLabels, data: Batch) -> None:
    """One step of the training loop."""
    optimizer, forward = descent(student), Forward(student)
    method.step(forward, data).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    method.after_step(forward, data)


def parameters(module: nn.Module | None) -> list[Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def test_the_student_learns_the_teacher_s_labels_of_the_strong_view() -> None:
    student, data = network(), batch(size=8, inputs=4, seed=0)
    method = begun(student, choice="argmax")
    with torch.no_grad():
        for p in method.teacher.parameters():
            p.add_(0.3 * torch.randn_like(p))
        taught = torch.softmax(method.teacher(data.unlabeled["strong"]), -1)
    output = method.step(Forward(student), data)
    expected = F.cross_entropy(student(data.unlabeled["strong"]), taught.argmax(-1))
    torch.testing.assert_close(output.loss, expected)
    assert torch.equal(output.pseudo.labels, taught.argmax(-1))
    torch.testing.assert_close(output.pseudo.confidence, taught.max(-1).values)
    assert output.pseudo.weights.tolist() == [1.0] * 8
    torch.testing.assert_close(output.supervised_loss, F.cross_entropy(student(data.labeled["weak"]), data.labels).detach())
    output.loss.backward()
    found = [p.grad for p in student.parameters()]
    for actual, wanted in zip(found, torch.autograd.grad(expected, list(student.parameters())), strict=True):
        torch.testing.assert_close(actual, wanted)
    assert all(p.grad is None for p in method.teacher.parameters())


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_the_teacher_s_step_by_hand(mode: str) -> None:
    """θ_T − η·∇(CE_l + w·mean 1(c ≥ τ)·H(sharpen(p), q) + h·CE(ŷ, T(Ω u))), h = L_l(θ_S) − L_l(θ_S'); the second step, w = 1."""
    student, data = network(), batch(size=8, inputs=4, seed=0)
    method = begun(student, choice="argmax", threshold=0.35, temperature=0.5, unlabeled_weight=2.0, total_steps=60)
    learn(student, method, batch(size=8, inputs=4, seed=7))  # the ramp, of one step, is at its end after this
    teacher, old = copy.deepcopy(method.teacher), copy.deepcopy(student)
    forward, optimizer = Forward(student, mode), descent(student)  # type: ignore[arg-type]  # parametrised literal
    method.step(forward, data).loss.backward()
    optimizer.step()
    method.after_step(forward, data)

    with torch.no_grad():
        before, after = (F.cross_entropy(net(data.labeled["weak"]), data.labels) for net in (old, student))
        weak = torch.softmax(teacher(data.unlabeled["weak"]), -1)
        target = weak**2 / (weak**2).sum(-1, keepdim=True)
        mask = (weak.max(-1).values >= 0.35).float()
    assert float(mask.sum()) > 0
    h = float(before - after)
    assert abs(h) > 1e-4
    strong = teacher(data.unlabeled["strong"])
    consistency = (mask * -(target * torch.log_softmax(strong, -1)).sum(-1)).mean()
    feedback = h * F.cross_entropy(strong, strong.argmax(-1))
    loss = F.cross_entropy(teacher(data.labeled["weak"]), data.labels) + 2.0 * consistency + feedback
    gradients = torch.autograd.grad(loss, list(teacher.parameters()))
    close(method.statistics()["feedback"], h)
    for found, start, gradient in zip(parameters(method.teacher), parameters(teacher), gradients, strict=True):
        torch.testing.assert_close(found, start - LR * gradient, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("helpful", "sign"), [(True, 1.0), (False, -1.0)])
def test_feedback_is_positive_where_labels_help_the_student(helpful: bool, sign: float) -> None:
    """Strong views that are the labelled samples, with the right labels or with wrong ones."""
    student = network()
    inputs, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    data = Batch({"weak": inputs}, labels, {"weak": inputs, "strong": inputs}, torch.arange(6))
    method = begun(student, choice="argmax", unlabeled_weight=1e-9)
    given = labels if helpful else (labels + 1) % CLASSES
    fitting = torch.optim.Adam(method.teacher.parameters(), lr=0.05)
    for _ in range(200):
        fitting.zero_grad()
        F.cross_entropy(method.teacher(inputs), given).backward()
        fitting.step()
    learn(student, method, data)
    assert float(method.feedback) * sign > 0.0


def test_feedback_reaches_the_teacher() -> None:
    """The same step with h replaced by zero ends elsewhere, and the difference is −η·h·∇CE(ŷ, T(Ω u))."""
    ends: list[list[Tensor]] = []
    for keep in (True, False):
        torch.manual_seed(0)
        student, data = network(), batch(size=8, inputs=4, seed=0)
        method = begun(student, choice="argmax", baseline=None if keep else 0.0)  # momentum 0: the baseline is h itself
        start = copy.deepcopy(method.teacher)
        learn(student, method, data)
        ends.append(parameters(method.teacher))
        if keep:
            h, strong = float(method.feedback), start(data.unlabeled["strong"])
            gradients = torch.autograd.grad(F.cross_entropy(strong, strong.argmax(-1)), list(start.parameters()))
        else:
            assert float(method.feedback) == 0.0
    assert h != 0.0
    for with_feedback, without, gradient in zip(*ends, gradients, strict=True):
        torch.testing.assert_close(with_feedback - without, -LR * h * gradient, atol=1e-7, rtol=1e-3)


def test_baseline_is_a_running_mean_of_the_feedback() -> None:
    torch.manual_seed(0)
    plain_student = network()
    student = copy.deepcopy(plain_student)
    plain, method = begun(plain_student, choice="argmax"), begun(student, choice="argmax", baseline=0.9)
    learn(plain_student, plain, batch(size=8, inputs=4, seed=0))
    learn(student, method, batch(size=8, inputs=4, seed=0))
    raw = float(plain.feedback)
    close(method.baseline.value, 0.1 * raw)
    close(method.feedback, 0.9 * raw)


def test_labels_are_drawn_from_the_teacher_s_prediction() -> None:
    student = network()
    view = torch.randn(1, 4).expand(20_000, 4)
    data = Batch({"weak": torch.randn(4, 4)}, torch.tensor([0, 1, 2, 0]), {"weak": view, "strong": view}, torch.arange(20_000))
    pseudo = begun(student).step(Forward(student), data).pseudo
    frequencies = torch.bincount(pseudo.labels, minlength=CLASSES) / 20_000
    torch.testing.assert_close(frequencies, torch.softmax(student(view[:1]), -1)[0].detach(), atol=0.015, rtol=0)


def test_the_teacher_begins_as_a_copy_and_the_student_gets_no_gradient_from_it() -> None:
    student = network()
    method = begun(student)
    for ours, theirs in zip(parameters(method.teacher), student.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    before = parameters(method.teacher)
    learn(student, method, batch(size=8, inputs=4, seed=0))
    assert all(p.grad is None for p in student.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, parameters(method.teacher), strict=True))


def test_the_feedback_passes_move_no_running_statistics() -> None:
    """One tracked pass of the student, over labelled and strong views together; one of the teacher."""
    student, data = network(normalised=True), batch(size=8, inputs=4, seed=0)
    method = begun(student)
    learn(student, method, data)
    for net in (student, method.teacher):
        assert int(net.get_buffer("1.num_batches_tracked")) == 1


def test_in_the_end_the_student_learns_from_labels_alone() -> None:
    student, data = network(), batch(size=8, inputs=4, seed=0)
    method = begun(student, total_steps=10, finetune=0.2)
    for _ in range(8):
        learn(student, method, data)
    before = parameters(method.teacher)
    output = method.step(Forward(student), data)
    torch.testing.assert_close(output.loss, F.cross_entropy(student(data.labeled["weak"]), data.labels))
    assert output.pseudo is None
    assert output.unsupervised_loss is None
    learn(student, method, data)
    for old, new in zip(before, parameters(method.teacher), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_the_teacher(precision: str) -> None:
    run = trainer("meta_pseudo_labels", precision=precision)
    before = parameters(run.method.teacher)
    list(run.run())
    after = parameters(run.method.teacher)
    assert all(p.dtype == torch.float32 and bool(torch.isfinite(p).all()) for p in after)
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_teacher_runs_without_float16() -> None:
    layer, view = nn.Linear(2, 2), torch.randn(3, 2)
    for kind, expected in ((torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16)):
        with torch.autocast("cpu", dtype=kind), meta._no_float16("cpu"):
            assert layer(view).dtype == expected
    with meta._no_float16("cpu"):
        assert layer(view).dtype == torch.float32
