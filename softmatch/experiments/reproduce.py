"""An experiment of the paper at a scale, as far as its data are available."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from softmatch.data.sources import find_source
from softmatch.data.sources.open_texts import read_texts
from softmatch.errors import InputError
from softmatch.experiments.contents import digest
from softmatch.experiments.paper import Experiment
from softmatch.experiments.paper.scales import EMBEDDED, TITLES, Scale, seconds
from softmatch.experiments.sheet import Column, Run, Sheet
from softmatch.experiments.store import Store


@dataclass(frozen=True)
class Reproduction:
    """An experiment at a scale: its sheets have the columns whose data are available, and names and seeds of their own."""

    experiment: Experiment
    scale: Scale
    sheets: Sequence[Sheet]
    left_out: Sequence[str] = ()  # a sentence for each source that is not available

    @property
    def name(self) -> str:
        return f"{self.experiment.name}-{self.scale}"

    def runs(self) -> list[Run]:
        """All runs, seed by seed; a run that sheets share is listed once."""
        found = {run.key: run for sheet in self.sheets for run in sheet.runs()}
        return sorted(found.values(), key=lambda run: run.seed)

    def seconds(self, store: Store, processes: int) -> float | None:
        """Rough duration of the missing runs; None where it is not known."""
        missing = [run for run in self.runs() if not store.is_finished(run)]
        if self.scale == "paper" and any(run.source not in EMBEDDED for run in missing):
            return None
        return sum(map(seconds, missing)) / processes

    def notes(self) -> list[str]:
        """Sentences to read with the table."""
        found = [f"{self.experiment.where} of the paper at {self.scale} scale."]
        found += self.experiment.differs if self.scale == "laptop" else ["All settings that the paper gives are the paper's."]
        return [*found, *self.experiment.open, *self.left_out]


def plan(
    experiment: Experiment,
    scale: Scale,
    data: Mapping[str, Path],
    seeds: Sequence[int] | None = None,
    encoder: Path | None = None,
) -> Reproduction:
    """Find out what can be run. A source that is neither given nor available is left out, with a sentence.

    Args:
        data: source → path of its files. Runs of files with another content are other runs.
        seeds: instead of the scale's own.
        encoder: folder of the text encoder, instead of the hub's copy.
    """
    sheets = experiment.sheets[scale]
    missing = {}
    for source in dict.fromkeys(column.source for sheet in sheets for column in sheet.columns):
        reason = why_missing(source, data.get(source))
        if reason is not None and source in data:
            raise InputError(f"--data.{source} {data[source]}: {reason}")
        if reason is not None:
            missing[source] = f"{reason} (--data.{source} PATH says where its files are.)"
    kept = []
    for sheet in sheets:
        columns = [_made_of(column, data, encoder) for column in sheet.columns if column.source not in missing]
        name = "-".join(part for part in (experiment.name, scale, sheet.name) if part)
        if columns:
            kept.append(replace(sheet, name=name, columns=columns, seeds=tuple(sheet.seeds if seeds is None else seeds)))
    left_out = [f"{TITLES[source]} is left out: {reason}" for source, reason in missing.items()]
    if sheets and not kept:
        raise InputError(f"{experiment.name} at {scale} scale has no data to run on.\n" + "\n".join(left_out))
    return Reproduction(experiment, scale, kept, left_out)


def _made_of(column: Column, data: Mapping[str, Path], encoder: Path | None) -> Column:
    """The column with the digest of the files that it is read from."""
    given = [data.get(column.source), encoder if "encoder" in column.settings else None]
    return replace(column, made_of="-".join(_content(path) for path in given if path is not None))


_content = cache(digest)  # files are read once for all experiments


@cache
def why_missing(source: str, where: Path | None) -> str | None:
    """Reason why a source cannot be read, or None; tried once, because the hub may be asked."""
    try:
        if source in EMBEDDED:
            return None
        if find_source(source).texts:
            read_texts(source, where, None, False)
        else:
            find_source(source).load(0, where)
    except InputError as error:
        return str(error)
    return None
