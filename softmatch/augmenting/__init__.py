"""Augmented versions of texts, made offline: back-translations, functions of the user's own, changed words.

Names are imported when they are first used, so that what needs no torch does not wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmatch.augmenting.files import augment_file
    from softmatch.augmenting.making import augment_texts
    from softmatch.augmenting.sources import augment_source
    from softmatch.augmenting.summary import Augmented

__all__ = ["Augmented", "augment_file", "augment_source", "augment_texts"]

_HOMES = {"Augmented": "summary", "augment_file": "files", "augment_source": "sources", "augment_texts": "making"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
