"""Results for others to read: documents, pictures and figures of runs in one folder, and an overview of the paper's claims."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from softmatch.experiments.claims import Finding, Verdict
from softmatch.experiments.reproducing import TESTED, Reproduction, claims_table
from softmatch.experiments.store import Store
from softmatch.experiments.tables import escape
from softmatch.files.atomic import write_atomically

OVERVIEW = "README.md"
COLUMNS: Mapping[str, Sequence[Verdict]] = {
    "holds": ("holds",),
    "no difference seen": ("no difference seen",),
    "leans that way": ("leans that way",),
    "not seen": ("not seen",),
    "the opposite": ("the opposite", "differs"),
    "not measured": ("not measured",),
}
"""Of the overview, and the verdicts that are counted there."""

COUNTED = (
    "Counted are claims, once for each column that they are about. *No difference seen* is of claims that two rows are alike: "
    "with five seeds it is no proof of that. Where they are not, it is counted as *the opposite*."
)


def copy_results(reproduction: Reproduction, store: Store, written: Sequence[Path], folder: Path) -> list[Path]:
    """Copy an experiment's document, pictures and table of runs.

    Args:
        written: as of `softmatch.experiments.reproducing.write`, the document first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copied = {path: path.name for path in written if path.suffix == ".png" or path == written[0]}
    copied |= {store.results(sheet.name) / "runs.csv": f"{sheet.name}.csv" for sheet in reproduction.sheets}
    return [Path(shutil.copyfile(path, folder / name)) for path, name in copied.items()]


def write_overview(reproductions: Sequence[Reproduction], store: Store, folder: Path, command: str) -> Path:
    """A page for all experiments: where each is, how many of its claims were seen, and all of them."""
    path = folder / OVERVIEW
    write_atomically(path, overview(reproductions, store, command).encode())
    return path


def overview(reproductions: Sequence[Reproduction], store: Store, command: str) -> str:
    findings = {each.experiment.name: each.findings(store) for each in reproductions}
    runs = {run.key: run for each in reproductions for run in each.runs()}
    finished = sum(store.is_finished(run) for run in runs.values())
    scale = reproductions[0].scale
    heads = ("", "of the paper", "what", "runs", *COLUMNS)
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---:|" + "---:|" * len(COLUMNS)]
    lines += [_line(each, findings[each.experiment.name]) for each in reproductions]
    claims = [
        f"### {escape(each.experiment.where)}: {escape(each.experiment.title)}\n\n{claims_table(findings[each.experiment.name])}"
        for each in reproductions
        if findings[each.experiment.name]
    ]
    return (
        "\n\n".join(
            [
                f"# All tables and figures at {scale} scale",
                f"{finished:,} of {len(runs):,} runs are finished; tables and figures share them.",
                "\n".join(lines),
                COUNTED,
                "## Claims",
                *claims,
                TESTED,
                f"## Again\n\n    {command}",
            ]
        )
        + "\n"
    )


def _line(reproduction: Reproduction, findings: Sequence[Finding]) -> str:
    experiment, found = reproduction.experiment, Counter(finding.verdict for finding in findings)
    counts = [sum(found[verdict] for verdict in verdicts) for verdicts in COLUMNS.values()]
    link = f"[{experiment.name}]({experiment.name}.md)"
    cells = (link, experiment.where, escape(experiment.title), len(reproduction.runs()), *counts)
    return f"| {' | '.join(map(str, cells))} |"
