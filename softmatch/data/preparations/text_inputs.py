"""Functions that the preparations of texts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softmatch.data.records import Inputs
from softmatch.errors import InputError

__all__ = ["as_texts", "stored_text"]


def as_texts(inputs: Inputs) -> list[str]:
    """Give the texts as a list.

    Raises:
        InputError: the inputs are not texts.
    """
    wanted = "a model of texts takes a list of texts"
    if isinstance(inputs, (Mapping, str)):
        raise InputError(f"{wanted}; this is a {type(inputs).__name__}.")
    found: list[Any] = inputs.tolist() if isinstance(inputs, np.ndarray) else list(inputs)
    for number, text in enumerate(found, 1):
        if not isinstance(text, str):
            raise InputError(f"{wanted}; number {number} is a {type(text).__name__}.")
    return found


def stored_text(stored: Tensor) -> str:
    """Decode the text in a tensor of bytes.

    Raises:
        InputError: it holds something else.
    """
    if stored.dtype != torch.uint8:
        raise InputError(f"the saved preparation of texts is damaged: a text is stored as {stored.dtype}.")
    return stored.numpy().tobytes().decode("utf-8", "surrogatepass")
