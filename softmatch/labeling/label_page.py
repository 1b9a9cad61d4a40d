"""Answers to the requests of the labelling page, as functions of plain values."""

import threading
import webbrowser
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from softmatch.data.label_file import CHOSEN, GROUP, RANDOM
from softmatch.errors import InputError, SoftmatchError
from softmatch.labeling.label_log import NONE, SKIP, How, LabelLog, class_name
from softmatch.labeling.review_lists import ReviewLists
from softmatch.labeling.sample_groups import choose_group
from softmatch.labeling.shown_samples import ShownSamples
from softmatch.labeling.suggestion_queue import SuggestionQueue
from softmatch.labeling.trainings import Trainings

MOST_AT_ONCE = 200
"""Samples in one answer or one act."""
ACTS = ("key", "accept", "new", NONE, SKIP, GROUP, "review", "rename")
LONGEST_ID = 64
SAVE_AFTER = 1.0
"""Seconds after an act before labels.csv is written; the log has it already."""


class LabelPage:
    """Answers to all that the page asks for, and its acts. Without a log and a queue, it only shows a run.

    Args:
        shown: the samples, where their source was found.
        gone: names of labelled samples that the source does not have any more.
    """

    def __init__(
        self,
        trainings: Trainings,
        shown: ShownSamples | None,
        log: LabelLog | None = None,
        queue: SuggestionQueue | None = None,
        gone: Collection[str] = (),
    ) -> None:
        self.trainings, self.shown, self.log, self.queue = trainings, shown, log, queue
        self._gone = set(gone)
        self.reviews = ReviewLists(trainings, queue, shown)
        self.csrf = ""
        self._later: threading.Timer | None = None

    @property
    def _labelling(self) -> tuple[LabelLog, SuggestionQueue]:
        if self.log is None or self.queue is None:
            raise InputError("this page only shows a run: start softmatch label to change labels.")
        return self.log, self.queue

    def state(self, about: Any = None) -> dict[str, Any]:
        """Everything that all screens need."""
        found: dict[str, Any] = {"csrf": self.csrf, "runs": [self._brief(name) for name in self.trainings.names()]}
        if self.log is None or self.queue is None:
            kind = None if self.shown is None else self.shown.kind
            return {**found, "only": True, "classes": [], "title": self.trainings.names()[0], "kind": kind}
        log, queue = self.log, self.queue
        corrected = Counter(queue.known[name] for name in list(log.values) if name in queue.known)
        counts, own = log.counts(), queue.known_counts - corrected
        names = list(dict.fromkeys([*sorted(own), *counts]))
        values = list(log.values.values())
        return {
            **found,
            "only": False,
            "title": Path(queue.shown.where).name or queue.shown.where,
            "project": str(log.folder),
            "epoch": queue.shown.epoch,
            "kind": queue.shown.kind,
            "total": len(queue.shown),
            "classes": [{"name": name, "count": counts.get(name, 0) + own.get(name, 0)} for name in names],
            "labeled": sum(value.label is not None for value in values),
            "random": sum(value.label is not None and value.purpose == RANDOM for value in values),
            "skipped": sum(value.label is None for value in values),
            "measuring": queue.measuring,
            "given": len(queue.known),
            "undo": log.can_undo,
            "redo": log.can_redo,
            "version": log.version,
            "progress": queue.progress,
            "ready": queue.features is not None,
            "fresh": queue.version == log.version,
            "problem": queue.problem,
            "command": self.trainings.command(),
        }

    def _brief(self, name: str) -> dict[str, Any]:
        return {"name": name, "state": self.trainings.state(name)}

    def next(self, about: dict[str, Any]) -> dict[str, Any]:
        """The next samples of a tab."""
        _, queue = self._labelling
        held = [self.position(each) for each in _listed(about.get("held"))]
        found = queue.next(min(_count(about.get("number")), 20), _text(about.get("tab")), held)
        rows = [
            {
                **queue.shown.show(each.position),
                "purpose": each.purpose,
                "reason": each.reason,
                "prediction": each.prediction,
                "confidence": each.confidence,
            }
            for each in found
        ]
        return {"samples": rows, "epoch": queue.shown.epoch}

    def act(self, about: dict[str, Any]) -> dict[str, Any]:
        """Write labels. The answer is given when they are on disk."""
        log, queue = self._labelling
        how: How = about.get("how")  # type: ignore[assignment]  # checked next
        if how not in ACTS or not (request := _text(about.get("request"))):
            raise InputError("an act needs a request and one of the known ways.")
        if how == "rename":
            return self._rename(request, about)
        positions = self._samples(about)
        if not positions:
            raise InputError("an act needs a sample.")
        label = None if how in (NONE, SKIP) else class_name(about.get("label"))
        if how == "new" and label is not None:  # "Boot" is "boot" where that exists
            label = next((name for name in [*queue.known_counts, *log.counts()] if name.casefold() == label.casefold()), label)
        names, purpose = queue.shown.records.names, dict[str, str]()
        for position in positions:
            before = log.values.get(names[position])
            usual = RANDOM if queue.is_random(position) else GROUP if how == GROUP else CHOSEN
            kept = usual if before is None or before.label is None else before.purpose  # a correction changes the label only
            purpose[names[position]] = how if label is None else kept
        if how == GROUP and any(queue.is_random(position) for position in positions):
            raise InputError("a group has no samples that measure the error.")
        samples = [(names[position], queue.shown.digest(position)) for position in positions]
        unread = [names[each] for each in positions if not (queue.shown.digest(each) and queue.shown.is_there(each))]
        if unread and label is not None:
            raise InputError(f"{unread[0]} cannot be read, so it gets no label. Skip it with S.")
        log.write(request, how, samples, label, purpose)
        self._gone -= set(purpose)
        self._changed()
        return self.state()

    def _rename(self, request: str, about: dict[str, Any]) -> dict[str, Any]:
        """Rename a class; a merge with a class that exists must be asked for."""
        log, queue = self._labelling
        old, new = _text(about.get("old")), class_name(about.get("label"))
        if old in queue.known_counts:
            raise InputError(f"{old} is a class of the source: rename it there.")
        others = [name for name in dict.fromkeys([*queue.known_counts, *log.counts()]) if name != old]
        same = next((name for name in others if name.casefold() == new.casefold()), None)
        if not log.has(request):  # else it was done before
            if old not in log.counts() or old == new:
                raise InputError(f"there is no class {old!r}, or it has this name already.")
            if same is not None and not about.get("merge"):
                raise InputError(f"the class {same} exists. Confirm that both shall be one.")
        log.rename(request, old, same or new)
        self._changed()
        return self.state()

    def turn(self, about: dict[str, Any]) -> dict[str, Any]:
        """Undo or redo, and name the samples concerned."""
        log, queue = self._labelling
        request, back = _text(about.get("request")), about.get("how") == "undo"
        if not request or about.get("how") not in ("undo", "redo"):
            raise InputError("give a request, and undo or redo.")
        self._same_samples(about)
        act = log.undo(request) if back else log.redo(request)
        self._changed()
        names = [] if act is None else [change.name for change in act.changes if change.name in queue.shown.ids]
        found = {**self.state(), "samples": [queue.shown.ids[name] for name in names], "acted": act is not None, "sample": None}
        if act is not None and len(names) == 1 and None in (act.changes[0].label, act.changes[0].previous):
            # a label that was given or taken back, not a correction: the page shows the sample again
            value = log.values.get(names[0])
            label = None if value is None else value.label
            found["sample"] = {
                **queue.shown.show(queue.shown.ids[names[0]]),
                "label": label,
                "reason": "Shown again.",
                "prediction": None,
            }
        return found

    def group(self, about: dict[str, Any]) -> dict[str, Any]:
        """A cluster to label at once."""
        _, queue = self._labelling
        passed = [_count(each) for each in _listed(about.get("passed"))]
        again = None if about.get("again") is None else _count(about["again"])
        return {"group": choose_group(queue, passed, again), "ready": queue.features is not None}

    def review(self, about: dict[str, Any]) -> dict[str, Any]:
        """A part of a list of the Review screen."""
        label = about.get("label")
        which, offset, number = _text(about.get("list")), _count(about.get("offset")), _count(about.get("number"))
        return self.reviews.find(which, _text(label) if label else None, offset, min(number, MOST_AT_ONCE))

    def train(self, about: dict[str, Any]) -> dict[str, Any]:
        """Start, stop or resume a training."""
        log, queue = self._labelling
        match about.get("how"):
            case "start":
                ids, there = queue.shown.ids, queue.shown.is_there
                deleted = {name for name in log.labels() if name in ids and not there(ids[name])}
                name = self.trainings.start(log, self._gone | deleted)
            case "stop":
                self.trainings.stop(name := _text(about.get("name")))
            case "resume":
                self.trainings.resume(name := _text(about.get("name")))
            case _:
                raise InputError("give start, stop or resume.")
        return {"name": name}

    def run(self, about: dict[str, Any]) -> dict[str, Any]:
        """Figures of a training."""
        return self.trainings.details(_text(about.get("name")))

    def runs(self, about: dict[str, Any]) -> dict[str, Any]:
        """Figures of all trainings, for the curve over the number of labels."""
        return {"runs": [self.trainings.summary(name) for name in self.trainings.names()], "command": self.trainings.command()}

    def command(self, about: dict[str, Any]) -> dict[str, Any]:
        """Predict the source or export a model."""
        self._labelling  # noqa: B018  # raises where only a run is shown
        name = _text(about.get("name"))
        if about.get("what") == "predict":
            self.trainings.predict(name)
        else:
            self.trainings.export(name, _text(about.get("to")))
        return {"command": self.trainings.command()}

    def _changed(self) -> None:
        """Update suggestions, and write labels.csv when no further act has come for a moment."""
        log, queue = self._labelling
        queue.update()
        if self._later is not None:
            self._later.cancel()
        self._later = threading.Timer(SAVE_AFTER, quietly, [log.write_table])
        self._later.daemon = True
        self._later.start()

    def position(self, value: Any) -> int:
        position = _count(value)
        if self.shown is None or position >= len(self.shown):
            raise InputError(f"there is no sample {position}.")
        return position

    def _samples(self, about: dict[str, Any]) -> list[int]:
        """Positions of the samples of an act; by their names where it waited in a browser while files were added."""
        assert self.queue is not None
        ids, names = self.queue.shown.ids, _listed(about.get("names"))
        if (
            about.get("epoch") != self.queue.shown.epoch
            and names
            and all(isinstance(name, str) and name in ids for name in names)
        ):
            return list(dict.fromkeys(ids[name] for name in names))
        self._same_samples(about)
        return list(dict.fromkeys(self.position(each) for each in _listed(about.get("samples"))))

    def _same_samples(self, about: dict[str, Any]) -> None:
        if self.queue is not None and about.get("epoch") != self.queue.shown.epoch:
            raise HTTPException(409, "The source has changed since this page was loaded: reload it.")

    def close(self) -> None:
        """End the thread, and write labels.csv."""
        if self._later is not None:
            self._later.cancel()
        if self.queue is not None:
            self.queue.end()
        if self.log is not None:
            self.log.close()


def quietly(work: Callable[..., object], *arguments: Any) -> None:
    """Do something that may fail without harm: the log has the labels, and the terminal has the address."""
    with suppress(OSError, SoftmatchError, webbrowser.Error):
        work(*arguments)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 4 * LONGEST_ID:
        raise InputError("a value of the request is not a short text.")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not (
        isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdecimal())
    ):
        raise InputError("a value of the request is not a number.")
    number = int(value) if len(str(value)) < 12 else -1
    if number < 0:
        raise InputError("a number of the request is out of range.")
    return number


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MOST_AT_ONCE:
        raise InputError(f"a list of the request has more than {MOST_AT_ONCE} members.")
    return value
