"""Running averages: the recursion, its three starts, and the momentum that follows from the length of a run."""

import pytest
import torch

from softmatch.averages import RunningAverage, momentum_for


def test_momentum_follows_the_number_of_steps() -> None:
    assert momentum_for(2**20) == 0.999
    assert momentum_for(2000) == pytest.approx(0.98)
    assert momentum_for(100) == 0.9
    assert momentum_for(0) == 0.9


def test_paper_start_is_the_plain_recursion() -> None:
    average = RunningAverage(torch.tensor(1.0), momentum=0.9)
    expected = 1.0
    for value in (0.3, 0.5, 0.2):
        average.update(torch.tensor(value))
        expected = 0.9 * expected + 0.1 * value
    assert float(average.value) == pytest.approx(expected, abs=1e-6)
    assert int(average.updates) == 3


def test_first_start_replaces_the_initial_value() -> None:
    average = RunningAverage(torch.tensor([7.0, 7.0]), momentum=0.9, start="first")
    average.update(torch.tensor([0.25, 0.5]))
    assert average.value.tolist() == [0.25, 0.5]
    average.update(torch.tensor([1.25, 0.5]))
    torch.testing.assert_close(average.value, torch.tensor([0.35, 0.5]))


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.999])
def test_debiased_start_is_adams_correction(momentum: float) -> None:
    average = RunningAverage(torch.tensor(1000.0), momentum, start="debiased")
    raw = 0.0
    for t, value in enumerate((0.3, 0.5, 0.2, 0.9), start=1):
        average.update(torch.tensor(value))
        raw = momentum * raw + (1.0 - momentum) * value
        # The initial value is a thousand times larger than the data: what is left of it would show.
        assert float(average.value) == pytest.approx(raw / (1.0 - momentum**t), abs=2e-3)


def test_debiased_average_of_a_constant_is_that_constant() -> None:
    average = RunningAverage(torch.tensor(1.0), 0.999, start="debiased")
    for _ in range(50):
        average.update(torch.tensor(0.25))
        assert float(average.value) == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("start", ["paper", "first", "debiased"])
def test_entries_that_are_left_out_neither_move_nor_count(start: str) -> None:
    average = RunningAverage(torch.tensor([1.0, 1.0]), 0.9, start)  # type: ignore[arg-type]  # parametrised literal
    average.update(torch.tensor([0.0, 0.0]), where=torch.tensor([True, False]))
    assert float(average.value[1]) == 1.0
    assert average.updates.tolist() == [1, 0]
    average.update(torch.tensor([0.5, 0.5]), where=torch.tensor([False, True]))
    alone = RunningAverage(torch.tensor(1.0), 0.9, start)  # type: ignore[arg-type]  # parametrised literal
    alone.update(torch.tensor(0.5))
    assert float(average.value[1]) == float(alone.value)


def test_update_takes_no_gradient_and_keeps_float32() -> None:
    average = RunningAverage(torch.tensor(1.0, dtype=torch.float64), 0.9)
    average.update(torch.tensor(0.5, dtype=torch.float64, requires_grad=True))
    assert average.value.dtype == torch.float32
    assert not average.value.requires_grad


def test_the_initial_tensor_is_not_shared() -> None:
    initial = torch.ones(3)
    average = RunningAverage(initial, 0.9)
    average.update(torch.zeros(3))
    assert initial.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5])
def test_momentum_outside_the_unit_interval_is_refused(momentum: float) -> None:
    with pytest.raises(ValueError, match="momentum"):
        RunningAverage(torch.zeros(()), momentum)


def test_unknown_start_is_refused() -> None:
    with pytest.raises(ValueError, match="start"):
        RunningAverage(torch.zeros(()), 0.9, "warm")  # type: ignore[arg-type]  # wrong on purpose
