"""Mistakes in the settings of a sheet, found before the first of its runs is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from softmatch.config import make_config
from softmatch.data.records import Finding
from softmatch.errors import InputError
from softmatch.experiments.sheet import Column, Row, Sheet
from softmatch.experiments.store import Store
from softmatch.training.opening import Job, open_job
from softmatch.training.setup import build_method, prepare_job

METHOD = ("method", "method_options")
"""Settings that decide about the method alone."""


def check(
    sheet: Sheet, store: Store, data: Mapping[str, Path] | None = None, device: str | None = None, encoder: Path | None = None
) -> list[Finding]:
    """Open the source of every column once, and build the method of every cell with runs that are not finished.

    Args:
        data: where the files of a source are, by its name.
        device: to check on, where the runs are made on other machines.
        encoder: in the place of that of the settings, for texts.

    Returns:
        What was noticed about a user's own data.

    Raises:
        InputError: for the first mistake, with the cell where it is.
    """
    findings: dict[str, Finding] = {}
    for column in sheet.columns:
        rows = [row for row in _rows(sheet, column) if not _is_finished(sheet, store, row, column)]
        if rows:
            place = {"data": (data or {}).get(column.source), "device": device}
            own = {} if encoder is None or "encoder" not in column.settings else {"encoder": str(encoder)}
            job = _open(sheet, rows[0], column, place | own)
            findings |= {finding.text: finding for finding in job.findings}
            _build(sheet, rows, column, job)
    return list(findings.values())


def _rows(sheet: Sheet, column: Column) -> list[Row]:
    return [row for row, other in sheet.cells() if other is column]


def _is_finished(sheet: Sheet, store: Store, row: Row, column: Column) -> bool:
    return all(store.is_finished(sheet.run(row, column, seed)) for seed in sheet.seeds)


def _settings(sheet: Sheet, row: Row, column: Column) -> dict[str, Any]:
    return dict(sheet.run(row, column, sheet.seeds[0]).settings)


def _open(sheet: Sheet, row: Row, column: Column, place: Mapping[str, Any]) -> Job:
    """The source of a column, read with the settings of a row, but without the options of its method."""
    settings = {key: value for key, value in _settings(sheet, row, column).items() if key != "method_options"}
    with _naming(column.title):
        return open_job(column.source, settings, place)


def _build(sheet: Sheet, rows: list[Row], column: Column, job: Job) -> None:
    """What the rows of a column ask for: networks where they differ in more than the method, and all methods."""
    with _naming(column.title):
        task = prepare_job(job)
    for row in rows:
        with _naming(f"{row.name}, {column.title}"):
            config = make_config(job.config.model_dump(), _settings(sheet, row, column), {"device": job.config.device})
            differs = any(getattr(config, key) != value for key, value in job.config if key not in METHOD)
            own = prepare_job(replace(job, config=config)) if differs else replace(task, config=config)
            build_method(own, config.method)


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Say where a mistake is."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
