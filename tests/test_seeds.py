"""Independent streams from one seed, the same on every machine."""

import torch

from softmatch.seeds import derive, stream


def test_streams_are_fixed_for_ever() -> None:
    assert derive(0, "network") == 715385884120655211


def test_names_and_seeds_separate_streams() -> None:
    seeds = {derive(seed, *names) for seed in range(50) for names in (("a",), ("b",), ("a", 1), ("a", 2))}
    assert len(seeds) == 200


def test_a_stream_repeats() -> None:
    assert torch.equal(torch.rand(5, generator=stream(1, "x")), torch.rand(5, generator=stream(1, "x")))
