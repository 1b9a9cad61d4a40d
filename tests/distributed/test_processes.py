"""Several real processes: their exchanges, and that they train the same network as one process does."""

import os
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from softmatch import weightings
from softmatch.distributed import processes
from softmatch.distributed.batch_norm import synchronise
from softmatch.distributed.processes import World, share
from softmatch.errors import InputError
from softmatch.methods import METHODS, Match, Method, build, softmatch
from softmatch.methods.forward import Forward
from softmatch.step import Seen
from tests import several_processes, two_processes
from tests.forked import Forked
from tests.several_processes import CASES, CLASSES, FROM_SUMS, NORMALISED, NORMS, SIZES, Cut, Found, first_of_two

PATIENCE = 600.0
"""Seconds; only what hangs takes so long."""
WITHOUT_EFFECT = ("method.rewarder.attention.bias",)
"""SemiReward's softmax over two tokens does not see what is added to both: Adam makes steps of a gradient that is rounding."""

Ranks = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """Results of each of two and of three processes, by their number. Started once, even if pytest has workers."""
    temporary = tmp_path_factory.getbasetemp()
    directory = (temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary) / "several_processes"
    ended = directory / "ended"
    try:
        directory.mkdir()
    except FileExistsError:  # another worker has started them
        until = time.monotonic() + PATIENCE
        while not ended.exists() and time.monotonic() < until:
            time.sleep(0.1)
    else:
        try:
            _start(directory)
        finally:
            ended.touch()
    return {size: [torch.load(directory / f"{size}-{rank}.pt") for rank in range(size)] for size in SIZES}


def _start(directory: Path) -> None:
    script = Forked(["-m", several_processes.__name__, str(directory)], directory)
    try:
        _, errors = script.communicate(timeout=PATIENCE)
        assert script.returncode == 0, errors
    finally:
        if script.poll() is None:
            os.killpg(script.pid, signal.SIGKILL)  # the session that began with it: its processes too
            script.wait()


@cache
def alone(case: str, normalised: bool = False) -> Found:
    """Results of a single process."""
    return several_processes.train(case, normalised, NORMALISED[case] if normalised else "joint")


def compare(found: list[Found], expected: Found, tolerance: float) -> None:
    """All processes have the same to the last bit, and what one process has but for rounding."""
    for each in found:
        assert each.keys() == expected.keys()
        for key, value in expected.items():
            assert torch.equal(each[key], found[0][key]), key
            if key not in WITHOUT_EFFECT:
                torch.testing.assert_close(each[key], value, atol=tolerance, rtol=0, msg=lambda text, key=key: f"{key}: {text}")


def build_case(name: str) -> Method:
    return build(name, several_processes.PROBLEM, several_processes.OPTIONS.get(name))


def moved(found: Found) -> list[bool]:
    """True for each of the network's parameters that has changed."""
    names = [key.removeprefix("start.") for key in found if key.startswith("start.")]
    return [not torch.allclose(found[f"start.{name}"].float(), found[f"network.{name}"].float(), atol=1e-5) for name in names]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_a_method_learns_the_same_on_several_processes(case: str, size: int, ranks: Ranks) -> None:
    """Weights, averaged weights, the method's state, losses of the whole batch, and torch's random state."""
    expected = alone(case)
    assert all(moved(expected))
    tolerance = 3e-6 if case == "sla" else 1e-6  # its potentials, sums over the unlabelled set, enlarge the rounding of logits
    compare([rank["methods"][case] for rank in ranks[size]], expected, tolerance)


@pytest.mark.parametrize("case", ["softmatch", "adamatch", "comatch", "meta_pseudo_labels", "vat"])
def test_a_process_that_hears_nothing_of_the_others_learns_something_else(case: str) -> None:
    """The test above can fail."""
    part = several_processes.train(case, cut=Cut(labels=first_of_two, views=first_of_two))
    whole = alone(case)
    assert part.keys() == whole.keys()
    networks = [key for key in whole if key.startswith("network.")]
    assert max(float((part[key] - whole[key]).abs().max()) for key in networks) > 1e-3
    assert not torch.allclose(part["run.losses"], whole["run.losses"], atol=1e-3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", NORMALISED)
def test_with_synchronised_batch_normalisation_too(case: str, size: int, ranks: Ranks) -> None:
    expected = alone(case, normalised=True)
    assert any("running_var" in key for key in expected)
    assert all(moved(expected))
    compare([rank["normalised"][case] for rank in ranks[size]], expected, tolerance=2e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", FROM_SUMS)
def test_methods_of_sums_exchange_messages_whose_size_does_not_depend_on_the_batch(case: str, size: int, ranks: Ranks) -> None:
    few, many = ranks[size][0]["bytes"][case]
    gradients = 4 * sum(
        parameter.numel() for parameter in several_processes.make_network(build_case(case), False, 0.0).parameters()
    )
    assert few == many == {"all_reduce": gradients + 8 * 6 * CLASSES + 4 * 2 + (4 * 3 * CLASSES if case == "freematch" else 0)}
    gathered, more = ranks[size][0]["bytes"]["flexmatch"]
    assert more["all_gather"] > 5 * gathered["all_gather"]  # the test can fail


def test_which_methods_exchange_sums() -> None:
    """A class that learns from more than its base class does, or a function that may mix rows, gathers."""
    found = {name for name in METHODS if getattr(build_case(name), "from_sums", False)}
    assert found == set(FROM_SUMS)

    class Median(weightings.TruncatedGaussian):
        def update(self, seen: Seen) -> None:
            self.mean.update(seen.weak_probs.max(-1).values.median())

    assert Match(weightings.TruncatedGaussian(3)).from_sums
    assert Match(weightings.RampUp(5, weightings.Threshold())).from_sums
    assert not Match(weightings.RampUp(5, Median(3))).from_sums
    assert not Match(Median(3)).from_sums
    assert not Match(weightings.TruncatedGaussian(3), target=lambda probs: probs / probs.sum()).from_sums
    assert not Match(weightings.TruncatedGaussian(3), statistics="aligned").from_sums
    assert not Match(weightings.TruncatedGaussian(3), supervised_loss=lambda logits, labels: logits.sum()).from_sums


@pytest.mark.parametrize("estimation", ["all", "per_class"])
@pytest.mark.parametrize("align", ["uniform", "predictions", "labels"])
def test_what_is_learned_from_sums_is_what_is_learned_from_rows(estimation: Any, align: Any) -> None:
    """Also where the confidence hardly varies, which a difference of squares in float32 would not see."""
    found = []
    for by_sums in (False, True):
        method, generator = softmatch(5, estimation=estimation, align=align, momentum=0.5), torch.Generator().manual_seed(2)
        for spread in (3.0, 1e-3):
            weak = torch.tensor([9.0, 0.0, 0.0, 0.0, 0.0]) + spread * torch.randn(40, 5, generator=generator)
            labeled, labels = torch.randn(7, 5, generator=generator), torch.randint(0, 5, (7,), generator=generator)
            method.learn(Seen.from_logits(weak, labeled, labels, None, by_sums=by_sums))
        found.append(method.state_dict())
        with pytest.raises(InputError, match="NaN or infinity"):
            method.learn(Seen.from_logits(weak.log(), labeled, labels, None, by_sums=by_sums))
    for key, value in found[0].items():
        torch.testing.assert_close(found[1][key], value, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_dropout_differs_between_processes_and_leaves_the_common_random_state(size: int, ranks: Ranks) -> None:
    found = [rank["dropout"]["softmatch"] for rank in ranks[size]]
    for each in found[1:]:
        assert all(torch.equal(each[key], found[0][key]) for key in each)
    assert torch.equal(found[0]["run.random"], alone("softmatch")["run.random"])  # where nothing is dropped
    assert not torch.allclose(found[0]["run.losses"], alone("softmatch")["run.losses"], atol=1e-3)
    again = ranks[size][0]["dropout"]["again"]
    assert all(torch.equal(again[key], found[0][key]) for key in again)
    draws = [rank["converse"]["draws"] for rank in ranks[size]]
    flat = [draw for each in draws for draw in each]
    first, second, repeated = draws[0]
    assert torch.equal(first, repeated)  # the first pass of a step that begins again
    assert len({tuple(draw.tolist()) for draw in flat}) == 2 * size
    assert not torch.equal(first, second)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NORMS)
def test_a_synchronised_norm_is_torchs_on_the_whole_batch(name: str, size: int, ranks: Ranks) -> None:
    expected, found = several_processes.normalise(name), [rank["norms"][name] for rank in ranks[size]]
    tolerance = 1e-2 if name == "half precision" else 1e-5
    for key, value in expected.items():
        if key.startswith(("out", "gradient", "evaluated")):
            torch.testing.assert_close(torch.cat([each[key] for each in found]), value, atol=tolerance, rtol=tolerance)
        else:
            for each in found:
                torch.testing.assert_close(each[key], value, atol=tolerance, rtol=tolerance)
    assert all(each.keys() == expected.keys() for each in found)


class Odd(nn.BatchNorm1d):
    """Computes in a way of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu()


def test_a_norm_with_a_way_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(2, 2), Odd(2))
    assert synchronise(network) is network  # one process: nothing to do
    assert type(network[1]) is Odd
    monkeypatch.setattr("softmatch.distributed.batch_norm.world", lambda: World(0, 2))
    with pytest.raises(InputError, match="has a Odd, a batch normalisation with a forward pass of its own"):
        synchronise(network)
    plain = nn.Sequential(nn.Linear(2, 2))
    assert synchronise(plain) is plain


@pytest.mark.parametrize(("case", "share_of_first"), two_processes.FIRST.items())
@pytest.mark.parametrize("name", two_processes.METHODS)
def test_in_a_users_own_loop_two_processes_learn_the_same_as_one(
    name: str, case: str, share_of_first: float, ranks: Ranks
) -> None:
    expected = two_processes.run(name, rank=0, world=1)
    first, second = (rank[case][name] for rank in ranks[2])
    assert first.keys() == second.keys() == expected.keys()
    for key in expected.keys() - {"losses"}:
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], expected[key], atol=1e-6, rtol=0)
    # Losses stay local; their mean, weighted by the sizes of the batches, is the loss of the whole batch.
    whole = share_of_first * first["losses"] + (1.0 - share_of_first) * second["losses"]
    torch.testing.assert_close(whole, expected["losses"], atol=1e-5, rtol=0)
    assert not torch.equal(first["losses"], second["losses"])


@pytest.mark.parametrize("name", two_processes.METHODS)
def test_in_a_users_own_loop_half_of_the_batch_alone_would_learn_something_else(name: str) -> None:
    """The test above can fail: a process that does not gather ends with another state."""
    whole = two_processes.run(name, rank=0, world=1)
    half = two_processes.run(name, rank=0, world=2)
    assert any(not torch.allclose(whole[key], half[key], atol=1e-3) for key in whole.keys() - {"losses"})


@pytest.mark.parametrize("size", SIZES)
def test_what_processes_tell_each_other(size: int, ranks: Ranks) -> None:
    cuts = [share(5, World(rank, size)) for rank in range(size)]
    lengths = [cut.stop - cut.start for cut in cuts]
    for rank, cut in enumerate(cuts):
        found = ranks[size][rank]["converse"]
        assert found["numbers"] == [lengths, list(range(size))]
        assert found["whole"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert found["gradient"].tolist() == torch.arange(5.0)[cut].tolist()  # of own rows, once
        assert found["half"].dtype == torch.bfloat16
        assert found["half"][:, 0].tolist() == [float(r) for r in range(size) for _ in range(1 + r)]
        assert found["nothing"].shape == (sum(range(size)), 2)
        assert found["summed"].tolist() == [sum(range(1, size + 1))] * 2
        assert found["averaged"].tolist() == [(size - 1) / 2] * 2
        assert found["taught"][0].tolist() == [[3.0 * (size - 1) / 2, 1.0]]
        assert found["taught"][1] is None
        own, gradient, number = found["own"]
        assert own.tolist() == torch.arange(10.0).view(5, 2)[cut].tolist()
        assert gradient[:, 0].tolist() == [1.0 + r for r in range(size) for _ in range(lengths[r])]  # of all rows
        assert number == 5
        assert [part.tolist() for part in found["first"]] == [list(map(float, range(n))) for n in (5, 1, 3, 5)]
        assert found["told"] == "grün"
        assert found["said"] == "by 0"
        assert found["refused"] == "the folder is missing"
        assert {name: value.tolist() for name, value in found["tensors"].items()} == {
            "a": [[1.5, 2.5]],
            "b": 3,
            "none": [],
            "half": [1.0, 1.0],
        }
        assert found["tensors"]["none"].shape == (0, 2)
        assert found["tensors"]["half"].dtype == torch.bfloat16
        assert found["largest"] == 10


def test_shares_cover_a_batch_in_order_and_differ_by_one_row_at_most() -> None:
    for size in (*range(1, 9), 64):
        for number in (*range(0, 40), 448, 1001):
            cuts = [share(number, World(rank, size)) for rank in range(size)]
            rows = torch.arange(number)
            assert torch.equal(torch.cat([rows[cut] for cut in cuts]), rows)
            assert [rows[cut].tolist() for cut in cuts] == [part.tolist() for part in torch.tensor_split(rows, size)]
            assert max(cut.stop - cut.start for cut in cuts) - min(cut.stop - cut.start for cut in cuts) <= 1


def test_one_process_is_alone() -> None:
    value, forward = torch.randn(5, 2), Forward(nn.Linear(2, 3), sharded=True)
    assert processes.world() == World(0, 1)
    assert share(5) == slice(0, 5)
    assert not forward.sharded
    assert forward.whole(value) is value
    assert forward.own(value) is value
    assert forward.rows(value) == 5
    assert torch.equal(forward.whole(value, 2), value[:2])
    assert processes.gather_rows(value, [5]) is value
    assert processes.tell("a") == processes.main_says(lambda: "a") == "a"
    assert processes.tell_tensors({"a": value})["a"] is value
