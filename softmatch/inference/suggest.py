"""Samples to label next: doubtful ones of a trained model, or the most typical ones before any training; and random ones.

The error is measured on the random ones: an error on samples that were chosen says little about other data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from softmatch.data.fingerprint import digests, group, sample_digest
from softmatch.data.label_file import CHOSEN, RANDOM, locate, read_label_file
from softmatch.data.pictures import ImageFiles
from softmatch.data.readers.open_source import open_source
from softmatch.data.records import Progress as ReadingProgress
from softmatch.data.records import Records
from softmatch.data.shards.shard_source import refuse_shards, shards_in
from softmatch.data.sources import SOURCES, find_source
from softmatch.data.understanding import Reading, check_label_column, fit_preparation, stop, with_label_file
from softmatch.errors import InputError
from softmatch.inference.clusters import SOME, Array, far_out, k_means, parts_of, reduced, standardized, thumbnails, typical
from softmatch.inference.predict import Progress
from softmatch.inference.unlabeled_pool import Pool, open_pool
from softmatch.inference.writing import SUFFIXES, TASKS, Values, choose_path, refuse_unfit, write_samples, write_tasks
from softmatch.networks import Network
from softmatch.runs.model import Model
from softmatch.seeds import stream
from softmatch.views.own_views import OwnCode

SOUND_SIDE = 16
"""Bands and moments of a spectrogram by which recordings are compared."""
CANDIDATES = 10
"""Most doubtful samples that are clustered, as a multiple of the requested number."""
SURE = 0.9
"""Margin above which a prediction is not doubtful."""
FEW = 5
"""Labels per class below which typical samples are chosen: doubts of a model that knows so little are a worse guide."""
RANDOM_SHARE = 0.2
"""Default share of random samples."""
FORMATS = (*SUFFIXES, TASKS)


@dataclass(frozen=True)
class Suggestions:
    """Samples to label, the most useful first, with random ones among them.

    Attributes:
        file: the table with an empty column `label` to fill in, or the tasks.
    """

    names: tuple[str, ...]
    positions: tuple[int, ...]
    file: Path
    explanation: str
    notes: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Summarise the choice and name the table."""
        todo = "import it into Label Studio" if self.file.suffix == TASKS else "fill in the column label"
        return "\n".join([*self.notes, self.explanation, f"{self.file}: {todo}, then train with --labels-from"])


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
    views: OwnCode | None = None,
    raw: bool = False,
    encoder_path: Path | str | None = None,
    labels_from: Path | None = None,
    random_share: float = RANDOM_SHARE,
) -> Suggestions:
    """Choose unlabelled samples to label next: doubtful for the model, different from each other, and no outliers.

    With fewer than 5 labels per class, typical samples are chosen, as by `cold_start`. Later: from the 10 × `number` samples with
    the smallest margin between the two likeliest classes, outliers are left out; the rest is clustered by k-means on features of
    the network, and the most doubtful sample of each cluster is chosen. Before either, `random_share` of the samples are drawn at
    random from all unlabelled ones, to measure the error on.

    Args:
        run: folder of a finished run.
        number: number of samples.
        out: a name in .csv, .tsv, .jsonl or .parquet; .json writes tasks of Label Studio. Default: to_label.csv of the run.
        source: new place of the data, if they have moved.
        seed: random seed of the clusters and of the random samples.
        device: "auto", "cpu", "cuda", …
        progress: called with the number of samples predicted.
        network, views: your own, for a run with such; see `load_model`.
        raw: write CSV without a leading ' in cells that a spreadsheet would run as formulas.
        encoder_path: new place of the encoder of the run.
        labels_from: file of labels given since the training; these samples are not proposed, nor those of the run's own file.
        random_share: share of samples drawn at random, 0 to 1.

    Returns:
        Names and positions of the samples, and the table.

    Raises:
        InputError: run or data cannot be used, or every sample has a label.

    Example:
        >>> len(suggest("runs/mine", number=5).names)
        5
    """
    _refuse(number, out, random_share)
    pool = open_pool(run, source, device, network, encoder_path, views)
    probs = pool.model.calibrated(pool.probabilities(progress))
    records = pool.records()
    top, free = probs.topk(2).values, _free(pool, records, labels_from)
    margin = top[:, 0] - top[:, 1]
    if not len(free):
        raise InputError(f"every sample of {run}, or a copy of it, has a label. There is nothing left to label.")
    drawn = _draw(free.tolist(), number, random_share, seed)
    rest = free[~torch.isin(free, torch.tensor(drawn, dtype=torch.int64))]
    early, wanted = len(pool.task.split.labeled) < FEW * len(pool.model.classes), number - len(drawn)
    sizes = dict[int, int]()
    if len(rest) and wanted > 0:
        sizes = _typical(pool, rest, wanted, seed) if early else _doubtful(pool, margin, rest, wanted, seed)
    mixed, purposes = _mix(list(sizes) if early else sorted(sizes, key=lambda k: float(margin[k])), drawn, seed)
    chosen = torch.tensor(mixed)
    names = pool.names(pool.positions[chosen])
    path = choose_path(out, Path(run), "to_label.csv", FORMATS)
    _write(path, names, _reasons(pool.model.classes, probs, chosen, sizes, early), purposes, records, raw)
    doubtful = margin[torch.tensor(list(sizes), dtype=torch.int64)]
    sure = bool((doubtful > SURE).all())
    what = "different from each other; the model is certain of all" if sure else "doubtful and different"
    apart = f"the two likeliest classes are {doubtful.mean():.2f} apart on average, {margin[free].mean():.2f} among all"
    if early:
        what, apart = "each typical of its own cluster", f"below {FEW} labels per class, these help more than doubtful ones"
    explanation = f"{len(names)} of {len(free):,} unlabelled samples, {what}: {apart}." if sizes else ""
    explanation = " ".join(filter(None, (explanation, _about_random(len(drawn), len(names)))))
    return Suggestions(tuple(names), tuple(pool.positions[chosen].tolist()), path, explanation, purposes=purposes)


def _about_random(drawn: int, number: int) -> str:
    return f"{drawn} of the {number} {'is' if drawn == 1 else 'are'} random instead, to measure the error on." if drawn else ""


def _draw(free: Sequence[int], number: int, share: float, seed: int) -> list[int]:
    """Draw this share of the requested number uniformly from the free samples."""
    order = torch.randperm(len(free), generator=stream(seed, "random samples", len(free))).tolist()
    return [free[k] for k in order[: round(share * number)]]


def _mix(chosen: Sequence[int], drawn: Sequence[int], seed: int) -> tuple[list[int], tuple[str, ...]]:
    """Put random samples among the chosen ones, which keep their order, so that whoever labels them cannot tell."""
    places = torch.randperm(len(chosen) + len(drawn), generator=stream(seed, "mixed"))[: len(drawn)].tolist()
    one, other, found = iter(chosen), iter(drawn), list[tuple[int, str]]()
    for place in range(len(chosen) + len(drawn)):
        found.append((next(other), RANDOM) if place in places else (next(one), CHOSEN))
    return [position for position, _ in found], tuple(purpose for _, purpose in found)


def _write(
    path: Path,
    names: Sequence[str],
    reasons: Mapping[str, Values],
    purposes: Sequence[str],
    records: Records | None,
    raw: bool,
) -> None:
    """Write samples as a table, or as tasks; records are None for a source without files or rows."""
    texts, found = None, [""] * len(names)
    if records is not None:
        index = {name: position for position, name in enumerate(records.names)}
        places = [index[name] for name in names]
        found = [sample_digest(records, place) for place in places]
        texts = [str(records.inputs[place]) for place in places] if records.kind == "text" else None  # type: ignore[index]  # texts
    if path.suffix.lower() == TASKS:
        words = {key: column for key, column in reasons.items() if not isinstance(column, Tensor)}
        images = records is not None and records.kind == "image"
        task = {"name": names, **words, "digest": found, "purpose": purposes}
        write_tasks(path, task, images, texts)  # type: ignore[arg-type]  # words are no tensors
        return
    table = {"name": names, "label": [None] * len(names), **reasons, "digest": found, "purpose": purposes}
    write_samples(path, table, ("margin",), texts, raw)


def _typical(pool: Pool, free: Tensor, number: int, seed: int) -> dict[int, int]:
    """Places in the pool, among the free ones, of typical samples of clusters with few labels, and the sizes of the clusters."""
    known = torch.isin(pool.positions, pool.task.split.labeled).nonzero().flatten()
    places = torch.cat([free, known[~torch.isin(known, free)]])
    items, kind = pool.examples.items[pool.positions[places]], pool.examples.kind
    if kind == "image":
        features = thumbnails(items)
    elif kind != "vector":
        features = _features(pool.model, items)
    elif pool.model.preparation.settings()["kind"] in ("table", "array"):
        features = standardized(_vectors(items))
    else:
        features = _vectors(items)
    labeled = np.arange(len(places)) >= len(free)
    chosen, sizes = typical(reduced(features, seed) if len(places) > 2 else features, number, labeled, seed)
    return {int(places[k]): size for k, size in zip(chosen, sizes, strict=True)}


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


def _reasons(classes: Sequence[str], probs: Tensor, chosen: Tensor, sizes: Mapping[int, int], early: bool) -> dict[str, Values]:
    """Columns with the reasons of the choice."""
    shares, top = probs[chosen].topk(2)
    one, other = ([classes[k] for k in column.tolist()] for column in top.unbind(-1))
    similar = {place: f"; represents {size} similar" for place, size in sizes.items()}
    kind = " samples" if early else " doubtful samples"
    reasons = [
        f"{first} ({high:.0%}), the model is certain{similar[place] + ' samples' if place in similar else ''}"
        if high - low > SURE
        else f"{first} ({high:.0%}) or {second} ({low:.0%}){similar[place] + kind if place in similar else ''}"
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
    random_share: float = RANDOM_SHARE,
) -> Suggestions:
    """Choose samples to label before anything is trained: the most typical one of each cluster (TypiClust).

    Clusters are found by k-means on features, on small versions of the images, or on the features of an encoder, if given.
    Clusters with labels come last. If the data have a word for "unlabelled", name it in `reading`.

    Args:
        source: a folder, table, array … of your own, with a few labels or none; or a named source.
        number: number of samples.
        out: a name in .csv, .tsv, .jsonl or .parquet; .json writes tasks of Label Studio. Default: to_label.csv in the current
            folder, or -2, -3, …
        reading: columns, image size, encoder, a file of labels.
        seed: random seed of the clusters and of the random samples.
        progress: called with the number of samples read, and of all.
        raw, random_share: as of `suggest`.

    Returns:
        Names and positions of the samples, and the table.

    Raises:
        InputError: the source cannot be read, or has nothing to label.

    Example:
        >>> cold_start("digits.npz", number=5).file.name
        'to_label.csv'
    """
    _refuse(number, out, random_share)
    features, names, labeled, records, notes = _read(source, reading or Reading(), seed, progress)
    if bool(labeled.all()):
        raise InputError(f"{source} has no unlabelled sample. There is nothing to choose.")
    drawn = _draw(np.flatnonzero(~labeled).tolist(), number, random_share, seed)
    taken = labeled.copy()
    taken[drawn] = True
    chosen, sizes = typical(features, number - len(drawn), taken, seed) if number > len(drawn) and not taken.all() else ([], [])
    size_of = dict(zip(chosen, sizes, strict=True))
    mixed, purposes = _mix(chosen, drawn, seed)
    picked = [names[k] for k in mixed]
    reasons = [f"the most typical of {size_of[k]} similar samples" if k in size_of else "a random sample" for k in mixed]
    path = choose_path(out, Path(), "to_label.csv", FORMATS)
    _write(path, picked, {"reason": reasons}, purposes, records, raw)
    explanation = f"{len(picked)} of {len(names):,} samples, each typical of its own cluster." if chosen else ""
    explanation = " ".join(filter(None, (explanation, _about_random(len(drawn), len(picked)))))
    return Suggestions(tuple(picked), tuple(mixed), path, explanation, notes, purposes)


def _refuse(number: int, out: Path | None, random_share: float) -> None:
    """Raise InputError now, not after minutes."""
    if number < 1:
        raise InputError(f"--number {number} must be 1 or more.")
    if not 0 <= random_share <= 1:
        raise InputError(f"--random-share {random_share} must lie in 0 … 1.")
    refuse_unfit(out, FORMATS)


def _free(pool: Pool, records: Records | None, labels_from: Path | None) -> Tensor:
    """Places in the pool of samples without a label, and without a labelled copy; of copies the first."""
    groups, items = pool.examples.groups, pool.examples.items
    if groups is None:  # a named source
        if isinstance(items, ImageFiles):
            groups = group("image", digests("image", items.paths, items))
        else:
            groups = group("array", digests("array", (), items))
    taken = set(groups[pool.task.split.labeled].tolist())
    for file in (pool.task.config.labels_from, labels_from):
        taken |= set() if file is None else {int(groups[position]) for position in _labelled_in(file, pool, records)}
    free = []
    for place, content in enumerate(groups[pool.positions].tolist()):
        if content not in taken:
            taken.add(content)
            free.append(place)
    return torch.tensor(free, dtype=torch.int64)


def _labelled_in(file: Path, pool: Pool, records: Records | None) -> list[int]:
    """Positions of the samples that have a label in a file."""
    names = pool.names(torch.arange(len(pool.examples)))
    index = {} if records is None else {name: position for position, name in enumerate(records.names)}

    def digest_of(position: int) -> str:
        return "" if records is None else sample_digest(records, index[names[position]])

    found = locate(read_label_file(file, pool.task.config.unlabeled), names, digest_of, pool.task.source)
    stop(found.problems)
    return list(found.by_position)


@torch.no_grad()
def _features(model: Model, items: Tensor | ImageFiles) -> Array:
    """Features of the network (N, D), or its logits if it shows none."""
    call = getattr(model.network, "features", model.network)
    where = next((parameter.device for parameter in model.network.parameters()), torch.device("cpu"))
    found = [call(model.views.plain(part.to(where))).float().flatten(1).cpu() for part in parts_of(items)]
    return np.asarray(torch.cat(found).numpy(), dtype=np.float32)


def _read(
    source: Any, reading: Reading, seed: int, progress: ReadingProgress | None
) -> tuple[Array, Sequence[str], npt.NDArray[np.bool_], Records | None, tuple[str, ...]]:
    """Features for clustering, names, mask of labelled samples, the records if any, and notes about the source."""
    if isinstance(source, str) and source in SOURCES:  # a benchmark: its labels are ignored
        examples = find_source(source).load(0, None)
        raw = thumbnails(examples.items) if examples.kind == "image" else standardized(_vectors(examples.items))
        return reduced(raw, seed), [str(k) for k in range(len(examples))], np.zeros(len(examples), dtype=bool), None, ()
    refuse_shards(shards_in(source), "`softmatch suggest`")
    opened = open_source(source, reading.columns, need_label=False)
    records, noticed = with_label_file(opened, reading)
    stop(noticed)
    if not len(records):
        raise InputError(f"{opened.where} has no samples.")
    features, kept = cold_features(records, reading, opened.where, opened.columns.text, seed, progress)
    if len(kept) < 2:
        raise InputError(f"{opened.where} has a single sample: there is nothing to choose. Give a source with two or more.")
    labeled = np.array([records.labels[k] is not None for k in kept])
    findings = [*opened.findings, *noticed, *check_label_column(opened, reading.columns)]
    notes = dict.fromkeys(finding.text for finding in findings if finding.level != "stop")
    return features, [records.names[k] for k in kept], labeled, records, tuple(notes)


def cold_features(
    records: Records, reading: Reading, where: str, column: str | None, seed: int, progress: ReadingProgress | None = None
) -> tuple[Array, Sequence[int]]:
    """Features for clustering (n, D), and the positions of the n records that can be read."""
    made = fit_preparation(records, replace(reading, tune="head"), column, progress)
    items, kept = made.items, made.kept
    if not len(kept):
        reasons = "\n".join(finding.text for finding in made.findings)
        raise InputError(reasons or f"{where} has no samples that can be read.")
    if isinstance(items, ImageFiles) or items.ndim == 4:
        features = thumbnails(items)
    elif made.preparation.takes == "sound" and items.ndim == 3:
        features = _vectors(adaptive_avg_pool2d(items[:, None], SOUND_SIDE))  # a small shift in time or pitch changes little
    elif made.preparation.settings()["kind"] in ("table", "array"):
        features = standardized(_vectors(items))
    else:
        features = _vectors(items)  # texts or an encoder: their lengths and directions are comparable
    return features if len(kept) < 2 else reduced(features, seed), kept


def _vectors(items: Tensor | ImageFiles) -> Array:
    assert isinstance(items, Tensor)
    return np.asarray(items.flatten(1).float().numpy(), dtype=np.float32)
