"""Settings for training a pretrained encoder: the trained part and the head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from softmatch.errors import InputError

__all__ = ["Head", "Tuning"]

Head = Literal["linear", "gelu"]


@dataclass(frozen=True)
class Tuning:
    """Settings for fine-tuning a pretrained encoder; by default all of it is trained, with a linear head.

    Attributes:
        head: "gelu" adds a hidden layer with dropout and GELU below the linear one, as in USB's code.
        layers: train only the last N layers, the modules after them and the head; 0: the head only. The frozen part has no
            dropout, and its batch normalisation keeps its statistics.
        lora: train only low-rank updates of this rank to the layers' linear maps, and the head.
    """

    head: Head = "linear"
    layers: int | None = None
    lora: int | None = None

    def __post_init__(self) -> None:
        if self.head not in get_args(Head):
            raise InputError(f"head = {self.head!r}: it must be linear or gelu.")
        if self.layers is not None and self.lora is not None:
            raise InputError(
                "--tuned-layers and --lora exclude each other: the first trains whole layers, the second low-rank updates of all "
                "layers. Leave one out."
            )
