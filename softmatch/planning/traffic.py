"""What processes that train one network send each other in a step: gradients, predictions, statistics of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from softmatch.planning.networks import NetworkCost
from softmatch.planning.probe import Tally
from softmatch.planning.setting import Data

FLOAT, DOUBLE = 4, 8


@dataclass(frozen=True)
class Message:
    """One kind of message of a step.

    Attributes:
        what: it is about.
        how: "sum": every process gets the sum over all; "gather": every process gets what each has.
        size: bytes that a process brings along.
        times: in a step.
    """

    what: str
    how: Literal["sum", "gather"]
    size: float
    times: float = 1.0

    def sent(self, processes: int) -> float:
        """Bytes that leave a process in a step: 2(N − 1)/N of a sum's (a ring), and N − 1 times those that are gathered."""
        return self.times * self.size * (2 * (processes - 1) / processes if self.how == "sum" else processes - 1)


@dataclass(frozen=True)
class Traffic:
    """All messages of a step."""

    messages: Sequence[Message]
    processes: int

    @property
    def parts(self) -> dict[str, float]:
        """Bytes that leave a process in a step, by what they are."""
        found: dict[str, float] = {}
        for message in self.messages:
            found[message.what] = found.get(message.what, 0.0) + message.sent(self.processes)
        return found

    @property
    def sent(self) -> float:
        """Bytes that leave a process in a step."""
        return sum(self.parts.values())

    @property
    def number(self) -> float:
        """Messages of a step."""
        return sum(message.times for message in self.messages)


def count_traffic(
    tally: Tally, cost: NetworkCost, data: Data, processes: int, on_cpu: bool, micro_batch: int, followed: int = 0
) -> Traffic:
    """Of a step; nothing for one process.

    Args:
        followed: bytes of the weights that the method trains besides, whose gradients are summed too.
        micro_batch: passes of so many rows have statistics of their own, and then running statistics are averaged instead.
    """
    if processes == 1:
        return Traffic((), 1)
    found = [
        Message("gradients", "sum", FLOAT * (cost.trained + tally.heads)),
        *([Message("gradients", "sum", followed)] if followed else []),
        *_predictions(tally, data, processes),
        *_statistics(tally, cost, on_cpu, micro_batch),
        Message("whether to stop", "sum", DOUBLE),
    ]
    return Traffic(tuple(found), processes)


def _predictions(tally: Tally, data: Data, processes: int) -> Iterator[Message]:
    """Logits and features of all views of a call in one message each, after one that says how many rows there are of them."""
    for (rows, width), times in tally.gathers.items():
        share = sum(-(-number // processes) for number in rows)
        yield Message("predictions and features", "gather", share * width, times / tally.steps)
    for views, times in tally.announced.items():
        yield Message("numbers of rows", "gather", DOUBLE * views, times / tally.steps)
    for (number, wanted), times in tally.whole.items():
        share = min(wanted, -(-number // processes))
        yield Message("views", "gather", share * FLOAT * prod(data.shape), times / tally.steps)


def _statistics(tally: Tally, cost: NetworkCost, on_cpu: bool, micro_batch: int) -> Iterator[Message]:
    """Mean and variance of each batch normalisation, and what flows back through them: see `softmatch.distributed.batch_norm`."""
    if not cost.norms:
        return
    if micro_batch:
        yield Message("batch statistics", "sum", 2 * FLOAT * sum(cost.norms), 1 + tally.followed)
        return
    number = DOUBLE if on_cpu else FLOAT  # ours counts in float64, torch's own layer on CUDA in float32
    for channels in cost.norms:
        yield Message("batch statistics", "gather", number * (2 * channels + 1), tally.normalised / tally.steps)
        yield Message("batch statistics", "sum", 2 * FLOAT * channels, tally.normalised_back / tally.steps)
