"""The command that compares methods: parse, check, run, print. torch is imported only when it is needed."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import ConfigDict, Field, create_model

from softmatch.config import Config, read_file
from softmatch.errors import InputError, TrainingError
from softmatch.experiments.contents import digest
from softmatch.experiments.places import Where
from softmatch.experiments.sheet import ELSEWHERE, Column, Row, Sheet
from softmatch.experiments.store import Store
from softmatch.files.untrusted import parse_yaml

CHOSEN = {
    "labels": "--labels",
    "imbalance": "--imbalance",
    "method": "--methods",
    "method_options": "--methods 'NAME{option: value}'",
    "seed": "--seeds and --first-seed",
    "out": "--out",
    "data": "--data",
    "threads": "--threads",
}
"""Settings of `softmatch train` that are said in another way here."""
PATHS = ("test", "encoder")
"""Settings that are files or folders of one's own, or names."""
TWIN = "Also train a supervised twin of every run. Default: no; `supervised` can be one of the methods."

if TYPE_CHECKING:
    Common = Config
else:
    shared = {name: (field.annotation, field) for name, field in Config.model_fields.items() if name not in CHOSEN}
    shared["twin"] = (bool, Field(False, description=TWIN))
    Common = create_model("Common", __config__=ConfigDict(extra="forbid", frozen=True), **shared)
"""Settings that all runs share: not those that make rows, columns and seeds."""


def compare(
    source: str | None = None,
    /,
    *,
    methods: str,
    labels: str | None = None,
    imbalance: str | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    where: Annotated[Where | None, Parameter(name="*")] = None,
    data: Path | None = None,
    out: Path = Path("comparisons"),
    name: str | None = None,
    measure: str = "error",
    dry_run: bool = False,
    file: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    common: Annotated[Common | None, Parameter(name="*")] = None,
) -> None:
    """Compare methods: train each with every number of labels and every seed, and write tables with means and their differences.

    All settings are checked before the first run starts. Runs are kept in comparisons/runs and never made twice: the same command
    goes on after an interruption, and more seeds, labels or methods add only what is missing. A run that fails is tried again
    from its last checkpoint; one that fails for good does not end the others, and is reported at the end.

    Results are in comparisons/NAME: Markdown, LaTeX and CSV with mean ± standard deviation, the best in bold and what is not
    distinguishable from it, and a page with all curves. The same seed means the same labelled samples for all methods.

    On a cluster, the folder of the comparison must be one that all machines share, and softmatch must be installed on them.

    Exit codes: 0 done, 1 some runs failed, 2 wrong use, 75 stopped by SIGTERM or SIGINT: the same command goes on.

    Examples:

    - softmatch compare digits --methods supervised,fixmatch,softmatch --labels 20,40 --seeds 5
    - softmatch compare tickets.csv --methods supervised,softmatch --text message --label category
    - softmatch compare cifar10 --data cifar-10-python.tar.gz --methods fixmatch,softmatch --labels 40,250 --steps 2000
    - softmatch compare cifar10 --methods softmatch,darp+softmatch --imbalance 50,100 --recipe paper
    - softmatch compare digits --methods 'softmatch,softmatch{k: 3},mine.py:MyWeighting' --processes 2
    - softmatch compare digits --methods fixmatch,softmatch --measure "worst class"
    - softmatch compare digits --methods fixmatch,softmatch --on ray --address 10.0.0.1:6379 --gpus-per-run 1
    - softmatch compare digits --methods fixmatch,softmatch --on slurm --slurm.partition gpu --slurm.gpus 1 --slurm.time 120

    Parameters
    ----------
    source:
        What to train on, as of `softmatch train`.
    methods:
        Rows, separated by commas: methods as of `softmatch train`. Options follow in braces: softmatch{k: 3}.
    labels:
        Columns, separated by commas: how many labelled samples. Default: the source's own number, or all of your own data.
    imbalance:
        Columns, separated by commas: long-tailed classes, how many times larger the first is than the last. Instead of --labels.
    seeds:
        How many; each is a draw of labelled samples and a training.
    first_seed:
        Of these seeds.
    where:
        Where runs are executed.
    data:
        Where the source's files lie, as of `softmatch train`.
    out:
        Folder of runs and results, which comparisons share.
    name:
        Folder of these results in it. Default: by source, methods, columns and settings.
    measure:
        What the table is of: error, quantity, quality, mean quantity, mean quality, best class quality, worst class quality,
        seconds, best error, early error, early quantity, early quality, spread of weights, spread without alignment, worst class,
        mean of classes. The runs are the same; where it is not error, the folder of the results ends with its name.
    dry_run:
        Check all settings, and print the grid with what is finished and what is to be made.
    file:
        YAML file of settings that all runs share, and `source`. Options on the command line win over it.
    common:
        Settings that all runs share, as of `softmatch train`.
    """
    from rich.console import Console

    from softmatch.cli.app import command_line
    from softmatch.cli.display import say
    from softmatch.experiments.checking import check
    from softmatch.experiments.making import make_runs
    from softmatch.experiments.progress import Progress
    from softmatch.experiments.results.collect import collect
    from softmatch.experiments.results.layout import Layout
    from softmatch.experiments.results.measures import measure_named
    from softmatch.experiments.results.write import summary_table, write_results

    if seeds < 1 or first_seed < 0:
        raise InputError(f"--seeds {seeds} --first-seed {first_seed}: one seed or more, from 0 on, are needed.")
    measure_named(measure)
    layer = {} if file is None else _read(file)
    written = layer.pop("source", None)
    settings = {"twin": False, **layer, **_given(common)}
    settings |= {key: type(settings[key])(_absolute(str(settings[key]))) for key in PATHS if settings.get(key) is not None}
    chosen = _absolute(source or written or "digits")
    made_of = _made_of(chosen, data, *(settings.get(key) for key in PATHS))
    columns = [replace(column, made_of=made_of) for column in _columns(chosen, labels, imbalance)]
    sheet = make_sheet(chosen, methods, columns, range(first_seed, first_seed + seeds), settings, name)
    if measure != "error":
        sheet = replace(sheet, name=f"{sheet.name}-{measure.replace(' ', '-')}")
    store, console = Store(out), Console(emoji=False)
    found = {} if data is None else {chosen: data}
    here = where is None or where.on == "here"
    for finding in check(sheet, store, found, None if here else "cpu"):
        say(console, f"{finding.level.capitalize()}: {finding.text}", style="yellow" if finding.level == "warning" else "dim")
    if dry_run:
        missing = [run for run in sheet.runs() if not store.is_finished(run)]
        progress = Progress([sheet], store, console)
        progress.begins(missing)
        console.print(progress.table())
        say(
            console,
            f"{len(missing)} run{'s are' if len(missing) != 1 else ' is'} to be made: this is a dry run, nothing is written.",
        )
        return
    command = command_line()
    outcomes = make_runs([sheet], store, where or Where(), data=found, command=command, console=console)
    layout = Layout(collect(sheet, store, measure, outcomes=outcomes))
    paths = write_results(layout, store, commands=[command])
    console.print(summary_table(layout))
    for path in paths:
        say(console, str(path))
    failed = sum(outcome.state != "done" for outcome in outcomes)
    if failed:
        raise TrainingError(
            f"{failed} of {len(outcomes)} runs failed; why stands above. The same command tries again what is not finished."
        )


def make_sheet(
    source: str, methods: str, columns: Sequence[Column], seeds: Sequence[int], common: Mapping[str, Any], name: str | None = None
) -> Sheet:
    """The sheet of a comparison.

    Args:
        methods: names separated by commas, each with its options in braces where it has any.
        name: Default: by the source, the columns, and the settings if there are any.
    """
    if name is not None and (not re.fullmatch(r"[\w-][\w.-]*", name) or name in ("runs", "slurm")):
        raise InputError(f"--name {name}: letters, digits, dashes and dots make a name; runs and slurm are taken.")
    rows = [Row(text, settings) for text, settings in _methods(methods)]
    title = f"Comparison on {_title(source)}"
    return Sheet(name or _name(source, rows, columns, common), title, rows, columns, tuple(seeds), common)


def _given(common: Common | None) -> dict[str, Any]:
    """Settings that stand on the command line."""
    return {} if common is None else {key: getattr(common, key) for key in common.model_fields_set}


def _read(file: Path) -> dict[str, Any]:
    layer = read_file(file)
    for key, option in CHOSEN.items():
        if key in layer:
            raise InputError(f"settings file {file}: {key} is not one setting of all runs here: take it out and give {option}.")
    return layer


def _made_of(*paths: str | Path | None) -> str:
    """What files and folders of one's own hold, in a word."""
    from softmatch.files.paths import expand_home

    found = [digest(expand_home(path)) for path in paths if path is not None and expand_home(path).exists()]
    return "-".join(found)


def _absolute(source: str) -> str:
    """The path of files of one's own, from the root: it is then the same comparison from any folder."""
    from softmatch.data.sources import SOURCES
    from softmatch.files.paths import expand_home

    path = expand_home(source)
    return str(path.resolve()) if source not in SOURCES and path.exists() else source


def _title(source: str) -> str:
    return Path(source).stem or source


def _columns(source: str, labels: str | None, imbalance: str | None) -> list[Column]:
    if labels is not None and imbalance is not None:
        raise InputError("--labels and --imbalance exclude each other: columns are of one kind.")
    title = _title(source)
    if labels is not None:
        numbers = [_number(text, "--labels", whole=True) for text in labels.split(",")]
        names = {number: "1 label" if number == 1 else f"{number:,} labels" for number in numbers}
        return [Column(names[number], source, {"labels": number}, title) for number in numbers]
    if imbalance is not None:
        numbers = [_number(text, "--imbalance", whole=False) for text in imbalance.split(",")]
        return [Column(f"γ = {number:g}", source, {"imbalance": number}, title) for number in numbers]
    return [Column(title, source, {})]


def _number(text: str, option: str, whole: bool) -> float:
    """Of a list on the command line."""
    try:
        number = int(text) if whole else float(text)
        if not math.isfinite(number):
            raise ValueError
    except ValueError as error:
        what = "whole numbers" if whole else "numbers"
        raise InputError(f"{option} takes {what} separated by commas, {text.strip()!r} is none.") from error
    return int(number) if number == round(number) else number


def _methods(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each method of a list as it stands there, and its settings."""
    for each in _split(text):
        name, brace, options = each.partition("{")
        found = parse_yaml(brace + options, f"--methods {each}") if brace else {}
        if not name.strip() or not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise InputError(f"--methods {each}: give NAME, or NAME{{option: value}}, separated by commas.")
        yield each, {"method": name.strip(), **({"method_options": found} if found else {})}


def _split(text: str) -> list[str]:
    """At commas outside of braces and brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _name(source: str, rows: Sequence[Row], columns: Sequence[Column], common: Mapping[str, Any]) -> str:
    """Comparisons of other data, methods, columns or settings have other names; with more seeds it is the same."""
    decisive = {key: value for key, value in common.items() if key not in ELSEWHERE and (key, value) != ("twin", False)}
    numbers = [f"{value:g}" for column in columns for value in column.settings.values()]
    kind = next((key for column in columns for key in column.settings), None)
    parts = [_title(source), *numbers, *([kind] if kind else [])]
    text = json.dumps([source, [row.name for row in rows], decisive], sort_keys=True, default=str)
    parts.append(hashlib.sha256(text.encode()).hexdigest()[:6])
    return re.sub(r"[^\w.-]+", "-", "-".join(parts)).strip("-.")
