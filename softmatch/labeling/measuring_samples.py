"""Samples that measure the error: which they may be, and when one is due."""

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FIFTH, LATER, UNTIL = 5, 40, 100
"""Every fifth sample is random for measuring; none of the first 40, which teach more if they are chosen. By 100 all are made up
for: only then are there the 20 random labels that an error needs."""


def random_marks(names: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Random number of each name, the same in every process: a checksum, mixed as SplitMix64 does."""
    mixed = np.array([zlib.crc32(name.encode("utf-8", "replace")) for name in names], dtype=np.uint64)
    mixed += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def is_for_measuring(marks: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Mask of the samples that may measure the error: a fifth of all."""
    return marks < np.uint64(2**64 // FIFTH)


def measuring_due(number: int) -> int:
    """Random samples among the first `number`: none of 40, 20 of 100, and a fifth from there on."""
    return min(number // FIFTH, max(0, (number - LATER) * (UNTIL // FIFTH) // (UNTIL - LATER)))
