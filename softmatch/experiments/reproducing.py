"""An experiment of the paper at a scale: what can be run with the data at hand, and what is written of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from softmatch.errors import InputError
from softmatch.experiments.claims import Finding, judge
from softmatch.experiments.collecting import Attempt, collect
from softmatch.experiments.contents import digest
from softmatch.experiments.layout import arrange
from softmatch.experiments.paper import Experiment
from softmatch.experiments.paper.scales import EMBEDDED, TITLES, Scale, seconds
from softmatch.experiments.sheet import Column, Run, Sheet
from softmatch.experiments.store import Store
from softmatch.experiments.tables import escape, link, markdown
from softmatch.files.atomic import write_atomically

EXACT = "All settings that the paper gives are the paper's."
TESTED = (
    "Differences are of means over the same seeds with 95 % intervals, by a paired t-test that is not corrected for the number "
    "of claims. *Holds*, *the opposite*, *differs*: more than chance (p < 0.05). *Leans that way*, *not seen*: the sign alone."
)


@dataclass(frozen=True)
class Reproduction:
    """An experiment at a scale, as far as its data are here.

    Attributes:
        sheets: with names of their own, the seeds that are wanted, and the columns whose data are here.
        left_out: for each column that is not, a sentence.
    """

    experiment: Experiment
    scale: Scale
    sheets: Sequence[Sheet]
    left_out: Sequence[str] = ()

    @property
    def name(self) -> str:
        return f"{self.experiment.name}-{self.scale}"

    def runs(self) -> list[Run]:
        """All runs, seed by seed; what sheets share stands once."""
        found = {run.key: run for sheet in self.sheets for run in sheet.runs()}
        return sorted(found.values(), key=lambda run: run.seed)

    def seconds(self, store: Store, processes: int) -> float | None:
        """How long the missing runs take, roughly; None where that is not known."""
        missing = [run for run in self.runs() if not store.is_finished(run)]
        if self.scale == "paper" and any(run.source not in EMBEDDED for run in missing):
            return None
        return sum(map(seconds, missing)) / processes

    def findings(self, store: Store) -> list[Finding]:
        """What the finished runs say about the paper's claims."""
        return [finding for sheet in self.sheets for finding in judge(self.experiment.claims, sheet, store)]

    def notes(self) -> list[str]:
        """What to know when reading the table."""
        found = [f"{self.experiment.where} of the paper at {self.scale} scale."]
        found += self.experiment.differs if self.scale == "laptop" else [EXACT]
        return [*found, *self.experiment.open, *self.left_out]


def plan(
    experiment: Experiment,
    scale: Scale,
    data: Mapping[str, Path],
    seeds: Sequence[int] | None = None,
    encoder: Path | None = None,
) -> Reproduction:
    """What can be run. Reads every source once: one that is not here, and was not given, is left out with a sentence.

    Args:
        data: source → where its files lie. Runs of files with another content are other runs.
        seeds: in the place of the scale's own.
        encoder: of texts, where it is not the hub's.

    Raises:
        InputError: where files that were given cannot be read, and where nothing is left.
    """
    sheets = experiment.sheets[scale]
    sources = dict.fromkeys(column.source for sheet in sheets for column in sheet.columns)
    missing = {}
    for source in sources:
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
    """The column with what the files hold that it is read from."""
    given = [data.get(column.source), encoder if "encoder" in column.settings else None]
    return replace(column, made_of="-".join(content(path) for path in given if path is not None))


content = cache(digest)
"""Files are read once for all experiments."""


@cache
def why_missing(source: str, where: Path | None) -> str | None:
    """Why a source cannot be read, in words; None where it can. Looked up once: what is not here is asked of the hub."""
    if source in EMBEDDED:
        return None
    from softmatch.data.sources import find_source
    from softmatch.data.sources.open_texts import read_texts

    try:
        if find_source(source).texts:
            read_texts(source, where, None, False)
        else:
            find_source(source).load(0, where)
    except InputError as error:
        return str(error)
    return None


def write(reproduction: Reproduction, store: Store, outcomes: Sequence[Attempt] = (), commands: Sequence[str] = ()) -> list[Path]:
    """Tables, figures and pages of an experiment, and a document of all of it, which comes first.

    Args:
        commands: that make all this again.
    """
    from softmatch.experiments.results import write_results

    experiment, folder = reproduction.experiment, store.results(reproduction.name)
    published, found = experiment.published_at(reproduction.scale), reproduction.findings(store)
    said = [f"{finding.claim.text}. {finding.column}: {finding.verdict}, {finding.figures}." for finding in found]
    notes = [*reproduction.notes(), *said]

    def tables(pictures: Sequence[Path]) -> list[Path]:
        return [
            path
            for sheet in reproduction.sheets
            for path in write_results(
                sheet, store, outcomes, published=published, notes=notes, figures=pictures, commands=commands
            )
        ]

    written = tables(())  # they are there also where nothing can be drawn
    figures = draw(reproduction, store) if experiment.figure else []
    pictures = [path for path in figures if path.suffix == ".png"]
    if pictures:
        written = tables(pictures)
    page = folder / f"{experiment.name}.md"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(page, document(reproduction, store, found, pictures, commands).encode())
    return [page, *figures, *written]


def document(
    reproduction: Reproduction, store: Store, findings: Sequence[Finding], pictures: Sequence[Path], commands: Sequence[str]
) -> str:
    """The experiment as Markdown: what was run, tables with the paper's numbers, figures, and what became of its claims."""
    experiment, folder = reproduction.experiment, store.results(reproduction.name)
    parts = [
        f"# {experiment.where}: {escape(experiment.title)}",
        f"`softmatch reproduce {experiment.name} --scale {reproduction.scale}`. {' '.join(map(escape, reproduction.notes()))}",
    ]
    parts += [f"![{escape(path.stem)}]({link(path, folder)})" for path in pictures]
    for sheet in reproduction.sheets:
        layout = arrange(collect(sheet, store), experiment.published_at(reproduction.scale))
        parts.append("#" + markdown(layout, (), (), folder).strip())
    if findings:
        parts += ["## What the paper says, and these runs", claims_table(findings), TESTED]
    parts.append("## Again\n\n" + "\n".join(f"    {command}" for command in commands))
    return "\n\n".join(parts) + "\n"


def claims_table(findings: Sequence[Finding]) -> str:
    """A row for each claim and column."""
    lines = ["| the paper | where | these runs | difference |", "|---|---|---|---|"]
    for finding in findings:
        verdict = f"**{finding.verdict}**" if finding.verdict in ("holds", "the opposite", "differs") else finding.verdict
        lines.append(f"| {escape(finding.claim.text)} | {escape(finding.column)} | {verdict} | {finding.figures} |")
    return "\n".join(lines)


def draw(reproduction: Reproduction, store: Store) -> list[Path]:
    """The figures of an experiment."""
    from softmatch.experiments import figures

    experiment, folder = reproduction.experiment, store.results(reproduction.name)
    if not reproduction.sheets:
        return figures.draw_functions(folder)
    if len(reproduction.sheets) > 1:
        return figures.draw_ablation({sheet.title: sheet for sheet in reproduction.sheets}, store, folder)
    return figures.draw(experiment.name, reproduction.sheets[0], store, folder)
