"""The unified objective: golden runs of SoftMatch and the other compositions, gradients, and training versus evaluation."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch import targets
from softmatch.alignments import Alignment, NoAlignment
from softmatch.errors import InputError
from softmatch.methods.forward import Forward
from softmatch.methods.match import Match, dash, fixmatch, flexmatch, freematch, pseudo_label, softmatch, uda
from softmatch.metrics import class_quality, quality, quantity
from softmatch.thresholds import CurriculumThreshold, LossThreshold, SelfAdaptiveThreshold
from softmatch.weightings import Constant, Threshold, TruncatedGaussian
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, WARM_MARGINAL, WARM_MEAN, WARM_VARIANCE, close
from tests.methods.networks import batch

NAN = float("nan")


def warm(method: Match) -> Match:
    """The same method with the golden numbers' warm state."""
    method.weighting.mean.value.fill_(WARM_MEAN)
    method.weighting.variance.value.fill_(WARM_VARIANCE)
    if isinstance(method.alignment, Alignment):
        method.alignment.marginal.value.copy_(torch.tensor(WARM_MARGINAL))
    return method


def usb_softmatch() -> Match:
    """Parity with USB is a composition: statistics of the aligned predictions, ε = 1e-6."""
    return Match(TruncatedGaussian(CLASSES, MOMENTUM), Alignment(CLASSES, momentum=MOMENTUM, epsilon=1e-6), statistics="aligned")


def test_softmatch_warm_paper_golden() -> None:
    """Run B. Rows 2 and 4 of step 1 have another argmax when aligned: labels must come from the raw predictions."""
    method = warm(softmatch(CLASSES, momentum=MOMENTUM))
    expected = [
        (STEP_1, 0.741750, 0.040889, [0, 0, 1, 0], [1.0, 0.005587, 1.0, 0.309527], (0.578779, 0.863888),
         [0.760390, 1.0, NAN], (0.510826, 0.279070, 0.789895)),
        (STEP_2, 0.731325, 0.043069, [0, 0, 2, 1], [1.0, 0.041540, 1.0, 0.953290], (0.748707, 0.986129),
         [0.960117, 1.0, 1.0], (0.393729, 0.416115, 0.809844)),
    ]  # fmt: skip
    for step, mean, variance, labels, weights, (f, g), by_class, (labeled, unlabeled, total) in expected:
        output = step.output(method)
        close(method.statistics()["mean"], mean)
        close(method.statistics()["variance"], variance)
        assert output.pseudo.labels.tolist() == labels
        close(output.pseudo.weights, weights)
        close(quantity(output.pseudo.weights), f)
        close(quality(output.pseudo.weights, output.pseudo.labels, step.truth), g)
        close(class_quality(output.pseudo.weights, output.pseudo.labels, step.truth, CLASSES), by_class)
        close(output.supervised_loss, labeled)
        close(output.unsupervised_loss, unlabeled)
        close(output.loss, total)
        close(output.pseudo.confidence, step.weak.max(-1).values.tolist())
    close(method.statistics()["marginal"], [0.494125, 0.304275, 0.201600])


def test_batch_statistics_golden() -> None:
    """μ_b and v_b: with momentum 0 the averages are the statistics of the batch."""
    method = softmatch(CLASSES, momentum=0.0)
    for step, mean, variance in ((STEP_1, 0.667500, 0.048892), (STEP_2, 0.637500, 0.062692)):
        step.output(method)
        close(method.statistics()["mean"], mean)
        close(method.statistics()["variance"], variance)


def test_softmatch_fresh_paper_golden() -> None:
    """Run A."""
    method = softmatch(CLASSES, momentum=MOMENTUM)
    output = STEP_1.output(method)
    close(method.statistics()["mean"], 0.366750)
    close(method.statistics()["variance"], 0.904889)
    close(output.pseudo.weights, [1.0, 1.0, 1.0, 1.0])
    close(output.loss, 1.143432)
    output = STEP_2.output(method)
    close(method.statistics()["mean"], 0.393825)
    close(method.statistics()["variance"], 0.820669)
    close(output.pseudo.weights[1], 0.993976)
    close(quantity(output.pseudo.weights), 0.998494)
    close(quality(output.pseudo.weights, output.pseudo.labels, STEP_2.truth), 0.751131)
    close(output.unsupervised_loss, 0.640258)
    close(output.loss, 1.033987)


def test_softmatch_warm_usb_golden() -> None:
    """Run C."""
    method = warm(usb_softmatch())
    expected = [
        (STEP_1, 0.739859, 0.039405, [1.0, 0.004891, 1.0, 0.305033], 0.277770, 0.510826 + 0.277770),
        (STEP_2, 0.736747, 0.039020, [1.0, 0.025778, 1.0, 0.930395], 0.409581, 0.803310),
    ]
    for step, mean, variance, weights, unlabeled, total in expected:
        output = step.output(method)
        close(method.statistics()["mean"], mean)
        close(method.statistics()["variance"], variance)
        close(output.pseudo.weights, weights)
        close(output.unsupervised_loss, unlabeled)
        close(output.loss, total)


@pytest.mark.parametrize(
    ("method", "weights"),
    [
        (softmatch(CLASSES, momentum=MOMENTUM, align="none"), [1.0, 0.165559, 1.0, 0.006323]),
        (softmatch(CLASSES, momentum=MOMENTUM, k=1), [1.0, 0.273402, 1.0, 0.745890]),
        (softmatch(CLASSES, momentum=MOMENTUM, k=3), [1.0, 0.000009, 1.0, 0.071461]),
        (softmatch(CLASSES, momentum=MOMENTUM, align="prior", class_prior=[0.6, 0.3, 0.1]), [1.0, 0.518801, 1.0, 0.237298]),
        (softmatch(CLASSES, momentum=MOMENTUM, estimation="per_class"), [1.0, 0.007484, 1.0, 0.341873]),
    ],
    ids=["no-alignment", "k=1", "k=3", "prior", "per-class"],
)
def test_softmatch_variants_golden(method: Match, weights: list[float]) -> None:
    pseudo = STEP_1.output(warm(copy.deepcopy(method))).pseudo
    close(pseudo.weights, weights)


def test_unaligned_weights_are_the_weights_without_alignment() -> None:
    aligned = STEP_1.output(warm(softmatch(CLASSES, momentum=MOMENTUM))).pseudo
    without = STEP_1.output(warm(softmatch(CLASSES, momentum=MOMENTUM, align="none"))).pseudo
    close(aligned.unaligned_weights, [1.0, 0.165559, 1.0, 0.006323])
    assert without.unaligned_weights is without.weights


def test_softmatch_takes_another_weighting_in_the_place_of_its_own() -> None:
    method = softmatch(CLASSES, weighting=Constant(0.5), align="labels")
    assert isinstance(method.weighting, Constant)
    assert isinstance(method.alignment, Alignment)
    pseudo = STEP_1.output(method).pseudo
    assert pseudo.weights.tolist() == [0.5] * 4


def test_fixmatch_golden() -> None:
    output = STEP_1.output(fixmatch(CLASSES, threshold=0.8))
    assert output.pseudo.weights.tolist() == [1.0, 0.0, 1.0, 0.0]
    close(output.unsupervised_loss, 0.196864)
    close(quantity(output.pseudo.weights), 0.5)
    close(quality(output.pseudo.weights, output.pseudo.labels, STEP_1.truth), 1.0)


def test_fixmatch_max_weight_scales_the_unlabelled_loss() -> None:
    close(STEP_1.output(fixmatch(CLASSES, threshold=0.8, max_weight=10.0)).unsupervised_loss, 1.96864, tolerance=1e-5)


def test_flexmatch_selects_everything_before_anything_is_registered() -> None:
    method = flexmatch(CLASSES, num_unlabeled=8, threshold=0.9, mapping="concave", threshold_warmup=False)
    output = STEP_1.output(method, torch.arange(4))
    assert output.pseudo.weights.tolist() == [1.0] * 4
    assert isinstance(method.weighting, CurriculumThreshold)
    assert (method.weighting.mapping, method.weighting.warmup) == ("concave", False)
    assert method.weighting.registry[:4].tolist() == [0, -1, -1, -1]
    assert "class_thresholds" in method.statistics()


def test_freematch_adds_its_fairness_term_golden() -> None:
    method = freematch(CLASSES, momentum=MOMENTUM, fairness=0.05, clip=None)
    for step, fairness in ((STEP_1, -1.119453), (STEP_2, -1.167187)):
        output = step.output(method)
        assert output.unsupervised_loss is not None
        close(output.loss - output.supervised_loss - output.unsupervised_loss, 0.05 * fairness)
    assert isinstance(method.weighting, SelfAdaptiveThreshold)


def test_uda_golden() -> None:
    """The golden confidence .80 is the threshold itself: strictly greater leaves row 3 out."""
    close(STEP_1.output(uda(CLASSES)).unsupervised_loss, 0.086591)
    sharpened = partial(targets.sharpened, temperature=0.4)
    close(STEP_1.output(Match(Threshold(0.8), target=sharpened)).unsupervised_loss, 0.201109)
    close(STEP_1.output(Match(Threshold(0.8), target=targets.soft)).unsupervised_loss, 0.299801)


def test_dash_is_supervised_first_and_then_soft() -> None:
    method = dash(CLASSES, warmup=1, every=1)
    close(STEP_1.output(method).unsupervised_loss, 0.0)
    output = STEP_2.output(method)
    assert isinstance(method.weighting, LossThreshold)
    close(method.statistics()["loss_threshold"], 1.0001 * 0.510826)
    squares = STEP_2.weak**2 / (STEP_2.weak**2).sum(-1, keepdim=True)
    selected = -(squares * STEP_2.weak.log()).sum(-1) <= 1.0001 * 0.510826
    assert selected.tolist() == [True, False, False, False]
    expected = -(squares * STEP_2.strong.log()).sum(-1)[selected].sum() / 4
    close(output.unsupervised_loss, float(expected))


def test_dash_shares_of_the_papers_schedule_follow_the_run() -> None:
    paper, short = dash(CLASSES).weighting, dash(CLASSES, total_steps=2**10).weighting
    assert (paper.warmup, paper.every) == (2048, 10240)
    assert (short.warmup, short.every) == (2, 10)


def leaves() -> tuple[Tensor, Tensor, Tensor]:
    """Labelled, weak and strong logits that can take a gradient."""
    labeled, weak, strong = (p.log().requires_grad_() for p in (STEP_1.labeled, STEP_1.weak, STEP_1.strong))
    return labeled, weak, strong


@pytest.mark.parametrize(
    "method", [softmatch(CLASSES), fixmatch(CLASSES, threshold=0.5), freematch(CLASSES), uda(CLASSES, threshold=0.5)]
)
def test_gradient_reaches_labelled_and_strong_logits_and_not_the_weak(method: Match) -> None:
    labeled, weak, strong = leaves()
    copy.deepcopy(method)(labeled, STEP_1.labels, weak, strong).backward()
    assert float(labeled.grad.abs().sum()) > 0
    assert float(strong.grad.abs().sum()) > 0
    assert weak.grad is None


def test_softmatch_gradient_is_weight_times_prediction_less_label() -> None:
    labeled, weak, strong = leaves()
    output = warm(softmatch(CLASSES, momentum=MOMENTUM)).compute(labeled, STEP_1.labels, weak, strong)
    output.loss.backward()
    expected = output.pseudo.weights[:, None] * (STEP_1.strong - F.one_hot(output.pseudo.labels, CLASSES)) / 4
    torch.testing.assert_close(strong.grad, expected)


def test_pseudo_label_gradient_flows_through_its_one_view() -> None:
    method = pseudo_label(CLASSES, total_steps=5)
    labeled, weak, _ = leaves()
    method(labeled, STEP_1.labels, weak).backward()
    assert float(weak.grad.abs().sum()) == 0.0  # the ramp starts at zero
    method(labeled, STEP_1.labels, weak).backward()
    torch.testing.assert_close(weak.grad, 0.5 * (STEP_1.weak - targets.hard(STEP_1.weak)) / 4)


def test_pseudo_label_with_a_threshold() -> None:
    method = pseudo_label(CLASSES, total_steps=1, threshold=0.5, max_weight=2.0)
    for _ in range(2):
        pseudo = method.compute(STEP_1.labeled.log(), STEP_1.labels, STEP_1.weak.log()).pseudo
    assert pseudo.weights.tolist() == [2.0, 2.0, 2.0, 0.0]


def test_align_targets_makes_labels_of_the_aligned_predictions() -> None:
    method = Match(Constant(), Alignment(CLASSES, momentum=MOMENTUM), align_targets=True)
    method.alignment.marginal.value.copy_(torch.tensor(WARM_MARGINAL))
    pseudo = STEP_1.output(method).pseudo
    assert pseudo.labels.tolist() == [0, 1, 1, 2]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="statistics"):
        Match(Constant(), statistics="both")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="class_prior"):
        softmatch(CLASSES, align="prior")
    with pytest.raises(InputError, match="class_counts"):
        softmatch(CLASSES, align="estimated")
    with pytest.raises(InputError, match="align"):
        softmatch(CLASSES, align="unifrom")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="shape"):
        softmatch(CLASSES)(STEP_1.labeled, STEP_1.labels, STEP_1.weak, STEP_1.strong[:3])


def test_estimated_shares_wait_for_their_survey_and_nothing_is_learned_from_pseudo_labels_before() -> None:
    method = softmatch(CLASSES, align="estimated", class_counts=[2, 1, 1], total_steps=10, momentum=MOMENTUM)
    assert method.survey_every == 2
    losses = []
    for _ in range(2):
        losses.append(float(STEP_1.output(method).unsupervised_loss))
    method.survey(STEP_1.weak)
    assert method.survey_every is None
    losses.append(float(STEP_1.output(method).unsupervised_loss))
    assert losses[:2] == [0.0, 0.0]
    assert losses[2] > 0.1
    counted = torch.bincount(STEP_1.weak.argmax(-1), minlength=CLASSES) + torch.tensor([2, 1, 1])
    close(method.alignment.goal, (counted / counted.sum()).tolist())


def test_curve_and_statistics_of_a_match() -> None:
    method = softmatch(CLASSES, align="none")
    assert isinstance(method.alignment, NoAlignment)
    assert set(method.statistics()) == {"mean", "variance"}
    curve = method.weight_curve(CLASSES)
    close(curve[1], [1.0] * 101)


def test_the_strong_view_is_neither_forgotten_nor_ignored() -> None:
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    with pytest.raises(InputError, match="needs strong_logits"):
        fixmatch(3)(logits, labels, logits)
    with pytest.raises(InputError, match="do not give strong_logits"):
        pseudo_label(3)(logits, labels, logits, logits)


@pytest.mark.parametrize("make", [softmatch, freematch, fixmatch], ids=lambda make: make.__name__)
def test_strong_views_of_the_surest_samples_alone(make: Callable[..., Match]) -> None:
    network, data = torch.nn.Linear(5, 3), batch("weak", "strong", size=8, seed=0)
    whole, part = make(3), make(3)
    with torch.no_grad():
        network.weight.mul_(6)  # some predictions are sure, some are not
    every = whole.step(Forward(network), data).pseudo
    assert every is not None
    rows = every.weights.argsort(descending=True, stable=True)[:4]
    found = part.step(Forward(network, strong_share=0.5), data)
    strong = network(data.unlabeled["strong"][rows])
    expected = (every.weights[rows] * F.cross_entropy(strong, every.labels[rows], reduction="none")).mean()
    close(found.unsupervised_loss, float(expected.detach()))
    assert found.pseudo is not None
    assert sorted(found.pseudo.weights.nonzero().flatten().tolist()) == sorted(r for r in rows.tolist() if every.weights[r])
    assert torch.equal(found.pseudo.weights[rows], every.weights[rows])
    for ours, theirs in zip(part.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), "the state learns from all samples"


class SecondOfTwo(Forward):
    """The second of two processes: it has the strong views of the last four samples, and here is told no others."""

    def own(self, whole: Tensor) -> Tensor:
        return whole[4:]


def test_a_process_takes_the_surest_of_its_own_rows() -> None:
    network, data = torch.nn.Linear(5, 3), batch("weak", "strong", size=8, seed=0)
    every = softmatch(3).step(Forward(network), data).pseudo
    assert every is not None
    rows = 4 + every.weights[4:].argsort(descending=True, stable=True)[:2]
    own = replace(data, unlabeled={**data.unlabeled, "strong": data.unlabeled["strong"][4:]})
    found = softmatch(3).step(SecondOfTwo(network, strong_share=0.5), own)
    strong = network(data.unlabeled["strong"][rows])
    expected = (every.weights[rows] * F.cross_entropy(strong, every.labels[rows], reduction="none")).mean()
    close(found.unsupervised_loss, float(expected.detach()))
