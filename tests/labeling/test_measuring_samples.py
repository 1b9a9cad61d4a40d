"""Measuring samples: none at first, a fifth in the end; a name decides which they may be."""

from pathlib import Path

import pytest

from softmatch.data.understanding import Reading
from softmatch.labeling.measuring_samples import measuring_due
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue
from tests.labeling.conftest import make_pictures


@pytest.mark.parametrize(("number", "random"), [(20, 0), (40, 0), (43, 1), (60, 6), (99, 19), (100, 20), (105, 21), (1000, 200)])
def test_no_random_samples_at_first_and_a_fifth_from_100_on(number: int, random: int) -> None:
    assert measuring_due(number) == random


def test_what_is_random_depends_on_the_name_alone(queue: SuggestionQueue, tmp_path: Path) -> None:
    more = make_pictures(tmp_path / "more", 90)
    other = SuggestionQueue(ShownSamples(str(more), Reading()), queue.log, Reading())
    names = queue.shown.records.names
    assert [queue.is_random(k) for k in range(60)] == [other.is_random(other.shown.ids[name]) for name in names]
