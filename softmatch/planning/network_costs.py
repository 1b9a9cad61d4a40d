"""The cost of a network, counted on torch's meta device: nothing is computed, and no memory is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from softmatch.config import Config
from softmatch.encoders.model_folder import read_json
from softmatch.errors import InputError, SoftmatchError
from softmatch.files.paths import expand_home
from softmatch.networks import build_network, shapes_only
from softmatch.networks.heads import feature_size

FLOAT, ROWS = 4, 2
"""Bytes of a number; samples of the pass that is counted (batch normalisation needs more than one)."""
LOOK = {"view", "t", "transpose", "expand", "detach", "alias", "_unsafe_view", "permute", "split", "slice", "select", "unsqueeze"}
"""Operations that look at a tensor in another way: they start nothing on a device."""


@dataclass(frozen=True)
class NetworkCost:
    """Numbers in the weights and in those that are trained; FLOPs and bytes of a sample; operations that the host starts.

    Attributes:
        state, tensors: bytes of the network's state, and tensors in it.
        saved, largest: bytes of a sample that are kept for the backward pass, and of its largest tensor.
        features: size of the head's input; None: the network does not show it.
    """

    parameters: int
    trained: int
    state: int
    tensors: int
    forward: float
    backward: float
    saved: float
    largest: float
    forward_operations: int
    backward_operations: int
    features: int | None


class CountedOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts the operations that are started, and keeps the size of the largest tensor that one makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.number, self.largest = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.__name__.partition(".")[0] not in LOOK:
            self.number += 1
            made = found if isinstance(found, tuple | list) else (found,)
            self.largest = max([self.largest, *(value.nbytes for value in made if isinstance(value, Tensor))])
        return found


def count_network(network: nn.Module, shape: tuple[int, ...]) -> NetworkCost:
    """Count a forward and a backward pass of two samples on the meta device."""
    saved: dict[int, Tensor] = {}

    def keep(value: Tensor) -> Tensor:
        saved[value.untyped_storage()._cdata] = value
        return value

    keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value)
    with FlopCounterMode(display=False) as forward, CountedOperations() as started, keeping:
        out = network(torch.empty(ROWS, *shape, device="meta"))
    with FlopCounterMode(display=False) as backward, CountedOperations() as back:
        out.sum().backward()
    weights, state = list(network.parameters()), network.state_dict().values()
    own = {value.untyped_storage()._cdata for value in (*weights, *network.buffers())}
    return NetworkCost(
        parameters=sum(weight.numel() for weight in weights),
        trained=sum(weight.numel() for weight in weights if weight.requires_grad),
        state=sum(value.nbytes for value in state),
        tensors=len(state),
        forward=forward.get_total_flops() / ROWS,
        backward=backward.get_total_flops() / ROWS,
        saved=sum(value.untyped_storage().nbytes() for place, value in saved.items() if place not in own) / ROWS,
        largest=max(started.largest, FLOAT * ROWS * prod(shape)) / ROWS,
        forward_operations=started.number,
        backward_operations=back.number,
        features=feature_size(network),
    )


@cache
def planned_network(name: str, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, NetworkCost]:
    """The network on the meta device, and its cost; InputError for items that it cannot take."""
    try:
        with shapes_only():
            network = build_network(name, shape, classes).to("meta").train()
        return network, count_network(network, shape)
    except SoftmatchError:
        raise
    except (RuntimeError, ValueError, OverflowError) as error:
        size, reason = "×".join(map(str, shape)), str(error).splitlines()[0].rstrip(".")
        raise InputError(f"The network {name} cannot be planned for items of {size}: {reason}.") from error


class EncoderSizes(NamedTuple):
    """Sizes of a transformer encoder built like BERT; positions: most tokens of a text."""

    layers: int
    width: int
    inner: int
    heads: int
    words: int
    positions: int


ENCODERS: Mapping[str, EncoderSizes] = {
    "google-bert/bert-base-uncased": EncoderSizes(12, 768, 3072, 12, 30522, 512),
    "google-bert/bert-large-uncased": EncoderSizes(24, 1024, 4096, 16, 30522, 512),
    "sentence-transformers/all-MiniLM-L6-v2": EncoderSizes(6, 384, 1536, 12, 30522, 512),
}
KEYS = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size", "max_position_embeddings")
KEPT, KEPT_OF_EMBEDDINGS, OPERATIONS = 40, 8, (33, 40)
"""Bytes kept of a token for each number of its width, in a layer beside the perceptron and in the embeddings; operations of a
layer, forward and backward. Counted on the transformers library's own network (benchmarks/results/plan.md)."""


def encoder_sizes(name: str) -> EncoderSizes:
    """Sizes of a known encoder, or from the config.json in its folder."""
    if name in ENCODERS:
        return ENCODERS[name]
    found = read_json(expand_home(name), "config.json")
    missing = [key for key in KEYS if not (isinstance(found.get(key), int) and found[key] > 0)]
    if missing:
        advice = f"Give the folder of one built like BERT or one of {', '.join(ENCODERS)}, or use softmatch train … --dry-run."
        raise InputError(f"The sizes of the encoder {name!r} are not known: its config.json has no {missing[0]}. {advice}")
    return EncoderSizes(*(found[key] for key in KEYS))


def count_encoder(sizes: EncoderSizes, config: Config, num_classes: int, tokens: float) -> NetworkCost:
    """Cost of an encoder that is trained, with its head, for texts padded to L tokens.

    Forward: two FLOPs for each number of a layer's matrices and each token, and 4·L·width for attention. Backward: twice that
    for trained layers, once with low-rank additions. Attention on a GPU keeps no L × L matrices.
    """
    layers, width, inner, _, words, positions = sizes
    matrices = 4 * width**2 + 2 * width * inner
    weights, forward = matrices + 9 * width + inner, layers * tokens * (2 * matrices + 4 * tokens * width)
    head = (width**2 + width if config.head == "gelu" else 0) + (width + 1) * num_classes
    whole, tuned, added = (words + positions + 4) * width + layers * weights + head, layers, 0
    trained, backward = whole, 2.0 * forward
    if config.tuned_layers is not None:
        tuned = min(config.tuned_layers, layers)
        trained, backward = tuned * weights + head, 2.0 * forward * tuned / layers
    if config.lora is not None:
        added = layers * config.lora * (8 * width + 2 * (width + inner))
        trained, backward = added + head, forward
    return NetworkCost(
        parameters=whole + added,
        trained=trained,
        state=FLOAT * (whole + added),
        tensors=0,
        forward=forward,
        backward=backward,
        saved=tokens * (tuned * (KEPT * width + 2 * FLOAT * inner) + KEPT_OF_EMBEDDINGS * width),
        largest=FLOAT * tokens * inner,
        forward_operations=OPERATIONS[0] * layers,
        backward_operations=OPERATIONS[1] * tuned,
        features=width,
    )
