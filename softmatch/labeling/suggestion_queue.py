"""Queue of samples to label: typical ones first, then those that a light model doubts, and random ones for measuring."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.data.label_file import CHOSEN, RANDOM
from softmatch.data.understanding import Reading
from softmatch.errors import InputError, first_line
from softmatch.files.cache import entry, identity, replacing
from softmatch.inference.clusters import Array, k_means, typical
from softmatch.inference.suggest import FEW, SURE, cold_features
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.light_model import Head, fit_head
from softmatch.labeling.measuring_samples import is_for_measuring, measuring_due, random_marks
from softmatch.labeling.shown_samples import ShownSamples

MOST = {"image": 100_000, "sound": 30_000, "text": 30_000, "table": 100_000}
"""Samples that get features, by kind; of a larger source, suggestions are made among this many at random."""
SIDE = 32
"""Side of the images that features are computed from, if there is no encoder."""
PLAN, CANDIDATES = 24, 10
"""Suggestions made at a time; doubtful samples clustered per suggestion."""
ROUNDS = (10, 10, 20, 40, 80)
"""Typical samples found at a time: as many clusters as labels so far and in this round. More clusters at once would be worse."""
EXPLORE = 4
"""Every fourth suggestion of a model is a typical sample instead: it may be of a class without any label yet."""
QUIET, LATEST = 0.1, 0.5
"""Seconds without a new label after which suggestions are updated, and at the latest: a key press does not wait for that."""
LEASE = 120.0
"""Seconds for which a sample that one tab has fetched is not given to another."""
PER_CLUSTER, MOST_CLUSTERS = 40, 200
FEWEST_CLUSTERS, SMALLEST_CLUSTER = 10, 6
"""Clusters of a small source, as long as they have this many samples on average."""


@dataclass(frozen=True)
class Suggestion:
    """A sample to label, and why. Random ones have no prediction: it would influence what they are for."""

    position: int
    purpose: str
    reason: str
    prediction: str | None = None
    confidence: float | None = None


class SuggestionQueue:
    """Chooses samples; a thread of its own computes features and keeps the choice up to date.

    Attributes:
        places: positions of the samples with features.
        features: (n, D); None until they are computed.
        clusters: cluster of each sample with features.
        head: the light model's predictions; None until there are labels of two classes.
        progress: samples whose features are computed, and their number.
        problem: why there are no features; "" where there are.
    """

    def __init__(self, shown: ShownSamples, log: LabelLog, reading: Reading, seed: int = 0) -> None:
        self.shown, self.log, self.seed = shown, log, seed
        side = {"image_size": SIDE} if shown.kind == "image" and reading.encoder is None else {}
        self._reading = replace(reading, **side)  # type: ignore[arg-type]  # an image size
        names, marks = shown.records.names, random_marks(shown.records.names)
        self._reserved = is_for_measuring(marks)
        self.known = shown.known
        self.known_counts = Counter(self.known.values())
        order = np.argsort(marks, kind="stable")
        self._unknown = np.array([label is None for label in shown.records.labels], dtype=bool)
        free = self._unknown[order]
        self._random, self._others = order[free & self._reserved[order]], order[free & ~self._reserved[order]][::-1]
        number = min(len(names), MOST[shown.kind])
        self.places: npt.NDArray[np.int64] = np.sort(order[::-1][:number])
        self.features: Array | None = None
        self.clusters: npt.NDArray[np.int64] | None = None
        self.head: Head | None = None
        self.progress, self.problem = (0, number), ""
        self._typical: list[tuple[int, int]] = []
        self._plan: list[Suggestion] = []
        self._leases: dict[int, tuple[str, float]] = {}
        self._guard, self._wake, self._ended, self.version = threading.Lock(), threading.Event(), threading.Event(), -1
        self._thread = threading.Thread(target=self._work, name="suggestions", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._wake.set()
        self._thread.start()

    def end(self) -> None:
        """End the thread when its present work is done."""
        self._ended.set()
        self._wake.set()

    def update(self) -> None:
        """Have the choice updated: there are other labels."""
        self._wake.set()

    def is_random(self, position: int) -> bool:
        """True for a sample that measures the error. Its name decides, so that no model and no other file has a say."""
        return bool(self._reserved[position])

    @property
    def measuring(self) -> int:
        """Number of samples that can measure the error, labelled or not."""
        return len(self._random)

    @property
    def reserved(self) -> int:
        """Number of samples with features that measure the error and have no label yet: their predictions are not shown."""
        labeled = self._rows(self.log.labels())
        measuring = self._reserved[self.places] & self._unknown[self.places]
        return int(measuring.sum() - measuring[labeled[labeled >= 0]].sum())

    def next(self, number: int, tab: str, held: Collection[int]) -> list[Suggestion]:
        """Choose the next samples for a tab of the browser.

        Args:
            held: samples that the tab has already.
        """
        seen, now = self.log.values, time.monotonic()
        with self._guard:
            self._leases = {k: lease for k, lease in self._leases.items() if now - lease[1] < LEASE}
            taken = {k for k, (owner, _) in self._leases.items() if owner != tab} | set(held)
            found = list[Suggestion]()
            measured = sum(self.is_random(k) for k in held)
            done = [self.shown.ids[name] for name in list(seen) if name in self.shown.ids]
            measured += int(self._reserved[done].sum())
            others = len(held) + len(done) - measured
            plan = iter([each for each in self._plan if self._is_free(each.position, seen, taken)])
            random, rest = self._unseen(self._random, seen, taken), self._unseen(self._others, seen, taken)
            while len(found) < number:
                turn = measured < measuring_due(measured + others + 1)
                each = (_measuring(random) if turn else None) or next(plan, None) or self._any(rest) or _measuring(random)
                if each is None:
                    break
                if each.position not in taken:
                    taken.add(each.position)
                    found.append(each)
                    measured, others = (measured + 1, others) if each.purpose == RANDOM else (measured, others + 1)
            self._leases |= {each.position: (tab, now) for each in found}
        return found

    def _is_free(self, position: int, seen: Collection[str], taken: Collection[int]) -> bool:
        return position not in taken and self.shown.records.names[position] not in seen

    def _unseen(self, order: Iterable[int], seen: Collection[str], taken: Collection[int]) -> Any:
        return (int(k) for k in order if self._is_free(int(k), seen, taken))

    def _any(self, rest: Any) -> Suggestion | None:
        position = next(rest, None)
        if position is None:
            return None
        why = "Any sample, until similar ones are found." if self.features is None else "Any sample: the better choices are made."
        return Suggestion(position, CHOSEN, why)

    def _work(self) -> None:
        try:
            self.find_features()
        except (InputError, OSError, MemoryError, ValueError) as error:
            self.problem = f"Samples come in random order: {first_line(error)}"
        while not self._ended.is_set():
            self._wake.wait()
            latest = time.monotonic() + LATEST
            while self._wake.is_set() and not self._ended.is_set() and time.monotonic() < latest:
                self._wake.clear()
                self._wake.wait(QUIET)
            self._wake.clear()
            if self.features is not None and not self._ended.is_set():
                self.refresh()

    def find_features(self) -> None:
        """Compute the features, or take them from the cache; and find clusters and typical samples."""
        records = (
            self.shown.records.select([int(k) for k in self.places]) if len(self.places) < len(self.shown) else self.shown.records
        )
        made_of = [self.shown.epoch, self._reading.encoder, self._reading.max_tokens, self.seed, records.kind, len(records)]
        files = [path for path in records.inputs if isinstance(path, Path)] if records.kind in ("image", "sound") else []
        stored = entry("label-features", [*made_of, _summary(files) if files else _content(records.inputs)])
        if not stored.is_dir():
            features, kept = cold_features(records, self._reading, self.shown.where, self.shown.column, self.seed, self._tell)
            with replacing(stored) as folder:
                np.save(folder / "features.npy", features, allow_pickle=False)
                np.save(folder / "kept.npy", np.asarray(kept, dtype=np.int64), allow_pickle=False)
        self.places = self.places[np.load(stored / "kept.npy", allow_pickle=False)]
        self.progress = (len(records), len(records))
        self.use_features(np.load(stored / "features.npy", allow_pickle=False))

    def use_features(self, features: Array) -> None:
        """Find clusters and typical samples by the features of the samples at `places`."""
        features = features / max(float(features.std()), 1e-6)  # all alike: the first directions say more than the last
        self._typical = self._find_typical(features)
        fewest = int(np.clip(len(features) // SMALLEST_CLUSTER, 1, FEWEST_CLUSTERS))
        self.clusters = k_means(features, int(np.clip(len(features) // PER_CLUSTER, fewest, MOST_CLUSTERS)), self.seed)
        self.features = features

    def _find_typical(self, features: Array) -> list[tuple[int, int]]:
        """Rows of typical samples without a label, in the order in which to label them, and the sizes of their clusters."""
        known = self.labeled_rows()[0]
        rows = np.union1d(np.flatnonzero(self.free_rows()), known)
        labeled, found = np.isin(rows, known), list[tuple[int, int]]()
        for number in ROUNDS if len(rows) > 1 else ():
            if labeled.all():
                break
            chosen, sizes = typical(features[rows], number, labeled, self.seed)
            found += [(int(rows[k]), size) for k, size in zip(chosen, sizes, strict=True)]
            labeled[chosen] = True
        return found

    def _tell(self, done: int, total: int) -> None:
        if self._ended.is_set():
            raise InputError("stopped")
        self.progress = (done, total)

    def _rows(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """Rows of features of samples; −1 for one without. It takes time for these samples only, not for all that there are."""
        positions = np.array([self.shown.ids.get(name, -1) for name in names], dtype=np.int64)
        if not len(self.places):
            return np.full(len(positions), -1)
        rows = np.minimum(np.searchsorted(self.places, positions), len(self.places) - 1)
        return np.where(self.places[rows] == positions, rows, -1)

    def _without(self, names: Collection[str]) -> npt.NDArray[np.bool_]:
        """Mask of the rows of features without these samples, those with a label of the source and those for measuring."""
        free: npt.NDArray[np.bool_] = ~self._reserved[self.places] & self._unknown[self.places]
        rows = self._rows(list(names))
        free[rows[rows >= 0]] = False
        return free

    def free_rows(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows of features that may be suggested: not seen, without a label of the source, not for measuring."""
        return self._without(self.log.values)

    def unlabeled_rows(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows of features without a label; samples for measuring are not among them."""
        return self._without(self.log.labels())

    def labeled_rows(self) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Rows of features with a label, and the labels; those of the page go before those of the source."""
        labels = {**self.known, **{name: str(value.label) for name, value in self.log.labels().items()}}
        rows = dict(zip(self._rows(labels).tolist(), labels.values(), strict=True))
        found = sorted(row for row in rows if row >= 0)
        return np.array(found, dtype=np.int64), [rows[row] for row in found]

    def refresh(self) -> None:
        """Fit the light model to the labels, and choose the next samples."""
        assert self.features is not None
        version, free = self.log.version, self.free_rows()
        rows, labels = self.labeled_rows()
        head = fit_head(self.features, rows, labels, self.seed)
        early = head is None or len(rows) < FEW * len(head.classes)
        if early and free.any() and not any(free[row] for row, _ in self._typical):  # many classes: all are labelled
            self._typical = self._find_typical(self.features)
        explore = list[Suggestion]()
        for row, size in [(row, size) for row, size in self._typical if free[row]][:PLAN]:
            said = head.likeliest(row) if head is not None else (None, None)
            explore.append(Suggestion(int(self.places[row]), CHOSEN, f"Typical of {size:,} similar samples.", *said))
        plan = explore
        if head is not None and not early and free.any():
            plan = _interleave(self._doubtful(head, np.flatnonzero(free)), explore)
        with self._guard:
            self.head, self._plan, self.version = head, plan, version

    def _doubtful(self, head: Head, free: npt.NDArray[np.int64]) -> list[Suggestion]:
        """The most doubtful sample of each cluster of doubtful samples."""
        assert self.features is not None
        top = -np.sort(-head.probs[free], axis=1)[:, :2]
        margin = top[:, 0] - top[:, 1]
        candidates = free[np.argsort(margin, kind="stable")[: CANDIDATES * PLAN]]
        clusters = k_means(self.features[candidates], min(PLAN, len(candidates)), self.seed)
        found = list[Suggestion]()
        for cluster in range(int(clusters.max()) + 1):
            members = candidates[clusters == cluster]
            if len(members):
                found.append(self._explained(head, int(members[0]), len(members)))
        return sorted(found, key=lambda each: each.confidence or 0.0)

    def _explained(self, head: Head, row: int, similar: int) -> Suggestion:
        first, second = np.argsort(-head.probs[row])[:2]
        high, low = float(head.probs[row, first]), float(head.probs[row, second])
        one, other = head.classes[first], head.classes[second]
        said = (
            f"{one} ({_whole(high)}) or {other} ({_whole(low)})?"
            if high - low <= SURE
            else f"{one} ({_whole(high)}), the model is certain."
        )
        represents = f" Represents {similar:,} similar samples." if similar > 1 else ""
        return Suggestion(int(self.places[row]), CHOSEN, f"{said}{represents}", one, high)


def _measuring(random: Any) -> Suggestion | None:
    position = next(random, None)
    said = "Drawn at random to measure the error, so no prediction is shown."
    return None if position is None else Suggestion(position, RANDOM, said)


def _whole(share: float) -> str:
    """A share as the page writes it."""
    return f"{100 * share:.0f}\u202f%"


def _interleave(doubtful: list[Suggestion], explore: list[Suggestion]) -> list[Suggestion]:
    """Every fourth is a typical one; none twice."""
    found, other = list[Suggestion](), iter(explore)
    for place, each in enumerate(doubtful, 1):
        found.append(each)
        if place % (EXPLORE - 1) == 0:
            found += [more for more in [next(other, None)] if more is not None]
    return list({each.position: each for each in found}.values())


def _summary(files: list[Path]) -> str:
    """Digest of paths, sizes and times."""
    return hashlib.sha256(repr(identity(files)).encode("utf-8", "backslashreplace")).hexdigest()


def _content(inputs: Any) -> str:
    """Digest of texts or cells."""
    total = hashlib.sha256()
    for column in inputs.values() if isinstance(inputs, dict) else [inputs]:
        total.update(
            column.tobytes() if isinstance(column, np.ndarray) else "\0".join(map(str, column)).encode("utf-8", "replace")
        )
    return total.hexdigest()
