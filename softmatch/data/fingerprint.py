"""Whether data are still those that a model was trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from torch import Tensor


def fingerprint(names: Sequence[str], labels: Tensor, positions: Tensor) -> str:
    """sha256, in hex, over the number of items, and the names and labels of some of them.

    A table that was sorted, a file that was added or removed, and a label that was changed give another one. Labels that other
    samples get later do not: whoever labels more may still use what was trained before.

    Args:
        names: of all items; none where the source has no names.
        labels: of all items (N,), numbers of classes.
        positions: of the items that count: those whose labels were trained on.
    """
    chosen: list[int] = positions.tolist()
    named = [names[position] for position in chosen] if names else []
    total = hashlib.sha256(json.dumps([len(labels), named], separators=(",", ":")).encode())  # ASCII, whatever the names are
    total.update(labels[positions].cpu().numpy().astype("<i8").tobytes())
    return total.hexdigest()
