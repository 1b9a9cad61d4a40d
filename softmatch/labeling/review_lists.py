"""Lists of samples worth a second look: doubtful labels, mistakes, near copies, outliers, and predictions by class."""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from softmatch.errors import InputError
from softmatch.inference.clusters import USUAL_NEIGHBOURS, far_out, mean_distance
from softmatch.labeling.label_log import NONE, SKIP
from softmatch.labeling.light_model import MOST_FITTED, fitted
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue
from softmatch.labeling.trainings import Trainings
from softmatch.seeds import derive

MOST_COMPARED = 8000
"""Samples that are compared with each other to find copies and outliers; labelled ones are always among them."""
NEAR = 0.05
"""Distance of near copies, relative to the usual distance of neighbours."""
FOLDS = 5
LONGEST = 500
"""Samples in a list; predictions have no limit."""
Row = dict[str, Any]


class ReviewLists:
    """Lists of the Review screen. Each is computed when it is asked for, and kept until labels change.

    Args:
        queue: features and the light model; None where only a run is shown.
        shown: the samples, where their source was found.
    """

    def __init__(self, trainings: Trainings, queue: SuggestionQueue | None, shown: ShownSamples | None) -> None:
        self._trainings, self._queue, self._shown = trainings, queue, shown
        self._kept: dict[tuple[object, ...], list[Row]] = {}
        self._makers: dict[str, Callable[[SuggestionQueue], list[Row]]] = {
            "disagreements": _disagreements,
            "copies": _near_copies,
            "outliers": _outliers,
            "labels": _labels,
            "left": _left_out,
        }

    def find(self, which: str, label: str | None, offset: int, number: int) -> dict[str, Any]:
        """Give a part of a list.

        Args:
            which: disagreements, mistakes, predictions, doubtful, copies, outliers, labels or left.
            label: only samples with this label or prediction; for predictions, of this class.
        """
        queue = self._queue
        if which == "mistakes":
            rows = self._mistakes()
        elif queue is None:
            raise InputError("this page only shows a run: it has the list of mistakes.")
        elif which in ("predictions", "doubtful"):
            return _predictions(queue, label, which == "doubtful", offset, number)
        elif which in self._makers:
            key = (which, queue.log.version, queue.features is None)
            if key not in self._kept:
                self._kept = {old: rows for old, rows in self._kept.items() if old[0] != which}
                self._kept[key] = self._makers[which](queue)[:LONGEST]
            rows = self._kept[key]
        else:
            raise InputError(f"there is no list {which[:20]!r}.")
        rows = rows if label is None else [row for row in rows if label in (row.get("label"), row.get("prediction"))]
        return {"total": len(rows), "rows": [_shown(self._shown, queue, row) for row in rows[offset : offset + number]]}

    def _mistakes(self) -> list[Row]:
        """Held-out samples that the newest finished training got wrong, the most confident first."""
        names = self._trainings.finished() or self._trainings.names()
        found = self._trainings.held_out(names[-1]) if names else []
        ids = {} if self._shown is None else self._shown.ids
        return [
            {
                "id": ids.get(row["name"]),
                "name": row["name"],
                "label": row["label"],
                "prediction": row["predicted"],
                "confidence": float(row["confidence"]),
            }
            for row in found
            if row.get("right") == "no"
        ][:LONGEST]


def _shown(samples: ShownSamples | None, queue: SuggestionQueue | None, row: Row) -> Row:
    """Add the sample itself, and the label that it has now."""
    position = row.get("id")
    if samples is None or position is None:
        return row
    shown = samples.show(position, brief=True)
    value = None if queue is None else queue.log.values.get(shown["name"])
    now = row.get("label") if queue is None else value.label if value is not None else queue.known.get(shown["name"])
    return {**row, **shown, "now": now}


def _disagreements(queue: SuggestionQueue) -> list[Row]:
    """Labelled samples that a light model, fitted without them, takes for another class, the most confident first."""
    from sklearn.model_selection import StratifiedKFold

    rows, labels = queue.labeled_rows()
    if queue.features is None or len(rows) < 2 * FOLDS:
        return []
    some = np.random.default_rng(derive(queue.seed, "review")).permutation(len(rows))[:MOST_FITTED]
    rows, given = rows[some], np.array([labels[k] for k in some])
    found, folds = list[Row](), min(FOLDS, max(Counter(given.tolist()).values()))
    if folds < 2:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a class has fewer samples than there are folds
        parts = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(rows, given))
    for train, test in parts:
        if len(set(given[train])) < 2:
            continue
        model = fitted(queue.features[rows[train]], list(given[train]))
        probs = model.predict_proba(queue.features[rows[test]])
        for place, row in zip(probs, test, strict=True):
            said = str(model.classes_[place.argmax()])
            if said != given[row]:
                found.append(_row(queue, rows[row], given[row], said, float(place.max())))
    return sorted(found, key=lambda each: -float(each["confidence"]))


def _row(
    queue: SuggestionQueue, row: int, label: str | None, prediction: str | None, confidence: float | None, **more: Any
) -> Row:
    return {"id": int(queue.places[row]), "label": label, "prediction": prediction, "confidence": confidence, **more}


def _predictions(queue: SuggestionQueue, label: str | None, doubtful: bool, offset: int, number: int) -> dict[str, Any]:
    """Samples without a label by predicted class and confidence."""
    head = queue.head
    if head is None or queue.features is None:
        return {"total": 0, "rows": []}
    predicted, confidence = head.probs.argmax(1), head.probs.max(1)
    keep = queue.unlabeled_rows()
    if label is not None:
        keep = keep & (predicted == head.classes.index(label) if label in head.classes else False)
    rows = np.flatnonzero(keep)
    rows = rows[np.argsort(confidence[rows] if doubtful else -confidence[rows], kind="stable")]
    part = rows[offset : offset + number]
    made = [_row(queue, row, None, head.classes[predicted[row]], float(confidence[row])) for row in part]
    return {"total": len(rows), "reserved": queue.reserved, "rows": [_shown(queue.shown, queue, row) for row in made]}


def _compared(queue: SuggestionQueue) -> npt.NDArray[np.int64]:
    """Rows that are compared with each other: those with a label, and others at random."""
    assert queue.features is not None
    rows, _ = queue.labeled_rows()
    others = np.random.default_rng(derive(queue.seed, "compared")).permutation(len(queue.features))
    return np.array(list(dict.fromkeys([*rows.tolist(), *others.tolist()]))[:MOST_COMPARED], dtype=np.int64)


def _near_copies(queue: SuggestionQueue) -> list[Row]:
    """Pairs of samples that hardly differ; those with different labels first."""
    if queue.features is None or len(queue.features) < 3:
        return []
    from sklearn.neighbors import NearestNeighbors

    rows = _compared(queue)
    distances, neighbours = NearestNeighbors(n_neighbors=2).fit(queue.features[rows]).kneighbors()
    nearest, usual = distances[:, 0], float(np.median(distances[:, 1]))
    labels = dict(zip(*queue.labeled_rows(), strict=True))
    pairs = {
        tuple(sorted((int(rows[k]), int(rows[neighbours[k, 0]])))): float(nearest[k])
        for k in np.flatnonzero(nearest <= NEAR * usual)
    }
    different = {each: len({labels[row] for row in each if row in labels}) > 1 for each in pairs}
    found = list[Row]()
    for place, each in enumerate(sorted(pairs, key=lambda each: (not different[each], pairs[each]))):
        said = "labels differ" if different[each] else "near copies"
        found += [_row(queue, row, labels.get(row), None, None, pair=place + 1, said=said) for row in each]
    return found


def _outliers(queue: SuggestionQueue) -> list[Row]:
    """Samples far from all others, the farthest first."""
    if queue.features is None or len(queue.features) < 2 * USUAL_NEIGHBOURS:
        return []
    rows = _compared(queue)
    among = queue.features[rows]
    distance = mean_distance(among, USUAL_NEIGHBOURS)
    far = np.flatnonzero(far_out(among, among) | (distance >= np.sort(distance)[-min(24, len(rows))]))
    labels = dict(zip(*queue.labeled_rows(), strict=True))
    order, usual = far[np.argsort(-distance[far], kind="stable")], max(float(np.median(distance)), 1e-9)
    said = {k: f"{distance[k] / usual:.1f} × the usual distance" for k in order}
    return [_row(queue, int(rows[k]), labels.get(int(rows[k])), None, None, said=said[k]) for k in order]


def _labels(queue: SuggestionQueue) -> list[Row]:
    """All labels of the page, the newest first."""
    values = [(name, value) for name, value in queue.log.labels().items() if name in queue.shown.ids]
    return [
        {"id": queue.shown.ids[name], "label": value.label, "prediction": None, "said": value.purpose}
        for name, value in values[::-1]
    ]


def _left_out(queue: SuggestionQueue) -> list[Row]:
    """Samples that were skipped or fit no class, the newest first."""
    said = {SKIP: "skipped", NONE: "none of the classes"}
    values = [(name, value) for name, value in queue.log.values.items() if value.label is None and name in queue.shown.ids]
    return [
        {"id": queue.shown.ids[name], "label": None, "prediction": None, "said": said[value.purpose]}
        for name, value in values[::-1]
    ]
