"""Registry, queue and ramps: the later value of a sample counts, the oldest row makes room, goldens of the ramps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.errors import InputError
from softmatch.state import Queue, Ramp, Registry, ramp_factor


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(1, 9),
    batches=st.lists(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=12), min_size=1, max_size=4),
)
def test_registry_is_a_dictionary(size: int, batches: list[list[tuple[int, bool]]]) -> None:
    registry, expected, number = Registry(size, (2,), fill=-1.0), [[-1.0, -1.0]] * size, 0.0
    for batch in batches:
        index = torch.tensor([place % size for place, _ in batch])
        where = torch.tensor([chosen for _, chosen in batch])
        values = torch.arange(number, number + 2 * len(batch)).reshape(-1, 2)
        number += 2 * len(batch)
        registry.write(index, values, where)
        for place, chosen, value in zip(index.tolist(), where.tolist(), values.tolist(), strict=True):
            if chosen:
                expected[place] = value
        assert registry.rows.tolist() == expected
        assert registry[index].tolist() == [expected[place] for place in index.tolist()]


@pytest.mark.parametrize("index", [[-1, 0], [0, 3]])
def test_positions_outside_the_set_are_refused_and_nothing_is_written(index: list[int]) -> None:
    registry = Registry(3)
    with pytest.raises(InputError, match=r"0 … 2"):
        registry.write(torch.tensor(index), torch.ones(2))
    assert registry.values.tolist() == [0.0] * 4
    with pytest.raises(InputError, match="`index`"):
        registry.check(None)


@settings(max_examples=80, deadline=None)
@given(length=st.integers(1, 7), sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_queue_holds_the_last_rows(length: int, sizes: list[int]) -> None:
    queue, pushed = Queue(length, fill=-1.0), list[float]()
    for size in sizes:
        rows = torch.arange(len(pushed), len(pushed) + size, dtype=torch.float32)
        queue.push(rows)
        pushed += rows.tolist()
        kept = pushed[-length:]
        assert sorted(queue.values[queue.filled()].tolist()) == kept
        assert sorted(queue.values.tolist()) == sorted([-1.0] * (length - len(kept)) + kept)


def test_a_queue_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        Queue(0)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("linear", [0.0, 0.25, 0.5, 1.0, 1.0]),
        ("sigmoid", [0.006738, 0.060055, 0.286505, 1.0, 1.0]),
        ("cosine", [0.0, 0.146447, 0.5, 1.0, 1.0]),
        ("square", [0.0, 0.0625, 0.25, 1.0, 1.0]),
    ],
)
def test_shapes(shape: str, expected: list[float]) -> None:
    found = ramp_factor(torch.tensor([0.0, 0.25, 0.5, 1.0, 1.7]), shape)  # type: ignore[arg-type]  # parametrised literal
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-6, rtol=0)


def test_the_first_step_is_step_zero_and_a_start_delays() -> None:
    ramp, late, values = Ramp(4), Ramp(2, start=3), list[tuple[float, float]]()
    assert float(ramp()) == 0.0
    for _ in range(7):
        ramp.advance()
        late.advance()
        values.append((float(ramp()), float(late())))
    assert values == [(0.0, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (1.0, 0.5), (1.0, 1.0), (1.0, 1.0)]
    again = Ramp(4)
    again.load_state_dict(ramp.state_dict())
    assert float(again()) == 1.0


def test_what_is_no_ramp_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        Ramp(0)
    with pytest.raises(ValueError, match="shape must be"):
        Ramp(3, "steep")  # type: ignore[arg-type]  # the mistake under test
