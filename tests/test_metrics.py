"""Quantity f and quality g: definitions, unknown truth, empty windows, and sums over batches."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from softmatch.metrics import BINS, PseudoLabelMeter, PseudoLabels, class_quality, quality, quantity
from tests.golden import CLASSES, STEP_1, close

WEIGHTS = torch.tensor([1.0, 0.005587, 1.0, 0.309527])
LABELS = torch.tensor([0, 0, 1, 0])


def batch(weights: torch.Tensor, labels: torch.Tensor, confidence: torch.Tensor | None = None) -> PseudoLabels:
    return PseudoLabels(labels, weights, weights / 2, torch.full_like(weights, 0.5) if confidence is None else confidence)


def read(meter: PseudoLabelMeter) -> Mapping[str, Any]:
    return meter.read()


def test_golden() -> None:
    close(quantity(WEIGHTS), 0.578779)
    close(quality(WEIGHTS, LABELS, STEP_1.truth), 0.863888)
    close(class_quality(WEIGHTS, LABELS, STEP_1.truth, CLASSES), [0.760390, 1.0, math.nan])


def test_class_quality_by_truth() -> None:
    truth = torch.tensor([0, 1, 1, -1])
    found = class_quality(WEIGHTS, LABELS, truth, CLASSES, by="truth")
    close(found, [1.0, 1.0 / 1.005587, math.nan])
    with pytest.raises(ValueError, match="by"):
        class_quality(WEIGHTS, LABELS, truth, CLASSES, by="class")


def test_all_zero_weights_have_quantity_zero_and_no_quality() -> None:
    zeros = torch.zeros(4)
    assert float(quantity(zeros)) == 0.0
    assert math.isnan(float(quality(zeros, LABELS, STEP_1.truth)))
    meter = PseudoLabelMeter(CLASSES)
    meter.update(batch(zeros, LABELS), STEP_1.truth)
    figures = read(meter)
    assert figures["quantity"] == 0.0
    assert figures["quality"] is None
    assert figures["utilization"] == 0.0
    assert figures["classes"]["quantity"] == [0.0, 0.0, None]


def test_unknown_truth_counts_in_quantity_and_not_in_quality() -> None:
    truth = torch.tensor([0, -1, -1, 2])
    close(quality(WEIGHTS, LABELS, truth), 1.0 / 1.309527)
    meter = PseudoLabelMeter(CLASSES)
    meter.update(batch(WEIGHTS, LABELS), truth)
    figures = read(meter)
    close(figures["quantity"], 0.578779)
    close(figures["quality"], 1.0 / 1.309527)
    assert figures["classes"]["quality"][1] is None
    assert sum(figures["histogram"]["all"]) == 4
    assert sum(figures["histogram"]["wrong"]) == 1
    assert sum(figures["histogram"]["right"]) == 1


def test_meter_equals_the_definitions_on_all_batches_at_once() -> None:
    meter, parts = PseudoLabelMeter(5), []
    for size in (1, 7, 64, 33):
        weights, labels = torch.rand(size) * (torch.rand(size) > 0.3), torch.randint(0, 5, (size,))
        truth = torch.where(torch.rand(size) < 0.5, labels, torch.randint(-1, 5, (size,)))
        meter.update(batch(weights, labels), truth)
        parts.append((weights, labels, truth))
    weights, labels, truth = (torch.cat(column) for column in zip(*parts, strict=True))
    figures = read(meter)
    assert figures["samples"] == 105
    close(figures["quantity"], float(quantity(weights)))
    close(figures["quality"], float(quality(weights, labels, truth)))
    close(figures["utilization"], float((weights > 0).float().mean()))
    close(figures["classes"]["quality"], class_quality(weights, labels, truth, 5).tolist())
    by_class = [weights[labels == c] for c in range(5)]
    assert figures["classes"]["samples"] == [len(w) for w in by_class]
    close(figures["classes"]["quantity"], [float(w.mean()) for w in by_class])
    close(figures["classes"]["unaligned_quantity"], [float(w.mean()) / 2 for w in by_class])


def test_a_reset_starts_a_new_window_and_reading_does_not() -> None:
    meter = PseudoLabelMeter(CLASSES)
    meter.update(batch(WEIGHTS, LABELS), STEP_1.truth)
    assert read(meter) == read(meter)
    other = PseudoLabelMeter(CLASSES)
    other.load_state(meter.state())
    assert read(other) == read(meter)
    first = PseudoLabelMeter(CLASSES, fewest=9)
    first.load_state({name: meter.state()[name] for name in ("class_sums", "histograms", "used")})  # an older checkpoint
    assert read(first) == read(meter)
    meter.reset()
    figures = read(meter)
    assert figures["samples"] == 0
    assert figures["quantity"] is figures["quality"] is figures["utilization"] is None
    assert sum(figures["histogram"]["all"]) == 0


def test_a_window_has_enough_samples_where_batches_are_small() -> None:
    """Batches of four, at least six samples: λ is 1 in the first batch, 2 in the second, and so on."""
    meter, found = PseudoLabelMeter(CLASSES, fewest=6), list[tuple[int, float | None]]()
    for number in range(1, 6):
        meter.update(batch(torch.full((4,), float(number)), LABELS), STEP_1.truth)
        resumed = PseudoLabelMeter(CLASSES, fewest=6)
        resumed.load_state(meter.state())
        assert read(resumed) == read(meter)
        found.append((read(meter)["samples"], read(meter)["quantity"]))
        meter.reset()
        meter.reset()  # changes nothing
    assert found == [(4, 1.0), (8, 1.5), (12, 2.0), (8, 3.5), (12, 4.0)]
    assert read(meter)["samples"] == 0, "nothing was judged since"
    meter.update(batch(torch.full((8,), 6.0), torch.cat([LABELS, LABELS])), torch.cat([STEP_1.truth, STEP_1.truth]))
    meter.reset()
    meter.update(batch(torch.full((8,), 7.0), torch.cat([LABELS, LABELS])), torch.cat([STEP_1.truth, STEP_1.truth]))
    assert (read(meter)["samples"], read(meter)["quantity"]) == (8, 7.0), "large batches need no earlier ones"


def test_histogram_has_the_extremes_in_the_first_and_last_bin() -> None:
    meter = PseudoLabelMeter(CLASSES)
    meter.update(batch(WEIGHTS, LABELS, torch.tensor([0.0, 0.5, 0.51, 1.0])), STEP_1.truth)
    found = read(meter)["histogram"]
    assert len(found["all"]) == BINS
    assert [found["all"][b] for b in (0, 25, BINS - 1)] == [1, 2, 1]
    assert [found["right"][b] for b in (0, 25, BINS - 1)] == [1, 1, 0]
    assert [found["wrong"][b] for b in (0, 25, BINS - 1)] == [0, 1, 1]
