"""Augmented versions of texts, made offline: back-translations, functions of the user's own, changed words.

Names are imported when they are first used, so that what needs no torch does not wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmatch.augmenting.files import Augmented, augment_file
    from softmatch.augmenting.making import augment_texts

__all__ = ["Augmented", "augment_file", "augment_texts"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{'making' if name == 'augment_texts' else 'files'}"), name)
