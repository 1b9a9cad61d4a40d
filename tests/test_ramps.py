"""Ramps: goldens of the specification, and the step they are at."""

import pytest
import torch

from softmatch.state import Ramp, ramp_factor


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
