"""An experiment of the paper as a document with tables and figures, and an overview of all claims."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path

from softmatch.errors import InputError
from softmatch.experiments.reproduce import Reproduction
from softmatch.experiments.results.collect import collect
from softmatch.experiments.results.findings import Finding, judge
from softmatch.experiments.results.layout import Layout
from softmatch.experiments.results.markdown import markdown, render
from softmatch.experiments.results.write import write_results
from softmatch.experiments.store import Store
from softmatch.experiments.sweep import Outcome
from softmatch.files.atomic import write_atomically


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
        if experiment.figure:
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
