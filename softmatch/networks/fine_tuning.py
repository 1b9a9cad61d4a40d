"""Which part of a pretrained encoder is trained, and what head it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from softmatch.errors import InputError

__all__ = ["Head", "Tuning"]

Head = Literal["linear", "gelu"]


@dataclass(frozen=True)
class Tuning:
    """How a pretrained encoder is trained further; by default all of it, with a linear head.

    Attributes:
        head: "gelu" puts a hidden layer with dropout and GELU below the linear one, as USB's code does.
        layers: only the last so many layers, what comes after them, and the head; 0: the head alone. What is not trained
            makes no dropout either, and its batch normalisation has the statistics that it came with.
        lora: only low-rank additions of this rank to the layers' linear maps, and the head.
    """

    head: Head = "linear"
    layers: int | None = None
    lora: int | None = None

    def __post_init__(self) -> None:
        if self.head not in get_args(Head):
            raise InputError(f"head = {self.head!r}: it must be linear or gelu.")
        if self.layers is not None and self.lora is not None:
            raise InputError(
                "--tuned-layers and --lora exclude each other: the one trains whole layers, the other low-rank additions to all "
                "of them. Leave one out."
            )
