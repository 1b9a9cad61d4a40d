"""The contents of a run folder for its report; a file may be missing, and a value of another form than expected is left out."""

from dataclasses import dataclass, field
from typing import Any

from softmatch.errors import InputError
from softmatch.files.untrusted import parse_yaml, read_text
from softmatch.runs.folder import RunFolder

Record = dict[str, Any]

LARGEST = 1e100
"""Largest figure of a run: sums and products of such numbers are still finite."""
CLASS_FIGURES = ("samples", "quantity", "quality", "unaligned_quantity")


@dataclass(frozen=True)
class Contents:
    """The files of a run; an empty dict or list for a missing file."""

    config: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    split: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    baseline_records: list[Record] = field(default_factory=list)
    boundary: dict[str, Any] = field(default_factory=dict)
    baseline_boundary: dict[str, Any] = field(default_factory=dict)
    curve: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        return str(self.result.get("method") or self.config.get("method") or "an unknown method")

    @property
    def last(self) -> Record:
        return self.records[-1] if self.records else {}

    def setting(self, name: str) -> Any:
        """Value from the result, else from the settings."""
        found = self.result.get(name)
        return self.config.get(name) if found is None else found

    @property
    def evaluation(self) -> dict[str, Any]:
        """The evaluation in the result; empty for runs of versions that did not write it."""
        return mapping(self.result.get("evaluation"))

    @property
    def measured_by(self) -> str | None:
        """Kind of the evaluation: test, holdout, crossfit or none; None where it is not known."""
        found = self.evaluation.get("kind")
        return found if isinstance(found, str) else None

    @property
    def measured_samples(self) -> int | None:
        """Number of samples that the error was measured on."""
        found = number(self.evaluation.get("samples")) or number(self.result.get("test_samples"))
        return int(found) if found else None

    @property
    def reason(self) -> str | None:
        """Reason why the error could not be measured, or not on all labelled samples."""
        found = self.evaluation.get("reason")
        return found.strip() or None if isinstance(found, str) else None

    @property
    def unmeasured(self) -> bool:
        """True for a finished run whose error could not be measured."""
        return bool(self.result) and number(self.result.get("test_error")) is None

    @property
    def known_share(self) -> float | None:
        """Share of the pseudo-labels whose true class is known; None where no pseudo-labels were recorded."""
        histograms = [found for record in self.records if (found := record.get("histogram"))]
        total = sum(sum(h.get("all") or ()) for h in histograms)
        known = sum(sum(h.get("wrong") or ()) + sum(h.get("right") or ()) for h in histograms)
        return known / total if total else None

    @property
    def labels(self) -> int | None:
        """Number of labelled samples used."""
        drawn = self.split.get("labeled")
        counted = len(drawn) if isinstance(drawn, list) else 0
        found = number(self.result.get("labels")) or counted or number(self.config.get("labels"))
        return int(found) if found else None


def read(run: RunFolder) -> Contents:
    """Read all that the report shows. Raises InputError for a damaged file."""
    baseline = run.baseline()
    config, result = run.path / "config.yaml", _mapping(run, "result.json")
    records = [clean_record(record) for record in run.records()]
    return Contents(
        config=mapping(parse_yaml(read_text(config), config)) if config.exists() else {},
        result=result,
        split=_mapping(run, "split.json"),
        records=records,
        baseline_records=[clean_record(record) for record in baseline.records()],
        boundary=clean_boundary(_mapping(run, "boundary.json")),
        baseline_boundary=clean_boundary(_mapping(baseline, "boundary.json")),
        curve=_mapping(run, "curve.json"),
        pictures=_mapping(run, "pictures.json"),
        classes=_class_names(run, result, records),
    )


def _mapping(run: RunFolder, name: str) -> dict[str, Any]:
    found = run.read_json(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{run.path / name} must hold a JSON object, not a {type(found).__name__}.")
    return found


def _class_names(run: RunFolder, result: dict[str, Any], records: list[Record]) -> tuple[str, ...]:
    """Class names of the result or the model; numbers where neither has as many as the records."""
    errors = (records[-1].get("test_class_errors") if records else None) or []
    for names in (result.get("class_errors"), _mapping(run, "model/model.json").get("classes")):
        if names and isinstance(names, dict | list) and (not errors or len(names) == len(errors)):
            return tuple(str(name) for name in names)
    return tuple(str(position) for position in range(len(errors)))


def number(value: Any) -> float | None:
    """Return a finite number as float, and None for anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= LARGEST else None  # false for NaN


def pair(value: Any) -> tuple[float, float] | None:
    """Return both bounds of an interval, or None where one is missing."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return None if low is None or high is None else (low, high)


def mapping(value: Any) -> dict[str, Any]:
    """Return a dict as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def figures(value: Any) -> list[float | None] | None:
    """Return a list of figures, with None for a missing one; None for an empty list and anything else."""
    return [number(item) for item in value] if isinstance(value, list) and value else None


def clean_record(record: Record) -> Record:
    """Keep the parts of a record that have the expected form: lists of figures in mappings."""
    curve = _lists(record, "curve", ("confidence", "weight"))
    parts = {
        "histogram": _lists(record, "histogram", ("all", "wrong", "right"), gaps=False),
        "classes": _lists(record, "classes", CLASS_FIGURES),
        "curve": curve if len(curve) == 2 else None,
        "statistics": {name: _statistic(value) for name, value in mapping(record.get("statistics")).items()},
        "test_class_errors": figures(record.get("test_class_errors")),
    }
    return {key: value for key, value in record.items() if key not in parts} | {key: part for key, part in parts.items() if part}


def clean_boundary(found: Any) -> dict[str, Any]:
    """Keep points and the grid of probabilities; an empty dict where the grid is not one."""
    found = mapping(found)
    x, y = figures(found.get("x")), figures(found.get("y"))
    rows = [figures(row) for row in found["probs"]] if isinstance(found.get("probs"), list) else []
    if not x or not y or None in x or None in y or [len(row or ()) for row in rows] != [len(x)] * len(y):
        return {}
    points = [figures(point) for point in found["points"]] if isinstance(found.get("points"), list) else []
    points = points if all(point and len(point) == 2 and None not in point for point in points) else []
    truth = _positions(found.get("truth"))
    return {
        "x": x,
        "y": y,
        "probs": [[min(max(p or 0.0, 0.0), 1.0) for p in row or ()] for row in rows],
        "points": points,
        "truth": truth if len(truth) == len(points) else [-1] * len(points),
        "labeled": _positions(found.get("labeled")),
    }


def _lists(record: Record, key: str, names: tuple[str, ...], gaps: bool = True) -> dict[str, list[float | None]]:
    """Return the named lists that exist; without `gaps`, only those with no missing figure."""
    found = {name: figures(mapping(record.get(key)).get(name)) for name in names}
    return {name: values for name, values in found.items() if values is not None and (gaps or None not in values)}


def _statistic(value: Any) -> float | list[float | None] | None:
    return figures(value) if isinstance(value, list) else number(value)


def _positions(value: Any) -> list[int]:
    return [item for item in value if type(item) is int] if isinstance(value, list) else []
