"""What a run folder holds for its report, read leniently: every file may be missing, the last record half written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softmatch.errors import InputError
from softmatch.files.untrusted import parse_yaml, read_text
from softmatch.report.cleaning import Record, clean_boundary, clean_record, mapping, number
from softmatch.runs.folder import RunFolder

__all__ = ["Contents", "Record", "number", "read"]


@dataclass(frozen=True)
class Contents:
    """The files of a run. An empty dict or list stands for a file that is not there."""

    config: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    split: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    twin_records: list[Record] = field(default_factory=list)
    boundary: dict[str, Any] = field(default_factory=dict)
    twin_boundary: dict[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        return str(self.result.get("method") or self.config.get("method") or "an unknown method")

    @property
    def last(self) -> Record:
        return self.records[-1] if self.records else {}

    def setting(self, name: str) -> Any:
        """A figure of the result, or else of the settings."""
        found = self.result.get(name)
        return self.config.get(name) if found is None else found

    @property
    def evaluation(self) -> dict[str, Any]:
        """How the error was measured; empty for runs of versions that did not write it."""
        found = self.result.get("evaluation")
        return found if isinstance(found, dict) else {}

    @property
    def measured_by(self) -> str | None:
        """test, holdout, crossfit or none; None where it is not known."""
        found = self.evaluation.get("kind")
        return found if isinstance(found, str) else None

    @property
    def measured_samples(self) -> int | None:
        """How many samples the error was measured on."""
        found = number(self.evaluation.get("samples")) or number(self.result.get("test_samples"))
        return int(found) if found else None

    @property
    def reason(self) -> str | None:
        """Why the error could not be measured, or not on all labelled samples."""
        found = self.evaluation.get("reason")
        return found.strip() or None if isinstance(found, str) else None

    @property
    def unmeasured(self) -> bool:
        """The run has finished, and its error could not be measured."""
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
        """How many labelled samples were used."""
        drawn = self.split.get("labeled")
        counted = len(drawn) if isinstance(drawn, list) else 0
        found = number(self.result.get("labels")) or counted or number(self.config.get("labels"))
        return int(found) if found else None


def read(run: RunFolder) -> Contents:
    """Everything the report shows.

    Raises:
        InputError: where a file is there but damaged.
    """
    twin = RunFolder(run.path / "twin")
    result = _mapping(run, "result.json")
    records = [clean_record(record) for record in run.records()]
    return Contents(
        config=_read_config(run.path / "config.yaml"),
        result=result,
        split=_mapping(run, "split.json"),
        records=records,
        twin_records=[clean_record(record) for record in twin.records()],
        boundary=clean_boundary(_mapping(run, "boundary.json")),
        twin_boundary=clean_boundary(_mapping(twin, "boundary.json")),
        classes=_class_names(run, result, records),
    )


def _mapping(run: RunFolder, name: str) -> dict[str, Any]:
    found = run.read_json(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{run.path / name} must hold a JSON object, it holds a {type(found).__name__}.")
    return found


def _read_config(path: Path) -> dict[str, Any]:
    return mapping(parse_yaml(read_text(path), path)) if path.exists() else {}


def _class_names(run: RunFolder, result: dict[str, Any], records: list[Record]) -> tuple[str, ...]:
    """Names from the result or the model; plain numbers where neither has as many as the records have classes."""
    errors = (records[-1].get("test_class_errors") if records else None) or []
    for names in (result.get("class_errors"), _mapping(run, "model/model.json").get("classes")):
        if names and isinstance(names, dict | list) and (not errors or len(names) == len(errors)):
            return tuple(str(name) for name in names)
    return tuple(str(position) for position in range(len(errors)))
