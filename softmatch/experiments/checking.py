"""Mistakes in the settings of a sheet, found before the first of its runs is started."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from softmatch.config import make_config
from softmatch.data.records import Finding
from softmatch.errors import InputError
from softmatch.experiments.sheet import Sheet
from softmatch.experiments.store import Store
from softmatch.training.opening import open_job
from softmatch.training.setup import build_method, prepare_items

METHOD = ("method", "method_options")
"""Settings that only change the method."""


def check(
    sheet: Sheet, store: Store, data: Mapping[str, Path] | None = None, device: str | None = None, encoder: Path | None = None
) -> list[Finding]:
    """Open the source of every column once, and build the method of every cell that has unfinished runs.

    Args:
        device: device to check on, if the runs are trained on other machines.
        encoder: replaces the encoder in the settings, for texts.

    Returns:
        What was noticed about a user's own data.

    Raises:
        InputError: the first mistake, with the cell where it is.
    """
    findings: dict[str, Finding] = {}
    for column in sheet.columns:
        runs = {row.name: [sheet.run(row, column, seed) for seed in sheet.seeds] for row in sheet.rows}
        settings = {name: dict(own[0].settings) for name, own in runs.items() if not all(map(store.is_finished, own))}
        if not settings:
            continue
        place: dict[str, Any] = {"data": (data or {}).get(column.source), "device": device}
        if encoder is not None and "encoder" in column.settings:
            place["encoder"] = str(encoder)
        first = next(iter(settings.values()))
        with _naming(column.title):
            job = open_job(column.source, {key: value for key, value in first.items() if key != "method_options"}, place)
            task, _ = prepare_items(job)
        findings |= {finding.text: finding for finding in job.findings}
        for row, own in settings.items():
            with _naming(f"{row}, {column.title}"):
                config = make_config(job.config.model_dump(), own, {"device": job.config.device})
                differs = any(getattr(config, key) != value for key, value in job.config if key not in METHOD)
                other = prepare_items(replace(job, config=config))[0] if differs else replace(task, config=config)
                build_method(other, config.method)
    return list(findings.values())


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Say where a mistake is."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
