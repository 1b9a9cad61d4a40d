"""The layers of a pretrained encoder, found by its structure, and the modules before and after them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Layers:
    """Names and number of an encoder's layers.

    Attributes:
        lists: names of the module lists that hold them: one, or several that each hold a part of every layer.
        number: number of layers.
        after: names of the modules called only after the last layer, such as a final normalisation.
    """

    lists: tuple[str, ...]
    number: int
    after: frozenset[str]

    def depth(self, name: str) -> int:
        """Depth below the head of a parameter or module: 0 after the layers, 1 in the last layer, and so on.

        Embeddings, and everything else outside the layers, are one below the first layer.
        """
        for path in self.lists:
            if name.startswith(f"{path}."):
                return self.number - int(name.removeprefix(f"{path}.").partition(".")[0])
        return 0 if any(f"{name}.".startswith(f"{each}.") for each in self.after) else self.number + 1


def find_layers(model: nn.Module, calls: Sequence[str]) -> Layers | None:
    """The layers of a model: the module list with the most parameters, and those beside it with as many entries.

    Args:
        calls: names of modules in the order in which a pass called them; see `recorded_calls`. The order of their definition
            is no guide: some models define embeddings after the layers.

    Returns:
        None for a model without such a list.
    """
    sizes = {
        name: sum(parameter.numel() for parameter in module.parameters())
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and any(call.startswith(f"{name}.") for call in calls)
    }
    if not sizes:
        return None
    largest = max(sizes, key=lambda name: sizes[name])  # the first of equal ones is the outermost
    lengths: dict[str, int] = {name: len(model.get_submodule(name)) for name in sizes}  # type: ignore[arg-type]  # they are lists
    parent, number = largest.rpartition(".")[0], lengths[largest]
    beside = [name for name in sizes if name.rpartition(".")[0] == parent and lengths[name] == number]
    last = max(at for at, call in enumerate(calls) if any(call.startswith(f"{name}.") for name in beside))
    return Layers(tuple(beside), number, frozenset(calls[last + 1 :]) - frozenset(calls[: last + 1]))


@contextmanager
def recorded_calls(model: nn.Module) -> Iterator[list[str]]:
    """Record the names of a model's modules in the order in which this block calls them."""
    calls: list[str] = []

    def note(name: str, *_: object) -> None:
        calls.append(name)

    handles = [module.register_forward_pre_hook(partial(note, name)) for name, module in model.named_modules()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


class _Reached(Exception):  # noqa: N818  # not an error
    """Ends a pass before a layer; carries the layer's input."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


def run_below(model: nn.Module, layers: Layers, last: int, run: Callable[[], object]) -> Tensor:
    """Input of the last layers in a pass of the model, which ends there.

    Args:
        last: number of these layers.
        run: makes the pass.
    """

    def stop(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        raise _Reached(given[0] if given else named["hidden_states"])

    handle = _first_of(model, layers, last).register_forward_pre_hook(stop, with_kwargs=True)
    try:
        run()
    except _Reached as reached:
        return reached.hidden
    finally:
        handle.remove()
    raise ValueError("a pass does not reach its last layers")


@contextmanager
def only_last(model: nn.Module, layers: Layers, last: int, hidden: Tensor) -> Iterator[None]:
    """In this block a pass has only the last layers, with this input; what comes before them is computed and ignored."""

    def replace(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ((hidden, *given[1:]), named) if given else (given, {**named, "hidden_states": hidden})

    (path,) = layers.lists
    parent, _, own = path.rpartition(".")
    holder, every = model.get_submodule(parent), model.get_submodule(path)
    handle = _first_of(model, layers, last).register_forward_pre_hook(replace, with_kwargs=True)
    try:
        setattr(holder, own, every[layers.number - last :])  # type: ignore[index]  # it is a list
        yield
    finally:
        setattr(holder, own, every)
        handle.remove()


def _first_of(model: nn.Module, layers: Layers, last: int) -> nn.Module:
    (path,) = layers.lists
    return model.get_submodule(f"{path}.{layers.number - last}")


def new_parameters(network: nn.Module) -> set[str]:
    """Names of the parameters on top of a pretrained encoder; none for a network without one."""
    names = {name for name, _ in network.named_parameters()}
    inside = {name for name in names if "backbone" in name.split(".")}
    return names - inside if inside else set()


def depths(network: nn.Module) -> dict[str, int]:
    """Depth of each parameter below the head (`Layers.depth`); 0 for all parameters of a network without known layers."""
    found = {name: 0 for name, _ in network.named_parameters()}
    for path, module in network.named_modules():
        layers = getattr(module, "layers", None)
        if isinstance(layers, Layers):
            assert isinstance(module.model, nn.Module)
            begin = f"{path}.model." if path else "model."
            found |= {f"{begin}{name}": layers.depth(name) for name, _ in module.model.named_parameters()}
    return found
