"""Groups: of one class by the light model, without measuring samples."""

import numpy as np

from softmatch.labeling.sample_groups import choose_group
from softmatch.labeling.suggestion_queue import SuggestionQueue
from tests.labeling.conftest import KINDS, put


def test_groups_have_no_measuring_samples_and_share_a_class(queue: SuggestionQueue) -> None:
    assert choose_group(queue, []) is None
    queue.find_features()
    for position in range(9):
        put(queue, position)
    queue.refresh()
    queue.clusters = np.array([k % 3 for k in queue.places])
    group = choose_group(queue, [])
    assert group is not None
    members = [sample["id"] for sample in group["samples"]]
    assert not any(queue.is_random(k) for k in members)
    assert {KINDS[k % 3] for k in members} == {group["prediction"]}
    other = choose_group(queue, [group["cluster"]])
    assert other is not None
    assert other["cluster"] != group["cluster"]


def test_a_group_of_a_mixed_cluster_is_of_one_class(queue: SuggestionQueue) -> None:
    queue.find_features()
    assert queue.clusters is not None
    assert len(np.unique(queue.clusters)) == 10  # 60 samples are few, and not all alike
    queue.clusters = np.zeros(len(queue.places), dtype=int)
    for position in range(12):
        put(queue, position)
    everything = choose_group(queue, [])
    assert everything is not None
    assert len({KINDS[sample["id"] % 3] for sample in everything["samples"]}) == 3  # no model yet
    queue.refresh()
    group = choose_group(queue, [])
    assert group is not None
    assert {KINDS[sample["id"] % 3] for sample in group["samples"]} == {group["prediction"]}
    assert 0 < group["size"] < everything["size"]
