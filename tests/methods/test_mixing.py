"""Mixup: the draw of the shares, what is mixed with what, and which samples share a pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from softmatch.errors import InputError
from softmatch.methods.forward import Forward
from softmatch.methods.mixmatch import (
    blend,
    mixed_logits,
    mixing_shares,
    mixup,
    ramp_steps,
    refuse_mixing_options,
    view_names,
)


def test_shares_are_those_of_the_larger_part() -> None:
    """max(λ, 1 − λ) of a uniform λ = Beta(1, 1) is uniform in ½ … 1: mean ¾, variance 1/48."""
    share = mixing_shares(20_000, alpha=1.0)
    assert share.shape == (20_000,)
    assert 0.5 <= float(share.min()) < 0.51
    assert 0.99 < float(share.max()) <= 1.0
    assert float(share.mean()) == pytest.approx(0.75, abs=0.005)
    assert float(share.var()) == pytest.approx(1 / 48, abs=0.001)


def test_alpha_is_that_of_the_beta_distribution() -> None:
    """E[(λ − ½)²] of Beta(α, α) is 1 / (4(2α + 1)), and so it is of max(λ, 1 − λ)."""
    for alpha in (0.5, 0.75, 4.0):
        spread = (mixing_shares(20_000, alpha) - 0.5).square().mean()
        assert float(spread) == pytest.approx(1 / (4 * (2 * alpha + 1)), abs=0.004)


def test_one_share_for_the_whole_batch() -> None:
    share = mixing_shares(6, 0.75, per_sample=False)
    assert share.shape == (6,)
    assert len(set(share.tolist())) == 1
    assert len(set(mixing_shares(6, 0.75).tolist())) == 6


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 1, 2, 2)])
def test_blend_takes_each_row_in_its_own_share(shape: tuple[int, ...]) -> None:
    mixed = blend(torch.full(shape, 4.0), torch.full(shape, -2.0), torch.tensor([1.0, 0.75]))
    assert mixed.shape == shape
    torch.testing.assert_close(mixed[0], torch.full(shape[1:], 4.0))
    torch.testing.assert_close(mixed[1], torch.full(shape[1:], 2.5))


def test_inputs_and_targets_are_mixed_with_the_same_partner_in_the_same_share() -> None:
    """Of inputs that name their sample, the mixed ones show partner and share."""
    own = torch.eye(8)
    inputs, targets = mixup(own.reshape(8, 2, 2, 2), own.clone(), alpha=0.75)
    assert torch.equal(inputs.reshape(8, 8), targets)
    torch.testing.assert_close(targets.sum(1), torch.ones(8))
    assert float(targets.diagonal().min()) >= 0.5
    others = targets - torch.diag(targets.diagonal())
    assert int((others > 0).sum(1).max()) == 1  # one partner
    assert int((others > 0).sum(0).max()) == 1  # and each sample is the partner of one at most
    assert float(others.max()) > 0.0


class Recorder(nn.Module):
    """Gives back what it is given, and remembers it: one entry a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.passes.append(inputs.detach().clone())
        return inputs


def test_logits_come_back_in_the_order_of_the_views() -> None:
    views = list(torch.split(torch.eye(9), [2, 3, 4]))
    logits, targets = mixed_logits(Forward(Recorder()), views, views, alpha=0.75)
    torch.testing.assert_close(logits, targets)
    assert torch.equal(targets.argmax(1), torch.arange(9))


def test_passes_are_as_large_as_the_views_and_draw_from_all_of_them() -> None:
    network, views = Recorder(), list(torch.split(torch.eye(60), 20))
    mixed_logits(Forward(network, "separate"), views, views, alpha=0.75)
    assert [len(part) for part in network.passes] == [20, 20, 20]
    for part in network.passes:
        origin = part.argmax(1) // 20
        assert set(origin.tolist()) == {0, 1, 2}
    assert sorted(torch.cat(network.passes).argmax(1).tolist()) == list(range(60))


def test_names_of_independent_views() -> None:
    assert view_names("weak", 1) == ("weak",)
    assert view_names("strong", 3) == ("strong", "strong_2", "strong_3")


@pytest.mark.parametrize(("total", "ramp", "steps"), [(2**20, None, 2**14), (1000, None, 400), (1, None, 1), (200, 0.1, 20)])
def test_the_ramp_is_the_authors_where_the_run_is_long_enough(total: int, ramp: float | None, steps: int) -> None:
    assert ramp_steps(total, ramp) == steps


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"alpha": 0.0}, "alpha must be positive"),
        ({"temperature": -1.0}, "temperature must be positive"),
        ({"views": 0}, "views must be 1 or more"),
        ({"ramp": 64.0}, "ramp must lie in"),
        ({"strong_weight": -0.5}, "strong_weight must be 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, float], says: str) -> None:
    good = {"alpha": 0.75, "temperature": 0.5, "views": 2, "ramp": None, "strong_weight": 0.5}
    with pytest.raises(InputError, match=says):
        refuse_mixing_options(**{**good, **wrong})  # type: ignore[arg-type]  # wrong on purpose
