"""Samples to label next: doubtful ones of a trained model, or the most typical ones before any training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from softmatch.data.fingerprint import digests, group
from softmatch.data.pictures import ImageFiles
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Progress as ReadingProgress
from softmatch.data.records import Records
from softmatch.data.sources import SOURCES, find_source
from softmatch.data.understanding import Reading, fit_preparation
from softmatch.errors import InputError
from softmatch.inference.clusters import SOME, Array, far_out, k_means, parts_of, reduced, standardized, thumbnails, typical
from softmatch.inference.predict import Progress
from softmatch.inference.unlabeled_pool import Pool, open_pool
from softmatch.inference.writing import Values, choose_path, refuse_unfit, write_samples
from softmatch.networks import Network
from softmatch.runs.model import Model
from softmatch.seeds import stream

CANDIDATES = 10
"""Most doubtful samples that are clustered, as a multiple of the requested number."""
SURE = 0.9
"""Margin above which a prediction is not doubtful."""


@dataclass(frozen=True)
class Suggestions:
    """Samples to label, the most useful first.

    Attributes:
        names: names of files or rows.
        positions: positions among the samples of the source.
        file: the table with an empty column `label` to fill in.
        explanation: how they were chosen.
        notes: findings about the source.
    """

    names: tuple[str, ...]
    positions: tuple[int, ...]
    file: Path
    explanation: str
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Summarise the choice and name the table."""
        return "\n".join([*self.notes, self.explanation, f"{self.file}: fill in the column label"])


def suggest(
    run: Path | str,
    number: int = 20,
    out: Path | None = None,
    source: Any = None,
    *,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    network: Network | None = None,
    raw: bool = False,
    encoder_path: Path | str | None = None,
) -> Suggestions:
    """Choose unlabelled samples to label next: doubtful for the model, different from each other, and no outliers.

    From the 10 × `number` samples with the smallest margin between the two likeliest classes, outliers are left out; the rest
    is clustered by k-means on the network's features, and the most doubtful sample of each cluster is chosen.

    Args:
        run: folder of a finished run.
        number: number of samples.
        out: a name in .csv, .tsv, .jsonl or .parquet. Default: to_label.csv of the run, or -2, -3, …
        source: new place of the data, if they have moved.
        network: your own network, for a run with one; see `load_model`.
        raw: write CSV without a leading ' in cells that a spreadsheet would run as formulas.
        encoder_path: new place of the encoder of the run.
    """
    _refuse(number, out)
    pool = open_pool(run, source, device, network, encoder_path)
    probs = pool.model.calibrated(pool.probabilities(progress))
    top, free = probs.topk(2).values, _free(pool)
    margin = top[:, 0] - top[:, 1]
    if not len(free):
        raise InputError(f"every sample of {run}, or a copy of it, has a label. There is nothing left to label.")
    sizes = _doubtful(pool, margin, free, number, seed)
    chosen = torch.tensor(sorted(sizes, key=lambda k: float(margin[k])))
    names = pool.names(pool.positions[chosen])
    path = choose_path(out, Path(run), "to_label.csv")
    table = {"name": names, "label": [None] * len(names), **_reasons(pool.model.classes, probs, chosen, sizes)}
    write_samples(path, table, ("margin",), pool.texts(names), raw)
    sure = bool((margin[chosen] > SURE).all())
    what = "different from each other; the model is certain of all" if sure else "doubtful and different"
    explanation = (
        f"{len(names)} of {len(free):,} unlabelled samples, {what}: the two likeliest classes are {margin[chosen].mean():.2f} "
        f"apart on average, {margin[free].mean():.2f} among all."
    )
    return Suggestions(tuple(names), tuple(pool.positions[chosen].tolist()), path, explanation)


def _doubtful(pool: Pool, margin: Tensor, free: Tensor, number: int, seed: int) -> dict[int, int]:
    """Places in the pool, among the free ones, of the most doubtful sample of each cluster, and the size of its cluster."""
    candidates = free[margin[free].argsort(stable=True)[: CANDIDATES * number]]
    usual = free[torch.randperm(len(free), generator=stream(seed, "usual"))[:SOME]]
    features = standardized(_features(pool.model, pool.examples.items[pool.positions[torch.cat([candidates, usual])]]))
    features, theirs = features[: len(candidates)], features[len(candidates) :]
    near = np.ones(len(candidates), dtype=bool) if len(usual) < 2 else ~far_out(features, theirs)
    if near.sum() >= min(number, len(candidates)):  # else too few would be left without the outliers
        candidates, features = candidates[torch.from_numpy(near)], features[near]
    clusters = torch.from_numpy(k_means(features, min(number, len(candidates)), seed))
    groups = [candidates[clusters == cluster] for cluster in range(int(clusters.max()) + 1)]
    return {int(members[0]): len(members) for members in groups if len(members)}  # candidates are sorted, most doubtful first


def _reasons(classes: Sequence[str], probs: Tensor, chosen: Tensor, sizes: Mapping[int, int]) -> dict[str, Values]:
    """Columns with the reasons of the choice."""
    shares, top = probs[chosen].topk(2)
    one, other = ([classes[k] for k in column.tolist()] for column in top.unbind(-1))
    reasons = [
        f"{first} ({high:.0%}), the model is certain; represents {sizes[place]} similar samples"
        if high - low > SURE
        else f"{first} ({high:.0%}) or {second} ({low:.0%}); represents {sizes[place]} similar doubtful samples"
        for first, second, (high, low), place in zip(one, other, shares.tolist(), chosen.tolist(), strict=True)
    ]
    return {"predicted": one, "second": other, "margin": shares[:, 0] - shares[:, 1], "reason": reasons}


def cold_start(
    source: Any,
    number: int = 20,
    out: Path | None = None,
    reading: Reading | None = None,
    *,
    seed: int = 0,
    progress: ReadingProgress | None = None,
    raw: bool = False,
) -> Suggestions:
    """Choose samples to label before anything is trained: the most typical one of each cluster (TypiClust).

    Clusters are found by k-means on features, on small versions of the images, or on the features of an encoder, if given.
    Clusters with labels come last. If the data have a word for "unlabelled", name it in `reading`.

    Args:
        source: a folder, table, array … of your own, with a few labels or none; or a named source.
        number: number of samples.
        out: a name in .csv, .tsv, .jsonl or .parquet. Default: to_label.csv in the current folder, or -2, -3, …
        reading: columns, image size, encoder.
        raw: as of `suggest`.
    """
    _refuse(number, out)
    features, names, labeled, texts, notes = _read(source, reading or Reading(), seed, progress)
    if bool(labeled.all()):
        raise InputError(f"{source} has no unlabelled sample. There is nothing to choose.")
    chosen, sizes = typical(features, number, labeled, seed)
    picked = [names[k] for k in chosen]
    reasons = [f"the most typical of {size} similar samples" for size in sizes]
    table: dict[str, Values] = {"name": picked, "label": [None] * len(chosen), "reason": reasons}
    path = choose_path(out, Path(), "to_label.csv")
    write_samples(path, table, (), None if texts is None else [texts[k] for k in chosen], raw)
    explanation = f"{len(chosen)} of {len(names):,} samples, each typical of its own cluster."
    return Suggestions(tuple(picked), tuple(chosen), path, explanation, notes)


def _refuse(number: int, out: Path | None) -> None:
    """Raise InputError now, not after minutes."""
    if number < 1:
        raise InputError(f"--number {number} must be 1 or more.")
    refuse_unfit(out)


def _free(pool: Pool) -> Tensor:
    """Places in the pool of samples without a label, and without a labelled copy; of copies the first."""
    groups, items = pool.examples.groups, pool.examples.items
    if groups is None:  # a named source
        if isinstance(items, ImageFiles):
            groups = group("image", digests("image", items.paths, items))
        else:
            groups = group("array", digests("array", (), items))
    taken = set(groups[pool.task.split.labeled].tolist())
    free = []
    for place, content in enumerate(groups[pool.positions].tolist()):
        if content not in taken:
            taken.add(content)
            free.append(place)
    return torch.tensor(free, dtype=torch.int64)


@torch.no_grad()
def _features(model: Model, items: Tensor | ImageFiles) -> Array:
    """Features of the network (N, D), or its logits if it shows none."""
    call = getattr(model.network, "features", model.network)
    where = next((parameter.device for parameter in model.network.parameters()), torch.device("cpu"))
    found = [call(model.views.plain(part.to(where))).float().flatten(1).cpu() for part in parts_of(items)]
    return np.asarray(torch.cat(found).numpy(), dtype=np.float32)


def _read(
    source: Any, reading: Reading, seed: int, progress: ReadingProgress | None
) -> tuple[Array, Sequence[str], npt.NDArray[np.bool_], Sequence[str] | None, tuple[str, ...]]:
    """Features for clustering, names, mask of labelled samples, texts if any, and notes about the source."""
    if isinstance(source, str) and source in SOURCES:  # a benchmark: its labels are ignored
        examples = find_source(source).load(0, None)
        raw = thumbnails(examples.items) if examples.kind == "image" else standardized(_vectors(examples.items))
        return reduced(raw, seed), [str(k) for k in range(len(examples))], np.zeros(len(examples), dtype=bool), None, ()
    opened = open_source(source, reading.columns, need_label=False)
    records = opened.read()
    if not len(records):
        raise InputError(f"{opened.where} has no samples.")
    features, kept = cold_features(records, reading, opened.where, opened.columns.text, seed, progress)
    if len(kept) < 2:
        raise InputError(f"{opened.where} has a single sample: there is nothing to choose. Give a source with two or more.")
    labeled = np.array([records.labels[k] is not None for k in kept])
    texts = [str(records.inputs[k]) for k in kept] if records.kind == "text" else None  # type: ignore[index]  # as the kind says
    notes = [finding.text for finding in opened.findings if finding.level != "stop"]
    if opened.kind == "table" and opened.columns.label is None and reading.columns.features is None:
        notes.append(f"{opened.where}: no label column was found. If there is one, name it with --label; it is a feature now.")
    return features, [records.names[k] for k in kept], labeled, texts, tuple(notes)


def cold_features(
    records: Records, reading: Reading, where: str, column: str | None, seed: int, progress: ReadingProgress | None = None
) -> tuple[Array, Sequence[int]]:
    """Features for clustering (n, D), and the positions of the n records that can be read.

    Args:
        where: name of the source, for messages.
        column: column of the texts.
    """
    made = fit_preparation(records, replace(reading, fine_tune=False), column, progress)
    items, kept = made.items, made.kept
    if not len(kept):
        reasons = "\n".join(finding.text for finding in made.findings)
        raise InputError(reasons or f"{where} has no samples that can be read.")
    if isinstance(items, ImageFiles) or items.ndim == 4:
        features = thumbnails(items)
    elif made.preparation.settings()["kind"] in ("table", "array"):
        features = standardized(_vectors(items))
    else:
        features = _vectors(items)  # texts or an encoder: their lengths and directions are comparable
    return features if len(kept) < 2 else reduced(features, seed), kept


def _vectors(items: Tensor | ImageFiles) -> Array:
    assert isinstance(items, Tensor)
    return np.asarray(items.flatten(1).float().numpy(), dtype=np.float32)
