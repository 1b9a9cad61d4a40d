"""Datasets of the Hugging Face hub through its own library, without its half minute of retries where nothing answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from softmatch.errors import InputError

SECONDS = 10.0
"""That the hub has to answer."""


def library(name: str, otherwise: str = "") -> Any:
    """The library `datasets`, for a dataset of this name.

    Args:
        otherwise: what else to do than to install it, for the message.
    """
    try:
        import datasets
    except ImportError as error:
        needed = f"{name} needs the library of the Hugging Face hub: pip install 'softmatch[hub]'."
        raise InputError(f"{needed} {otherwise}".strip()) from error
    return datasets


def fetch(name: str, *config: str | None, **options: Any) -> Any:
    """`load_dataset` of a dataset on the hub; where that does not answer, what was fetched of it before.

    Raises:
        ConnectionError: where there is neither.
        Exception: whatever the library raises.
    """
    load_dataset, reason = library(name).load_dataset, why_out_of_reach()
    if reason is None:
        return load_dataset(name, *config, **options)
    try:
        with _offline():
            return load_dataset(name, *config, **options)
    except Exception as error:
        raise ConnectionError(f"it does not answer ({reason}), and {name} was not fetched before") from error


@cache
def why_out_of_reach() -> str | None:
    """What the network says instead of an answer of the hub, asked once; None where it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception as error:  # of whichever library the hub's uses for the network
        return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return None


@contextmanager
def _offline() -> Iterator[None]:
    """The libraries look into their caches alone."""
    from datasets import config
    from huggingface_hub import constants

    former = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = former
