"""The commands methods and runs. methods imports torch, through other modules, when it runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from softmatch.cli.options import ARGUMENTS, Flag
from softmatch.formatting import as_json, percent, visible_lines
from softmatch.runs.listing import list_runs

NUMBERS = ("labels", "error", "baseline")
Json = Annotated[bool, Flag, Parameter(help="Print JSON instead of a table.")]


def methods(
    name: Annotated[str | None, Parameter(group=ARGUMENTS, help="Method whose card is printed.")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """List the methods, or print the card of one: idea, formula, when to use it, options and results.

    For example:

    - softmatch methods
    - softmatch methods flexmatch
    - softmatch methods flexmatch > flexmatch.md
    """
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table

    from softmatch.methods import METHODS, read_card

    console = Console()
    if name is not None:
        card = read_card(name)
        if json:
            print(as_json({"name": name, "card": card}))
        elif console.is_terminal:
            console.print(Markdown(card))
        else:
            print(card, end="")
        return
    if json:
        print(as_json([{"name": each, "summary": entry.summary, "citation": entry.citation} for each, entry in METHODS.items()]))
        return
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    for each, entry in METHODS.items():
        table.add_row(f"[bold]{each}[/bold]", f"{entry.summary}\n[dim]{entry.citation}[/dim]")
    console.print(table)
    console.print("[dim]softmatch methods NAME prints the card of one.[/dim]")


def runs(
    folder: Annotated[Path, Parameter(group=ARGUMENTS, help="Folder of runs, or one run folder.")] = Path("runs"),
    /,
    *,
    json: Json = False,
) -> None:
    """List the run folders in a folder with data, method, labels, error and state, the newest first.

    For example:

    - softmatch runs
    - softmatch runs comparisons/runs --json
    """
    found = list_runs(folder)
    if json:
        print(as_json([asdict(run) for run in found]))
        return
    rows: list[tuple[str, ...]] = [("date", "data", "method", "labels", "error", "baseline", "state")]
    for run in found:
        labels = "–" if run.labels is None else f"{run.labels:,}"
        errors = percent(run.error), percent(run.baseline)
        named = Path(run.source or "–").name, run.method or "–"
        rows.append((f"{run.date:%Y-%m-%d %H:%M}", *map(visible_lines, named), labels, *errors, run.state))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, path in zip(rows, ["", *(str(run.run) for run in found)], strict=True):
        cells = (
            f"{cell:{'>' if head in NUMBERS else '<'}{width}}" for head, cell, width in zip(rows[0], row, widths, strict=True)
        )
        print("  ".join(cells).rstrip() + (f"\n    {visible_lines(path)}" if path else ""))
    if not found:
        print(f"There are no runs in {folder}.")
