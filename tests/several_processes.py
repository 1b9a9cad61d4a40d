"""Run as a script by tests/distributed/test_processes.py: three processes, then two, each with its share of every batch.

`train` and `normalise` are also called by the tests themselves, where there is one process, to compare with.
"""

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist

from softmatch import step as seen
from softmatch.distributed import processes
from softmatch.distributed.batch_norm import synchronise
from softmatch.distributed.gradients import GradientSum
from softmatch.distributed.processes import World, world
from softmatch.errors import InputError
from softmatch.methods import METHODS, Forward, Method, Problem, build, meta
from softmatch.methods.forward import BatchStatistics
from softmatch.networks.heads import Headed
from softmatch.step import Batch, Labeled
from softmatch.training.ema import ModelAverage
from tests import two_processes

SIZES = (2, 3)
CLASSES, FEATURES, STEPS = 3, 6, 3
LABELED, UNLABELED, BALANCED, VALIDATION = 7, 13, 5, 4
"""Sizes of batches: no number of processes divides all of them, and three divides none."""
POOL, SHAPE = 17, (1, 4, 4)
BATCHES = {"labeled_batch": LABELED, "unlabeled_batch": UNLABELED, "total_steps": STEPS, "momentum": 0.8}
PROBLEM = Problem(CLASSES, POOL, LABELED, (4, 2, 1), class_prior=(0.6, 0.25, 0.15), shape=SHAPE, **BATCHES)
LOW = {"threshold": 0.4}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("fixmatch", "debiaspl", "uda", "flexmatch", "sequencematch", "simmatch", "adsh"), LOW),
    "comatch": {**LOW, "memory": 1, "graph_threshold": 0.3},
    "simmatch with a teacher": {**LOW, "teacher": True},
    "cgmatch": {"warmup": 1},
    "dash": {"warmup": 1, "every": 1},
    "vat": {"iterations": 2, "step": 1.0},  # with a short trial step the direction is one of rounding errors, enlarged
    "mixmatch": {"weight": 5.0},
    "semireward": {"warmup": 1, "every": 1, "base_options": LOW},
    "influence": {"every": 1, "base_options": LOW},
    "meta_pseudo_labels": {**LOW, "finetune": 0.3, "baseline": 0.5},
    "darp": {"warmup": 0.0, "every": 2, "base_options": LOW},
    "abc": {**LOW, "base_options": LOW},
    "saw": {"base_options": LOW},
    "cossl": {"teach_from": 0.5, "base_options": LOW},
    "cossl+adamatch": {"teach_from": 0.5},
    **{name: {"generations": 2, "base_options": LOW} for name in ("crest", "crest_plus")},
}
"""With which every term of a method has set in after three steps."""
CASES = (*METHODS, "simmatch with a teacher", "semireward+adamatch", "cossl+adamatch", "abc+freematch", "influence+flexmatch")
FROM_SUMS = ("softmatch", "fixmatch", "freematch", "uda", "pseudo_label")
"""Methods that exchange sums instead of predictions."""
NORMALISED: dict[str, BatchStatistics] = {
    "softmatch": "joint",
    "adamatch": "separate",
    "vat": "separate",
    "mean_teacher": "joint",
    "meta_pseudo_labels": "joint",
}
"""Methods that are also trained with batch normalisation, and with which of its statistics."""

MESSAGE = 500
"""Bytes of a message of gradients: the network needs several."""
TIMES = (1, 8)
"""Multiples of the batch for which messages are counted."""

Found = dict[str, Tensor]


class Small(nn.Module):
    """A convolution and two layers, with batch normalisation or dropout where asked for."""

    def __init__(self, normalised: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=not normalised),
            nn.BatchNorm2d(4) if normalised else nn.Identity(),
            nn.LeakyReLU(0.1, inplace=True),
            nn.Flatten(),
            nn.Linear(64, FEATURES, bias=not normalised),
            nn.BatchNorm1d(FEATURES) if normalised else nn.Tanh(),
            nn.Dropout(dropout),
        )
        self.head = nn.Linear(FEATURES, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.body(inputs)
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(inputs))
        return out


class Cut(NamedTuple):
    """Functions that cut the labels and the views of a batch."""

    labels: Callable[[Tensor], Tensor] = lambda whole: whole
    views: Callable[[Tensor], Tensor] = lambda whole: whole[processes.share(len(whole))]


def first_of_two(whole: Tensor) -> Tensor:
    """The rows of the first process, without any exchange."""
    return whole[processes.share(len(whole), World(0, 2))]


def make_batch(method: Method, generator: torch.Generator, cut: Cut, times: int = 1) -> Batch:
    def draw(number: int) -> Tensor:
        whole = torch.randn(times * number, *SHAPE, generator=generator).to(memory_format=torch.channels_last)
        return cut.views(whole)

    def labels(number: int) -> Tensor:
        return cut.labels(torch.randint(0, CLASSES, (times * number,), generator=generator))

    sizes = {"balanced": BALANCED, "validation": VALIDATION}
    return Batch(
        labeled={name: draw(LABELED) for name in method.labeled_views},
        labels=labels(LABELED),
        unlabeled={name: draw(UNLABELED) for name in method.unlabeled_views},
        index=cut.labels(torch.randint(0, POOL, (times * UNLABELED,), generator=generator)),
        labeled_index=cut.labels(torch.randperm(LABELED, generator=generator)),
        streams={name: Labeled({"weak": draw(sizes[name])}, labels(sizes[name])) for name in method.streams},
    )


def make_network(method: Method, normalised: bool, dropout: float, generation: int = 0) -> nn.Module:
    torch.manual_seed(5 + generation)
    network = Headed(Small(normalised, dropout), method.heads(FEATURES)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    return synchronise(network)


def train(
    case: str, normalised: bool = False, statistics: BatchStatistics = "joint", dropout: float = 0.0, cut: Cut | None = None
) -> Found:
    """A few steps as the training loop makes them; weights, averaged weights, the method's state, losses and random state."""
    method = build(case.partition(" ")[0], PROBLEM, OPTIONS.get(case))
    network = make_network(method, normalised, dropout)
    start = {name: value.clone() for name, value in network.state_dict().items()}
    make_optimizer = partial(torch.optim.SGD, lr=0.02, momentum=0.9)
    losses, generator, pool = [], torch.Generator().manual_seed(7), torch.randn(POOL, *SHAPE)
    average = ModelAverage(network, 0.7)
    optimizer = make_optimizer(network.parameters())
    gradients = GradientSum(network, MESSAGE)
    with seen.whole_batches() if cut is None else nullcontext():
        method.begin(network, lambda module: make_optimizer(module.parameters()))
        forward = Forward(network, statistics, average=average.network, sharded=True)
        for step in range(STEPS):
            forward.begin(step)
            batch = make_batch(method, generator, cut or Cut())
            output = method.step(forward, batch)
            with gradients.during_backward():
                output.loss.backward()  # type: ignore[no-untyped-call]  # torch's own signature
            gradients.finish()
            optimizer.step()
            optimizer.zero_grad()
            average.update(network, step)
            method.after_step(forward, batch)
            losses.append(output.loss.detach())
            if step == 1:
                probs = torch.softmax(average.network.eval()(pool), -1)
                if method.survey_every is not None:
                    method.survey(probs)
                if method.generations > 1:
                    method.next_generation(probs)
                    method.begin(network, lambda module: make_optimizer(module.parameters()))
    parts: dict[str, Mapping[str, Tensor]] = {
        "start": start,
        "network": network.state_dict(),
        "average": average.network.state_dict(),
        "method": method.state_dict(),
        "run": {"losses": torch.stack(losses), "random": torch.get_rng_state()},
    }
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def count_bytes(case: str) -> list[dict[str, int]]:
    """Bytes that this process gives to each collective operation in a second step, for batches of several sizes."""
    found = []
    for times in TIMES:
        method = build(case, PROBLEM, OPTIONS.get(case))
        network = make_network(method, normalised=False, dropout=0.0)
        forward, gradients = Forward(network, sharded=True), GradientSum(network, MESSAGE)
        generator = torch.Generator().manual_seed(7)
        for _ in range(2):
            with counted() as bytes_of, seen.whole_batches():
                with gradients.during_backward():
                    method.step(forward, make_batch(method, generator, Cut(), times)).loss.backward()  # type: ignore[no-untyped-call]  # torch's
                gradients.finish()
        found.append(dict(bytes_of))
    return found


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the bytes of the tensors that collective operations are given in this block."""
    bytes_of, operations = Counter[str](), {name: getattr(dist, name) for name in ("all_reduce", "all_gather", "broadcast")}

    def count(name: str, *given: Any, **options: Any) -> Any:
        bytes_of[name] += given[1 if name == "all_gather" else 0].nbytes
        return operations[name](*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name in operations:
            patch.setattr(dist, name, partial(count, name))
        yield bytes_of


NORMS: dict[str, Callable[[], nn.BatchNorm1d | nn.BatchNorm2d]] = {
    "vectors": lambda: nn.BatchNorm1d(3, momentum=0.3),
    "images": lambda: nn.BatchNorm2d(3, eps=1e-3),
    "channels last": lambda: nn.BatchNorm2d(3),
    "half precision": lambda: nn.BatchNorm2d(3),
    "no weights": lambda: nn.BatchNorm1d(3, affine=False),
    "a plain mean": lambda: nn.BatchNorm1d(3, momentum=None),
    "no running statistics": lambda: nn.BatchNorm1d(3, track_running_stats=False),
}
ROWS = 7


def normalise(name: str) -> Found:
    """Two passes in training mode with their gradients, one without tracking, and one in evaluation mode: of own rows."""
    torch.manual_seed(3)
    norm, dims = NORMS[name](), 4 if isinstance(NORMS[name](), nn.BatchNorm2d) else 2
    for number, parameter in enumerate(norm.parameters()):
        nn.init.normal_(parameter, mean=1.0 - number)
    network = synchronise(nn.Sequential(nn.Identity(), norm, nn.LeakyReLU(0.1, inplace=True)))
    found: Found = {}
    for number in range(3):
        whole = 5.0 + torch.randn(ROWS, 3, *[4] * (dims - 2))
        own = whole[processes.share(ROWS)].clone().requires_grad_()
        given = own.to(memory_format=torch.channels_last) if name == "channels last" else own
        given = given.bfloat16() if name == "half precision" else given
        tracked = norm.track_running_stats
        norm.track_running_stats = tracked and number < 2
        out = network(given * 2.0)
        norm.track_running_stats = tracked
        factor = torch.linspace(-1.0, 1.0, ROWS)[processes.share(ROWS)].reshape(-1, *[1] * (dims - 1))
        (out.float() * factor).square().sum().backward()
        assert own.grad is not None
        found |= {f"out {number}": out.detach().contiguous(), f"gradient {number}": own.grad}
    processes.sum_gradients(network)
    found |= {f"state {key}": value.clone() for key, value in network.state_dict().items()}
    found |= {f"summed {key}": value.grad for key, value in network.named_parameters() if value.grad is not None}
    if norm.running_mean is not None:
        found["evaluated"] = network.eval()(5.0 + torch.randn(ROWS, *whole.shape[1:])[processes.share(ROWS)])
    return found


def converse() -> dict[str, Any]:
    """Results of every exchange between processes."""
    rank, size = world().rank, world().size
    own = torch.arange(5.0)[processes.share(5)].clone().requires_grad_()
    numbers = processes.numbers_of_rows([len(own), rank])
    whole = processes.gather_rows(own, numbers[0])
    (whole * torch.arange(5.0)).sum().backward()  # type: ignore[no-untyped-call]  # torch's own signature
    module = nn.BatchNorm1d(2)
    module.weight.grad = torch.full((2,), 1.0 + rank)
    module.running_mean = torch.full((2,), float(rank))
    processes.sum_gradients(module)
    processes.average_running_statistics(module)
    taught = nn.Linear(2, 1)
    taught.weight.grad = torch.tensor([[3.0 * rank, 1.0]])
    meta._average_gradients(taught)  # where each process has a batch of its own
    forward = Forward(nn.Dropout(), sharded=True)
    shown = torch.arange(10.0).view(5, 2).requires_grad_()
    (forward.own(shown) * (1.0 + rank)).sum().backward()

    def drop(step: int | None = None) -> Tensor:
        if step is not None:
            forward.begin(step)
        return forward(torch.ones(40, 1))[0][:, 0].view(size, 40)[rank]

    def wrong() -> str:
        raise InputError("the folder is missing")

    try:
        processes.main_says(wrong)
        refused = ""
    except InputError as error:
        refused = str(error)
    given = {"a": torch.tensor([[1.5, 2.5]]), "b": torch.tensor(3), "none": torch.zeros(0, 2), "half": torch.ones(2).bfloat16()}
    return {
        "numbers": numbers,
        "whole": whole.detach(),
        "gradient": own.grad,
        "half": processes.gather_rows(torch.full((1 + rank, 2), float(rank)).bfloat16(), [1 + r for r in range(size)]),
        "nothing": processes.gather_rows(torch.ones(rank, 2), list(range(size))),
        "summed": module.weight.grad,
        "averaged": module.running_mean,
        "taught": (taught.weight.grad, taught.bias.grad),
        "own": (forward.own(shown).detach(), shown.grad, forward.rows(own)),
        "draws": [drop(1), drop(), drop(1)],
        "first": [forward.whole(own.detach(), number) for number in (None, 1, 3, 9)],
        "told": processes.tell("grün" if rank == 0 else None),
        "said": processes.main_says(lambda: f"by {rank}"),
        "refused": refused,
        "tensors": processes.tell_tensors(given if rank == 0 else None),
        "largest": processes.largest(10 - rank),
    }


def everything() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        "methods": {case: train(case) for case in CASES},
        "normalised": {case: train(case, True, statistics) for case, statistics in NORMALISED.items()},
        "norms": {name: normalise(name) for name in NORMS},
        "dropout": {"softmatch": train("softmatch", dropout=0.5), "again": train("softmatch", dropout=0.5)},
        "converse": converse(),
        "bytes": {case: count_bytes(case) for case in (*FROM_SUMS, "flexmatch")},
    }
    if world().size == 2:
        found |= {case: two_processes.run_all(world().rank, 2, first) for case, first in two_processes.FIRST.items()}
    return found


def member(rank: int, directory: Path) -> None:
    torch.set_num_threads(1)
    for size in sorted(SIZES, reverse=True):
        if rank < size:
            dist.init_process_group("gloo", init_method=f"file://{directory / f'meeting{size}'}", rank=rank, world_size=size)
            torch.save(everything(), directory / f"{size}-{rank}.pt")
            dist.barrier()
            dist.destroy_process_group()


def main(directory: Path) -> int:
    """Nothing has been computed yet, so the processes can be copies of this one: what takes seconds to import is so once."""
    for name in ("torch._dynamo", "softmatch.data"):  # which the first steps of an optimiser and of a Forward import
        importlib.import_module(name)
    members = [get_context("fork").Process(target=member, args=(rank, directory)) for rank in range(max(SIZES))]
    for process in members:
        process.start()
    for process in members:
        process.join()
    return max(abs(process.exitcode or 0) for process in members)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
