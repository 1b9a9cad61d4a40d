"""Augmented versions of texts, made offline: back-translations, functions of your own, replaced words."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmatch.augmenting.augmented_files import augment_file, augment_source
    from softmatch.augmenting.summary import Augmented
    from softmatch.augmenting.versions import augment_texts

__all__ = ["Augmented", "augment_file", "augment_source", "augment_texts"]


def __getattr__(name: str) -> Any:  # imported at first use, so that worker processes need not load torch
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = {"Augmented": "summary", "augment_texts": "versions"}.get(name, "augmented_files")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
