"""Clusters of similar samples, their typical samples, and outliers."""

import warnings
from collections.abc import Iterable
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from softmatch.data.loading import read_plain
from softmatch.data.pictures import ImageFiles
from softmatch.seeds import derive, stream

Array = npt.NDArray[np.float32]

LARGE = 20_000
"""Number of samples above which k-means works on mini-batches."""
SOME = 2000
"""Largest number of samples that are compared with each other."""
NEIGHBOURS, USUAL_NEIGHBOURS = 20, 5
SMALLEST_CLUSTER, MOST_CLUSTERS = 5, 500
FAR = 3.0
"""Interquartile ranges above the third quartile; Tukey's "far out"."""
SIDE, DIRECTIONS = 16, 64
PART = 512


def k_means(features: Array, number: int, seed: int) -> npt.NDArray[np.int64]:
    """Cluster of each sample (N,), 0 … number − 1; some are empty if fewer samples are distinct."""
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    if number >= len(features):
        return np.arange(len(features))
    state = derive(seed, "k-means") % 2**32
    if len(features) > LARGE:
        model = MiniBatchKMeans(number, random_state=state, batch_size=4096, n_init=1, max_iter=5)
    else:
        model = KMeans(number, random_state=state, n_init=3 if number * len(features) <= 10**5 else 1, max_iter=50)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Number of distinct clusters", ConvergenceWarning)
        return np.asarray(model.fit_predict(features), dtype=np.int64)


def typical(features: Array, number: int, labeled: npt.NDArray[np.bool_], seed: int = 0) -> tuple[list[int], list[int]]:
    """Positions of the most typical unlabelled samples, one per cluster, and the sizes of their clusters.

    TypiClust (Hacohen, Dekel and Weinshall 2022): one cluster per label and requested sample; those with the fewest labels come
    first, and of these the largest; clusters of fewer than five samples are left out. A typical sample has a small mean distance
    to its 20 nearest neighbours in its cluster, or in 2,000 samples of it.
    """
    number = min(number, int((~labeled).sum()))
    wanted = min(number + int(labeled.sum()), max(MOST_CLUSTERS, number), len(features))
    places = k_means(features, wanted, seed)
    sizes, known = np.bincount(places, minlength=wanted), np.bincount(places[labeled], minlength=wanted)
    order = [k for k in sorted(range(wanted), key=lambda k: (known[k], -sizes[k])) if sizes[k] > known[k]]
    usable = ([k for k in order if sizes[k] >= SMALLEST_CLUSTER] or order)[:number]
    members = np.split(np.argsort(places, kind="stable"), np.cumsum(sizes)[:-1])
    ranked = [_by_typicality(features, members[k], labeled, derive(seed, "cluster", k)) for k in usable]
    turns = zip_longest(*ranked)  # with fewer clusters than samples, they take turns
    chosen = [(place, int(sizes[k])) for turn in turns for place, k in zip(turn, usable, strict=True) if place is not None]
    return [place for place, _ in chosen[:number]], [size for _, size in chosen[:number]]


def _by_typicality(features: Array, members: npt.NDArray[np.int64], labeled: npt.NDArray[np.bool_], seed: int) -> list[int]:
    """Unlabelled members of a cluster, or of 2,000 members of it, the most typical first."""
    if len(members) > SOME:
        members = members[torch.randperm(len(members), generator=torch.Generator().manual_seed(seed))[:SOME].numpy()]
    distances = mean_distance(features[members], min(NEIGHBOURS, len(members) - 1))
    order = members[np.argsort(distances, kind="stable")]
    return [int(k) for k in order if not labeled[k]]


def mean_distance(among: Array, neighbours: int, features: Array | None = None) -> npt.NDArray[np.float64]:
    """Mean distance of each sample to its nearest neighbours in `among`; by default, of the samples of `among` to each other."""
    from sklearn.neighbors import NearestNeighbors

    if neighbours < 1:
        return np.zeros(len(among if features is None else features))
    distances, _ = NearestNeighbors(n_neighbors=neighbours).fit(among).kneighbors(features)
    return np.asarray(distances.mean(1))


def far_out(features: Array, usual: Array) -> npt.NDArray[np.bool_]:
    """Mask of outliers: their mean distance to five usual samples is over 3 interquartile ranges above the third quartile."""
    neighbours = min(USUAL_NEIGHBOURS, len(usual) - 1)
    low, high = np.quantile(mean_distance(usual, neighbours), (0.25, 0.75))
    return np.asarray(mean_distance(usual, neighbours, features) > high + FAR * (high - low))


def standardized(features: Array) -> Array:
    """Scale each feature to mean 0 and variance 1; a constant one becomes 0."""
    from sklearn.preprocessing import StandardScaler

    return np.asarray(StandardScaler().fit_transform(features), dtype=np.float32)


def reduced(features: Array, seed: int) -> Array:
    """Reduce to at most 64 features, by principal components."""
    size = min(DIRECTIONS, len(features) - 1)
    if features.shape[1] <= size:
        return features
    from sklearn.decomposition import PCA

    fitted = PCA(size, svd_solver="randomized", random_state=derive(seed, "directions") % 2**32)
    some = torch.randperm(len(features), generator=stream(seed, "directions"))[:LARGE].numpy()
    return np.asarray(fitted.fit(features[some]).transform(features), dtype=np.float32)


def thumbnails(items: Tensor | ImageFiles) -> Array:
    """Turn images (N, C, H, W) into vectors of at most 16×16 pixels per channel, in 0 … 1."""
    small = []
    for part in parts_of(items):
        size = min(part.shape[-2], SIDE), min(part.shape[-1], SIDE)
        small.append((F.adaptive_avg_pool2d(part.float(), size) / 255.0).flatten(1))
    return torch.cat(small).numpy()


def parts_of(items: Tensor | ImageFiles) -> Iterable[Tensor]:
    """Items in parts of at most 512."""
    return read_plain(items, PART) if isinstance(items, ImageFiles) else torch.split(items, PART)
