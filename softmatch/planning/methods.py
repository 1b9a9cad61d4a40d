"""A method as a run would build it, of any size: what it remembers takes no memory here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from softmatch.methods import Method
from softmatch.planning.setting import Setting
from softmatch.training.setup import Task, build_method, micro_batch

MAKERS = (torch.full, torch.zeros, torch.ones, torch.empty)
LARGE = 10_000
"""Numbers from which on a new tensor is made without its memory."""
FEW = 2


class WithoutMemory(TorchFunctionMode):
    """In this block, new tensors of many numbers have a shape and no content."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        if func in MAKERS:
            size = args[0] if args else given.get("size", ())
            if isinstance(size, tuple | list) and prod(size) > LARGE:
                given["device"] = "meta"
        return func(*args, **given)


@dataclass(frozen=True)
class MethodState:
    """What a method remembers, in bytes.

    Attributes:
        saved: in checkpoints.
        held: in memory: `saved`, and what is kept besides.
        trained: of parameters of its own, such as a teacher's, which `saved` has too.
    """

    saved: int
    held: int
    trained: int


def planned_task(setting: Setting, features: int | None, processes: int = 1, unlabeled: int | None = None) -> Task:
    """Those parts of a run's task that building a method looks at; there are no data behind it."""
    data = setting.data
    labels = torch.arange(data.classes).repeat_interleave(torch.tensor(data.counts))
    parts = SimpleNamespace(
        config=setting.config,
        examples=SimpleNamespace(labels=labels, classes=range(data.classes), kind=data.kind),
        split=SimpleNamespace(labeled=torch.arange(len(labels)), unlabeled=range(unlabeled or data.unlabeled)),
        shape=data.shape,
        num_features=features,
        network_name=setting.config.network,
        processes=processes,
        device=torch.device(setting.config.device),
        evaluation=SimpleNamespace(folds=()),
    )
    return cast(Task, parts)


def planned_micro_batch(setting: Setting) -> int:
    """Most images in one pass of separate statistics; 0: whole views."""
    return micro_batch(planned_task(setting, None))


def planned_method(setting: Setting, name: str, features: int | None, processes: int = 1) -> Method:
    """The method of that name; what it remembers of very many samples has no content, so it cannot be run.

    Raises:
        InputError: the method cannot serve this setting.
    """
    with WithoutMemory():
        return build_method(planned_task(setting, features, processes), name)


def working_method(setting: Setting, name: str, features: int | None) -> Method:
    """The same for an unlabelled set of a few batches: it can be run."""
    return build_method(planned_task(setting, features, unlabeled=FEW * setting.config.unlabeled_batch), name)


def state_of(method: Method, network: nn.Module | None = None) -> MethodState:
    """Of a method that has just been built.

    Args:
        network: on the meta device, that would be trained: some methods keep a copy, or networks that fit it.
    """
    if network is not None:
        method.begin(network, lambda module: torch.optim.SGD(module.parameters(), lr=1.0))
    saved = sum(value.nbytes for value in method.state_dict().values())
    besides = sum(value.nbytes for value in _kept_besides(method))
    return MethodState(saved, saved + besides, sum(value.nbytes for value in method.parameters()))


def _kept_besides(method: Method) -> Iterator[Tensor]:
    """Tensors of a method that are no part of its state: in dicts, lists and tuples that its modules have."""
    for module in method.modules():
        for name, value in vars(module).items():
            if name.startswith("_") and name in nn.Module().__dict__:
                continue
            held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
            yield from (each for each in held if isinstance(each, Tensor))
