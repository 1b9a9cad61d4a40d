"""The commands methods and runs. They import torch and rich, through other modules, when they run."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from softmatch.cli.options import ARGUMENTS, Flag

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

    from softmatch.cli.display import print_json
    from softmatch.methods import METHODS, read_card

    console = Console()
    if name is not None:
        card = read_card(name)
        if json:
            print_json({"name": name, "card": card})
        elif console.is_terminal:
            console.print(Markdown(card))
        else:
            print(card, end="")
        return
    if json:
        print_json([{"name": each, "summary": entry.summary, "citation": entry.citation} for each, entry in METHODS.items()])
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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from softmatch.formatting import percent, printable
    from softmatch.runs.listing import list_runs

    found = list_runs(folder)
    if json:
        import json as format_json

        print(format_json.dumps([asdict(run) for run in found], indent=1, ensure_ascii=False, default=str))
        return
    console = Console(emoji=False)
    if not found:
        console.print(f"There are no runs in {folder}.", markup=False, highlight=False)
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("run", "data", "method", "labels", "error", "baseline", "state", "date"):
        number = head in ("labels", "error", "baseline")
        table.add_column(head, justify="right" if number else "left", overflow="fold", no_wrap=number or head == "date")
    for run in found:
        cells = (
            os.path.relpath(run.run),
            Path(run.source or "–").name,
            run.method or "–",
            "–" if run.labels is None else f"{run.labels:,}",
            percent(run.error),
            percent(run.baseline),
            run.state,
            f"{run.date:%Y-%m-%d %H:%M}",
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print(table)
