"""Groups of similar samples, to be labelled at once."""

from collections.abc import Collection
from typing import Any

import numpy as np

from softmatch.labeling.suggestion_queue import SuggestionQueue

SHOWN = 48
"""Samples of a group that are shown at a time."""
SMALLEST_GROUP = 4


def choose_group(queue: SuggestionQueue, passed: Collection[int], again: int | None = None) -> dict[str, Any] | None:
    """Choose a cluster of similar samples without a label, none of them for measuring.

    Args:
        passed: clusters that the user does not want.
        again: cluster that the user has begun with, which is chosen if samples of it are left.
    """
    features, clusters, head = queue.features, queue.clusters, queue.head
    if features is None or clusters is None:
        return None
    free = np.flatnonzero(queue.free_rows())
    groups = {int(each): free[clusters[free] == each] for each in np.unique(clusters[free])}
    if head is not None:  # of each cluster, those that the light model takes for one class
        parts = {each: head.of_one_class(members) for each, members in groups.items()}
        groups = {each: members for each, members in parts.items() if len(members)}
    fewest = min(SMALLEST_GROUP, sum(map(len, groups.values())))
    wanted = [again] if again in groups else [k for k, rows in groups.items() if len(rows) >= fewest and k not in passed]
    if not wanted:
        return None

    def rank(cluster: int) -> tuple[float, int]:
        sure = 1.0 if head is None else head.likeliest(groups[cluster])[1]
        return sure * min(len(groups[cluster]), SHOWN), cluster

    best = max(wanted, key=rank)
    members = groups[best]
    distance = np.linalg.norm(features[members] - features[clusters == best].mean(0), axis=1)
    members = members[np.argsort(distance, kind="stable")]
    return {
        "cluster": best,
        "size": len(members),
        "samples": [queue.shown.show(int(queue.places[row]), brief=True) for row in members[:SHOWN]],
        "prediction": None if head is None else head.likeliest(members)[0],
    }
