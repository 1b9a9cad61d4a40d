"""Augmented versions of texts, made offline: back-translations, functions of your own, replaced words."""

from softmatch.augmenting.augmented_files import Augmented, augment_file, augment_source
from softmatch.augmenting.versions import augment_texts

__all__ = ["Augmented", "augment_file", "augment_source", "augment_texts"]
