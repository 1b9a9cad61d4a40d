"""From a source to batches: Examples → split → batches."""

from softmatch.data.batches import Batches, Sampler
from softmatch.data.examples import Examples
from softmatch.data.sources import SOURCES, Source, find_source
from softmatch.data.split import Split, make_long_tailed_split, make_split

__all__ = ["SOURCES", "Batches", "Examples", "Sampler", "Source", "Split", "find_source", "make_long_tailed_split", "make_split"]
