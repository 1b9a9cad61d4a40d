"""Thresholds that follow the state of learning, against hand-made values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from softmatch.errors import InputError
from softmatch.methods.match import Match, uda
from softmatch.step import Seen
from softmatch.thresholds import CurriculumThreshold, LossThreshold, RelativeThreshold, SelfAdaptiveThreshold, SignalAnnealing
from softmatch.weightings import Threshold
from tests.golden import CLASSES, MOMENTUM, STEP_1, STEP_2, close

FLEX_BATCHES = [
    ([0, 1, 2, 3, 4], [0.97, 0.96, 0.99, 0.60, 0.98], [0, 0, 0, 1, 2]),
    ([3, 5, 6, 7, 8], [0.96, 0.97, 0.40, 0.95, 0.55], [1, 0, 1, 0, 2]),
    ([0, 9, 10, 11, 6], [0.50, 0.30, 0.20, 0.949, 0.45], [2, 1, 2, 0, 1]),
]
FLEX_REGISTRY = [0, 0, 0, 1, 2, 0, -1, 0, -1, -1, -1, -1]


def rows(confidence: list[float], labels: list[int]) -> Tensor:
    """Rows whose maximum is the given number on the given class, also below 1/C; masks look at nothing else."""
    out = torch.zeros(len(confidence), CLASSES)
    out[torch.arange(len(labels)), torch.tensor(labels)] = torch.tensor(confidence)
    return out


def test_flexmatch_golden() -> None:
    weighting, found = CurriculumThreshold(CLASSES, 12), []
    for index, confidence, labels in FLEX_BATCHES:
        probs = rows(confidence, labels)
        before = weighting.counts.tolist()
        weighting.update(Seen(probs, index=torch.tensor(index)))
        found.append((before, weighting.learned.clone(), weighting.class_thresholds(), weighting(probs).tolist()))
    assert [counts for counts, *_ in found] == [[12, 0, 0, 0], [8, 3, 0, 1], [5, 5, 1, 1]]
    close(torch.stack([beta for _, beta, *_ in found]), [[0.0] * 3, [0.375, 0.0, 0.125], [1.0, 0.2, 0.2]])
    close(found[1][2], [0.219231, 0.0, 0.063333])
    close(found[2][2], [0.95, 0.105556, 0.105556])
    assert found[0][3] == [1.0, 1.0, 1.0, 1.0, 1.0]
    assert found[2][3] == [1.0, 1.0, 1.0, 0.0, 1.0]
    assert weighting.registry.rows[:12].tolist() == FLEX_REGISTRY
    close(weighting.statistics()["class_thresholds"], [0.95, 0.105556, 0.105556])


def test_flexmatch_without_threshold_warmup_golden() -> None:
    weighting = CurriculumThreshold(CLASSES, 12, warmup=False)
    for index, confidence, labels in FLEX_BATCHES[:2]:
        weighting.update(Seen(rows(confidence, labels), index=torch.tensor(index)))
    close(weighting.learned, [1.0, 0.0, 1 / 3])
    close(weighting.class_thresholds(), [0.95, 0.0, 0.19])


@pytest.mark.parametrize(
    ("mapping", "thresholds", "mask"),
    [
        ("concave", [0.95, 0.249883, 0.249883], [1.0, 1.0, 0.0, 0.0, 1.0]),
        ("linear", [0.95, 0.19, 0.19], [1.0, 1.0, 1.0, 0.0, 1.0]),
    ],
)
def test_flexmatch_mappings_golden(mapping: str, thresholds: list[float], mask: list[int]) -> None:
    weighting = CurriculumThreshold(CLASSES, 12, mapping=mapping)  # type: ignore[arg-type]  # parametrised literal
    for index, confidence, labels in FLEX_BATCHES:
        probs = rows(confidence, labels)
        weighting.update(Seen(probs, index=torch.tensor(index)))
    close(weighting.class_thresholds(), thresholds)
    assert weighting(probs).tolist() == mask
    assert weighting.registry.rows[:12].tolist() == FLEX_REGISTRY


def test_flexmatch_later_duplicate_wins() -> None:
    weighting = CurriculumThreshold(CLASSES, 4)
    weighting.update(Seen(rows([0.99, 0.98, 0.97], [0, 1, 2]), index=torch.tensor([2, 0, 2])))
    assert weighting.registry.rows[:4].tolist() == [1, -1, 2, -1]
    assert weighting.counts.tolist() == [2, 0, 1, 1]
    # The later one is not confident: it does not register and so does not win.
    weighting.update(Seen(rows([0.99, 0.50], [0, 1]), index=torch.tensor([2, 2])))
    assert weighting.registry.rows[:4].tolist() == [1, -1, 0, -1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 6), st.integers(0, CLASSES - 1), st.sampled_from([0.5, 0.95, 0.99])), min_size=1, max_size=12
        ),
        max_size=6,
    )
)
def test_flexmatch_counts_equal_a_recount(batches: list[list[tuple[int, int, float]]]) -> None:
    weighting, brute = CurriculumThreshold(CLASSES, 7), [-1] * 7
    for batch in batches:
        weighting.update(Seen(rows([c for *_, c in batch], [y for _, y, _ in batch]), index=torch.tensor([i for i, *_ in batch])))
        for index, label, confidence in batch:
            if confidence >= 0.95:
                brute[index] = label
        assert weighting.registry.rows.tolist() == brute
        assert weighting.counts.tolist() == [brute.count(c) for c in range(-1, CLASSES)]


@pytest.mark.parametrize("index", [None, [-1, 0, 1, 2], [0, 1, 2, 12]])
def test_flexmatch_refuses_missing_or_outside_index(index: list[int] | None) -> None:
    weighting = CurriculumThreshold(CLASSES, 12)
    with pytest.raises(InputError, match="index"):
        weighting.update(STEP_1.seen(None if index is None else torch.tensor(index)))
    assert weighting.counts.tolist() == [12, 0, 0, 0]


def test_flexmatch_refuses_an_unknown_mapping() -> None:
    with pytest.raises(ValueError, match="mapping"):
        CurriculumThreshold(CLASSES, 12, mapping="quadratic")  # type: ignore[arg-type]  # wrong on purpose


DASH_LADDER = [
    1.200120, 0.944976, 0.744076, 0.585887, 0.461328, 0.363250, 0.286024,
    0.225216, 0.177335, 0.139634, 0.109948, 0.086573, 0.068168, 0.053676, 0.05, 0.05,
]  # fmt: skip


def test_dash_ladder_golden() -> None:
    weighting, found = LossThreshold(warmup=0, every=1, initial_loss=1.2), []
    for _ in DASH_LADDER:
        weighting.update(STEP_1.seen())
        found.append(weighting.loss_threshold())
    close(torch.stack(found), DASH_LADDER)


def test_dash_level_lasts_for_every_updates() -> None:
    weighting, found = LossThreshold(warmup=2, every=3, initial_loss=1.2), []
    for _ in range(9):
        weighting.update(STEP_1.seen())
        found.append(weighting.loss_threshold())
    close(torch.stack(found), [1.200120] * 5 + [0.944976] * 3 + [0.744076])


@pytest.mark.parametrize(("soft", "expected"), [(False, [1.0, 0.0, 1.0, 0.0]), (True, [1.0, 0.0, 0.0, 0.0])])
def test_dash_selection_golden(soft: bool, expected: list[float]) -> None:
    weighting = LossThreshold(warmup=0, every=1, initial_loss=1.2, soft_selection=soft)
    weighting.updates.fill_(8)  # j = 7
    close(weighting.statistics()["loss_threshold"], 0.225216)
    assert weighting(STEP_1.weak).tolist() == expected


@pytest.mark.parametrize(
    ("soft", "losses"), [(False, [0.105361, 0.597837, 0.223144, 0.867501]), (True, [0.123430, 0.764310, 0.286786, 0.963105])]
)
def test_dash_losses_golden(soft: bool, losses: list[float]) -> None:
    """A sample is kept at a threshold just above its golden loss, and dropped just below it."""
    for row, loss in enumerate(losses):
        for offset, kept in ((2e-6, 1.0), (-2e-6, 0.0)):
            weighting = LossThreshold(warmup=0, initial_loss=loss + offset, factor=1.0, soft_selection=soft)
            weighting.updates.fill_(1)
            assert float(weighting(STEP_1.weak)[row]) == kept


def test_dash_keeps_a_loss_equal_to_its_threshold() -> None:
    weighting = LossThreshold(warmup=0, initial_loss=-float(STEP_1.weak[1, 0].log()), factor=1.0, soft_selection=False)
    weighting.updates.fill_(1)
    assert weighting(STEP_1.weak).tolist() == [1.0, 1.0, 1.0, 0.0]


def test_dash_targets_are_sharpened_until_the_floor_and_hard_afterwards() -> None:
    weighting = LossThreshold(warmup=0, every=1, initial_loss=1.2)
    weighting.updates.fill_(14)  # j = 13, ρ = .053676
    squares = STEP_1.weak**2
    torch.testing.assert_close(weighting.target(STEP_1.weak), squares / squares.sum(-1, keepdim=True))
    weighting.updates.fill_(15)  # j = 14, the floor
    assert weighting.target(STEP_1.weak).argmax(-1).tolist() == [0, 0, 1, 0]
    assert weighting.target(STEP_1.weak).max(-1).values.tolist() == [1.0] * 4


def test_dash_gives_no_weight_during_warmup_and_measures_its_last_tenth() -> None:
    weighting, losses = LossThreshold(warmup=20, factor=1.0), []
    for step in range(22):
        probs = torch.tensor([[0.9 - 0.03 * step, 0.1 + 0.03 * step, 0.0]])
        weighting.update(Seen(STEP_1.weak, probs, torch.tensor([0])))
        losses.append(-float(probs[0, 0].log()))
        assert float(weighting(STEP_1.weak).sum()) == 0.0 if step < 20 else float(weighting(STEP_1.weak).sum()) > 0
    close(weighting.loss_threshold(), sum(losses[18:20]) / 2)


def test_dash_without_warmup_measures_its_first_batch() -> None:
    weighting = LossThreshold(warmup=0, factor=1.0)
    weighting.update(STEP_1.seen())
    weighting.update(STEP_2.seen())
    close(weighting.loss_threshold(), 0.510826)


def test_dash_needs_labelled_predictions_unless_the_loss_is_given() -> None:
    with pytest.raises(InputError, match="labelled"):
        LossThreshold().update(Seen(STEP_1.weak))
    LossThreshold(initial_loss=1.2).update(Seen(STEP_1.weak))


def test_relative_threshold_follows_the_labelled_confidence() -> None:
    weighting = RelativeThreshold(0.9)
    weighting.update(STEP_1.seen())
    close(weighting.statistics()["threshold"], 0.54)
    weighting.update(STEP_2.seen())
    close(weighting.threshold, 0.6075)
    assert weighting(STEP_2.weak).tolist() == [1.0, 0.0, 0.0, 1.0]
    with pytest.raises(InputError, match="labelled"):
        weighting.update(Seen(STEP_1.weak))


def test_freematch_fresh_golden() -> None:
    weighting = SelfAdaptiveThreshold(CLASSES, MOMENTUM)
    weighting.update(STEP_1.seen())
    close(weighting.level.value, 0.366750)
    close(weighting.marginal.value, [0.34875, 0.33475, 0.3165])
    close(weighting.histogram.value, [0.375, 0.325, 0.3])
    close(weighting.class_thresholds(), [0.366750, 0.352027, 0.332835])
    weights = weighting(STEP_1.weak)
    assert weights.tolist() == [1.0, 1.0, 1.0, 1.0]
    close(weighting.fairness(STEP_1.strong.log(), weights), -1.119453)
    weighting.update(STEP_2.seen())
    close(weighting.statistics()["threshold"], 0.393825)
    close(weighting.statistics()["class_thresholds"], [0.393825, 0.363284, 0.339515])
    weights = weighting(STEP_2.weak)
    assert weights.tolist() == [1.0, 0.0, 1.0, 1.0]
    close(weighting.fairness(STEP_2.strong.log(), weights), -1.167187)


def test_freematch_warm_golden() -> None:
    weighting = SelfAdaptiveThreshold(CLASSES, MOMENTUM)
    weighting.level.value.fill_(0.85)
    weighting.marginal.value.copy_(torch.tensor([0.5, 0.3, 0.2]))
    weighting.update(STEP_1.seen())
    close(weighting.level.value, 0.831750)
    close(weighting.class_thresholds(), [0.831750, 0.508222, 0.327697])
    assert weighting(STEP_1.weak).tolist() == [1.0, 0.0, 1.0, 0.0]
    weighting.update(STEP_2.seen())
    close(weighting.level.value, 0.812325)
    assert weighting(STEP_2.weak).tolist() == [1.0, 0.0, 1.0, 1.0]


def test_freematch_clip_bounds_the_class_thresholds() -> None:
    weighting = SelfAdaptiveThreshold(CLASSES, MOMENTUM, clip=(0.34, 0.36))
    weighting.update(STEP_1.seen())
    close(weighting.class_thresholds(), [0.36, 0.352027, 0.34])


def test_fairness_without_selected_samples_is_zero_with_a_zero_gradient() -> None:
    logits = STEP_1.strong.log().requires_grad_()
    fairness = SelfAdaptiveThreshold(CLASSES).fairness(logits, torch.zeros(4))
    fairness.backward()
    assert float(fairness.detach()) == 0.0
    assert float(logits.grad.abs().sum()) == 0.0


LABELED = torch.tensor([[0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])
LABELS = torch.tensor([0, 0])


def at(calls: int, schedule: str = "linear", total_steps: int = 4) -> SignalAnnealing:
    annealing = SignalAnnealing(CLASSES, total_steps, schedule)  # type: ignore[arg-type]  # parametrised literal
    annealing.calls.fill_(calls)
    return annealing


@pytest.mark.parametrize(("schedule", "expected"), [("linear", 0.5), ("log", 0.808997), ("exp", 0.349012)])
def test_schedules_golden(schedule: str, expected: float) -> None:
    close(at(1, schedule).threshold(), expected)


@pytest.mark.parametrize("schedule", ["linear", "log", "exp"])
def test_schedules_rise_from_about_one_over_c_to_about_one(schedule: str) -> None:
    values = torch.stack([at(t, schedule, 100).threshold() for t in range(130)])
    assert bool((values.diff() >= 0).all())
    close(values[0], 1 / 3, tolerance=5e-3)
    close(values[100], 1.0, tolerance=5e-3)
    assert float(values[129]) == float(values[100])


def test_authors_form_golden() -> None:
    annealing = at(2)
    close(annealing.threshold(), 0.666667)
    close(annealing(LABELED.log(), LABELS), 1.060132)


def test_usb_form_is_a_supervised_loss_of_ones_own_golden() -> None:
    """USB drops by max p and divides by the whole batch; Match takes any such function."""

    def usb(logits: Tensor, labels: Tensor) -> Tensor:
        kept = logits.softmax(-1).max(-1).values <= at(2).threshold()
        return (F.cross_entropy(logits, labels, reduction="none") * kept).mean()

    method = Match(Threshold(0.8), supervised_loss=usb)
    close(method.compute(LABELED.log(), LABELS, STEP_1.weak.log(), STEP_1.strong.log()).supervised_loss, 0.255413)


def test_learned_samples_are_hidden_and_the_rest_averaged() -> None:
    annealing = at(1)  # η = .5
    close(annealing(LABELED.log(), LABELS), 1.609438)
    assert float(at(1)(LABELED[1:].log(), LABELS[1:])) == 0.0


def test_a_sample_at_the_threshold_is_kept() -> None:
    close(at(1)(torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.tensor([0])), 0.693147)


def test_only_training_calls_are_counted() -> None:
    annealing = at(0)
    annealing(LABELED.log(), LABELS)
    assert int(annealing.calls) == 1
    annealing.eval()
    annealing(LABELED.log(), LABELS)
    assert int(annealing.calls) == 1


def test_hidden_samples_have_no_gradient() -> None:
    logits = LABELED.log().requires_grad_()
    at(1)(logits, LABELS).backward()
    assert float(logits.grad[0].abs().sum()) > 0
    assert float(logits.grad[1].abs().sum()) == 0.0


def test_uda_takes_a_schedule_and_refuses_an_unknown_one() -> None:
    method = uda(CLASSES, annealing="exp", total_steps=4)
    assert method.supervised_loss.schedule == "exp"
    STEP_1.output(method)
    assert int(method.state_dict()["supervised_loss.calls"]) == 1
    with pytest.raises(ValueError, match="schedule"):
        uda(CLASSES, annealing="sqrt")  # type: ignore[arg-type]  # wrong on purpose
