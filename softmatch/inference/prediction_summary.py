"""Predictions of consecutive samples, and their summary over a whole source."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from softmatch.errors import InputError
from softmatch.formatting import changed_lengths, quoted
from softmatch.metrics import wilson_interval

SHOWN = 5


@dataclass(frozen=True)
class Predicted:
    """Consecutive samples with their predictions.

    Attributes:
        labels: labels in the source; None where missing.
        probs: calibrated p(y | x) (n, C); NaN for samples that cannot be used.
        problems: reasons why a sample cannot be used; empty for all others.
        kept: cells of further columns of the source.
        unseen: by column of a table, its values that the model cannot know.
        other_lengths: number of series that are longer than those of the model, and of shorter ones.
    """

    names: list[str]
    labels: list[str | None]
    probs: Tensor
    problems: list[str]
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unseen: Mapping[str, Counter[str]] = field(default_factory=dict)
    other_lengths: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Unseen:
    """Cells of a column with a value that the model cannot know: a word that is not a category of the model, or no number."""

    cells: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Predictions:
    """Summary of predictions.

    Attributes:
        file: the table with all predictions; None for a single sample without a requested file.
        counts: number of predictions of each class, the most frequent first.
        confidence: mean of the largest probability; None if nothing could be predicted.
        likeliest: the most likely classes of a single sample with their probabilities.
        known: number of samples with a label in the source that is a class of the model.
        error: share of wrong predictions on these; None without any.
        unknown_labels: number of samples with a label that is not a class of the model.
        unseen: by column of a table, cells with a value that the model cannot know.
        cut, filled: number of series that are longer, and shorter, than those of the model.
    """

    file: Path | None
    samples: int
    counts: dict[str, int]
    confidence: float | None
    likeliest: tuple[tuple[str, float], ...] = ()
    problems: int = 0
    first_problem: str = ""
    known: int = 0
    error: float | None = None
    error_interval: tuple[float, float] | None = None
    unknown_labels: int = 0
    unseen: dict[str, Unseen] = field(default_factory=dict)
    cut: int = 0
    filled: int = 0

    def describe(self) -> str:
        """Summarise the predictions in lines of text."""
        lines = [f"{share:7.1%}  {name}" for name, share in self.likeliest]
        if not self.likeliest:
            most = [f"{name} {number:,}" for name, number in list(self.counts.items())[:10]]
            more = f", {len(self.counts) - 10} more classes" if len(self.counts) > 10 else ""
            lines.append(f"{self.samples:,} samples: {', '.join(most)}{more}")
            lines.append("" if self.confidence is None else f"mean confidence {self.confidence:.1%}")
        if self.problems:
            lines.append(f"{self.problems:,} could not be used (column problem). The first: {self.first_problem}")
        if self.error is not None and self.error_interval is not None:
            low, high = self.error_interval
            lines.append(
                f"error on the {self.known:,} samples of this source with a label: {self.error:.1%} "
                f"(95 % interval {low:.1%} to {high:.1%}); too low if the model was trained on some of them"
            )
        if self.unknown_labels:
            lines.append(f"{self.unknown_labels:,} samples have a label that is not a class of the model")
        for name, found in self.unseen.items():
            cells = "1 cell has a value" if found.cells == 1 else f"{found.cells:,} cells have a value"
            lines.append(f"column {name!r}: {cells} never or too rarely seen in training, such as {quoted(found.examples)}")
        if self.cut or self.filled:
            lines.append(f"the model has series of one length: {changed_lengths(self.cut, self.filled)}")
        lines.append(str(self.file or ""))
        return "\n".join(line for line in lines if line)


class Tally:
    """Counts over all pieces: of predicted classes, and of labels that are "right", "wrong" or "unknown"."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self.classes, self.known = classes, frozenset(classes)
        self.samples, self.confidence, self.first_problem, self.first = 0, 0.0, "", torch.zeros(0)
        self.predicted, self.compared = Counter[str](), Counter[str]()
        self.unseen: dict[str, Unseen] = {}
        self.cut = self.filled = 0

    def add(self, piece: Predicted) -> None:
        """Count a piece. Raises InputError if it is the first one and no sample in it can be used."""
        for name, counts in piece.unseen.items():
            before = self.unseen.get(name, Unseen(0, ()))
            examples = tuple(dict.fromkeys((*before.examples, *(value for value, _ in counts.most_common(SHOWN)))))[:SHOWN]
            self.unseen[name] = Unseen(before.cells + counts.total(), examples)
        self.cut, self.filled = self.cut + piece.other_lengths[0], self.filled + piece.other_lengths[1]
        good = [k for k, problem in enumerate(piece.problems) if not problem]
        self.first_problem = self.first_problem or next(filter(None, piece.problems), "")
        if not self.samples and not good and piece.problems:
            which = "" if len(piece.problems) == 1 else f"none of the first {len(piece.problems):,} samples can be used. "
            raise InputError(f"{which}{self.first_problem}")
        self.first = piece.probs[0] if not self.samples else self.first
        self.samples += len(piece.names)
        confidence, chosen = piece.probs[good].max(-1)
        self.confidence += float(confidence.double().sum())
        for place, position in zip(good, chosen.tolist(), strict=True):
            label, predicted = piece.labels[place], self.classes[position]
            self.predicted[predicted] += 1
            if label is not None:
                self.compared["unknown" if label not in self.known else "right" if label == predicted else "wrong"] += 1

    def result(self, file: Path | None) -> Predictions:
        """Summary of the counts."""
        used, wrong = self.predicted.total(), self.compared["wrong"]
        known = self.compared["right"] + wrong
        top = self.first.topk(min(SHOWN, len(self.classes)) if self.samples == 1 else 0)
        return Predictions(
            file=file,
            samples=self.samples,
            counts=dict(self.predicted.most_common()),
            confidence=self.confidence / used if used else None,
            likeliest=tuple((self.classes[k], p) for p, k in zip(top.values.tolist(), top.indices.tolist(), strict=True)),
            problems=self.samples - used,
            first_problem=self.first_problem,
            known=known,
            error=wrong / known if known else None,
            error_interval=wilson_interval(wrong, known) if known else None,
            unknown_labels=self.compared["unknown"],
            unseen=self.unseen,
            cut=self.cut,
            filled=self.filled,
        )
