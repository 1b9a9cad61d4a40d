"""Clusters: typical samples cover more classes than random ones, odd ones are found, copies do no harm."""

import numpy as np
import pytest
import torch

from softmatch.data.sources import find_source
from softmatch.inference import clusters
from softmatch.inference.clusters import far_out, k_means, mean_distance, reduced, standardized, thumbnails, typical


def blobs(sizes: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Round clouds, far from each other."""
    drawn = np.random.default_rng(seed)
    return np.concatenate([drawn.normal(20.0 * k, 1.0, (size, 3)) for k, size in enumerate(sizes)]).astype(np.float32)


def test_typical_samples_of_digits_cover_more_classes_than_random_ones() -> None:
    examples = find_source("digits").load(0, None)
    features, truth = reduced(thumbnails(examples.items), 0), examples.labels.numpy()
    assert features.shape == (1797, 64)
    none = np.zeros(len(truth), dtype=bool)
    ours, theirs = [], []
    for seed in range(5):
        chosen, sizes = typical(features, 20, none, seed)
        assert len(set(chosen)) == len(sizes) == 20
        ours.append(len(set(truth[chosen])))
        drawn = np.random.default_rng(seed)
        theirs += [len(set(truth[drawn.permutation(len(truth))[:20]])) for _ in range(20)]
    assert np.mean(ours) >= 9.5
    assert np.mean(ours) > np.mean(theirs) + 0.5
    assert typical(features, 20, none, 3) == typical(features, 20, none, 3)


def test_the_typical_sample_is_in_the_middle_of_its_cloud() -> None:
    features = blobs((100, 60, 30))
    chosen, sizes = typical(features, 3, np.zeros(190, dtype=bool))
    assert sizes == [100, 60, 30]
    for place, position in enumerate(chosen):
        distances = np.linalg.norm(features - 20.0 * place, axis=1)
        cloud = np.flatnonzero(distances < 10)
        assert distances[position] <= np.quantile(distances[cloud], 0.25)


def test_clusters_with_labels_come_last_and_labelled_samples_never() -> None:
    features, labeled = blobs((100, 60, 30)), np.zeros(190, dtype=bool)
    labeled[:100:10] = True
    chosen, _ = typical(features, 2, labeled)
    assert all(position >= 100 for position in chosen)
    labeled[:] = True
    labeled[[3, 150]] = False
    assert sorted(typical(features, 5, labeled)[0]) == [3, 150]


def test_small_clusters_are_left_out_and_the_others_take_turns() -> None:
    features = np.concatenate([blobs((40, 40)), [[500.0] * 3, [-500.0] * 3]]).astype(np.float32)
    chosen, _ = typical(features, 4, np.zeros(82, dtype=bool))
    assert len(set(chosen)) == 4
    assert max(chosen) < 80
    tiny, _ = typical(blobs((2, 1)), 2, np.zeros(3, dtype=bool))
    assert len(set(tiny)) == 2
    assert sorted(typical(blobs((3,)), 10, np.zeros(3, dtype=bool))[0]) == [0, 1, 2]


def test_equal_samples_make_no_trouble() -> None:
    features = np.zeros((50, 4), dtype=np.float32)
    assert set(k_means(features, 5, 0).tolist()) == {0}
    assert len(set(typical(standardized(features), 5, np.zeros(50, dtype=bool))[0])) == 5


def test_large_sets_are_clustered_in_parts_and_big_clusters_compared_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "LARGE", 500)
    monkeypatch.setattr(clusters, "SOME", 100)
    features = blobs((400, 300, 300))
    places = k_means(features, 3, 0)
    assert [len(set(places[part].tolist())) for part in (slice(0, 400), slice(400, 700), slice(700, 1000))] == [1, 1, 1]
    assert len(set(places.tolist())) == 3
    chosen, sizes = typical(features, 3, np.zeros(1000, dtype=bool))
    assert sizes == [400, 300, 300]
    assert {np.searchsorted([400, 700], position, side="right") for position in chosen} == {0, 1, 2}


def test_what_is_far_from_everything() -> None:
    usual = blobs((200,))
    odd = far_out(np.array([[0.0] * 3, [1.0] * 3, [30.0] * 3], dtype=np.float32), usual)
    assert odd.tolist() == [False, False, True]
    assert mean_distance(usual[:1], 0).tolist() == [0.0]


def test_features_of_images_and_of_many_columns() -> None:
    images = torch.zeros(3, 1, 32, 32, dtype=torch.uint8)
    images[1, :, :2, :2] = 255
    small = thumbnails(images)
    assert small.shape == (3, 256)
    assert small[1].tolist() == [1.0] + [0.0] * 255
    assert thumbnails(images[:, :, :8, :8]).shape == (3, 64)
    assert reduced(np.random.default_rng(0).normal(size=(100, 300)).astype(np.float32), 0).shape == (100, 64)
    assert reduced(small, 0).shape == (3, 2)
    scaled = standardized(np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32))
    assert scaled.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
