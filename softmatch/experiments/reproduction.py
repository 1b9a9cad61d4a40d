"""An experiment of the paper at a scale: the part whose data are available, its documents, and an overview of all claims."""

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from softmatch.data.sources import find_source
from softmatch.data.sources.open_texts import read_texts
from softmatch.errors import InputError
from softmatch.experiments.paper import Experiment
from softmatch.experiments.paper.experiment import EMBEDDED, TITLES, Scale, seconds
from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.statistics import Finding, judge
from softmatch.experiments.results.tables import markdown, render, write_results
from softmatch.experiments.sheet import Column, Run, Sheet, digest
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome
from softmatch.files.atomic import write_atomically


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
        name, title = "-".join(filter(None, (experiment.name, scale, sheet.name))), sheet.title or experiment.title
        columns = [_made_of(column, data, encoder) for column in sheet.columns if column.source not in missing]
        if columns:
            kept.append(replace(sheet, name=name, title=title, columns=columns, seeds=tuple(seeds or sheet.seeds)))
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


def findings(reproduction: Reproduction, store: Store) -> list[Finding]:
    """Results of the paper's claims on the finished runs."""
    return [found for sheet in reproduction.sheets for found in judge(reproduction.experiment.claims, sheet, store)]


def write(reproduction: Reproduction, store: Store, outcomes: Sequence[Outcome] = (), commands: Sequence[str] = ()) -> list[Path]:
    """Write a document of an experiment, which comes first, its figures, tables and pages."""
    experiment, folder, found = reproduction.experiment, store.results(reproduction.name), findings(reproduction, store)
    published, notes = experiment.published_at(reproduction.scale), reproduction.notes()
    said = [f"{finding.claim.text}. {finding.column}: {finding.verdict}, {finding.figures}." for finding in found]
    figures: list[Path] = []
    written: list[Path] = []
    try:
        if experiment.is_figure:
            require_matplotlib()
            from softmatch.experiments.figures import draw

            figures = draw(experiment.name, reproduction.sheets, store, folder)
    finally:  # the tables are written even if nothing can be drawn
        pictures = [path for path in figures if path.suffix == ".png"]
        for sheet in reproduction.sheets:
            layout = Layout(collect(sheet, store, outcomes=outcomes), published, [*notes, *said])
            written += write_results(layout, store, figures=pictures, commands=commands)
    document = render(
        "experiment.md.jinja",
        experiment=experiment,
        scale=reproduction.scale,
        notes=notes,
        tables=[markdown(Layout(collect(sheet, store), published), (), (), folder) for sheet in reproduction.sheets],
        findings=found,
        pictures=pictures,
        commands=commands,
        folder=folder,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{experiment.name}.md", document.encode())
    return [folder / f"{experiment.name}.md", *figures, *written]


def require_matplotlib() -> None:
    """Raise InputError unless matplotlib, which is an extra, is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("figures need matplotlib: pip install 'softmatch[plots]'.")


def copy_results(reproduction: Reproduction, store: Store, written: Sequence[Path], folder: Path) -> list[Path]:
    """Copy the document, pictures and runs.csv of an experiment, given what `write` returned."""
    folder.mkdir(parents=True, exist_ok=True)
    copied = {path: path.name for path in written if path.suffix == ".png" or path == written[0]}
    copied |= {store.results(sheet.name) / "runs.csv": f"{sheet.name}.csv" for sheet in reproduction.sheets}
    return [Path(shutil.copyfile(path, folder / name)) for path, name in copied.items()]


def write_overview(reproductions: Sequence[Reproduction], store: Store, folder: Path, command: str) -> Path:
    """Write README.md for all experiments: links, counts of verdicts, and all claims."""
    runs = {run.key: run for each in reproductions for run in each.runs()}
    document = render(
        "overview.md.jinja",
        scale=reproductions[0].scale,
        experiments=[(each, findings(each, store)) for each in reproductions],
        finished=sum(store.is_finished(run) for run in runs.values()),
        total=len(runs),
        command=command,
    )
    write_atomically(folder / "README.md", document.encode())
    return folder / "README.md"
