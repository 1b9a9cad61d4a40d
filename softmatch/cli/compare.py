"""The command compare. It imports torch, through other modules, when it runs: help must not wait for it."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import Field

from softmatch.cli.options import (
    ALOUD,
    ARGUMENTS,
    LENGTH,
    MEASURING,
    METHOD,
    OUTPUT,
    SOURCES,
    WHERE,
    Flag,
    SettingsFile,
    Talk,
    Track,
    command_line,
    given,
    placed_model,
    settings_model,
)
from softmatch.config import Config, former_names, read_file
from softmatch.errors import InputError, TrainingError
from softmatch.experiments.executors import Where
from softmatch.experiments.sheet import ELSEWHERE, Column, Row, Sheet, digest
from softmatch.experiments.store import Store
from softmatch.files.paths import expand_home
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
"""Settings of `softmatch train` that have another option here."""
PATHS = ("test", "encoder", "labels_from")
"""Settings that are files, folders or names."""
BASELINE = "Also train the baseline of every run. The method `supervised` is one too."

if TYPE_CHECKING:
    Common = Config
    Place = Where
else:
    Common = settings_model(Config.model_fields.keys() - CHOSEN, baseline=Field(False, description=BASELINE))
    Place = placed_model(Where, WHERE, processes="--parallel-runs")
"""Settings that all runs share: not those that make rows, columns and seeds."""


def compare(
    source: Annotated[str | None, Parameter(group=ARGUMENTS, show_default="digits")] = None,
    /,
    *,
    methods: Annotated[str, Parameter(group=METHOD)],
    labels: Annotated[str | None, Parameter(group=SOURCES, show_default="by the data")] = None,
    imbalance: Annotated[str | None, Parameter(group=SOURCES)] = None,
    seeds: Annotated[int, Parameter(group=LENGTH)] = 5,
    first_seed: Annotated[int, Parameter(group=LENGTH)] = 0,
    data: Annotated[Path | None, Parameter(group=SOURCES)] = None,
    common: Annotated[Common | None, Parameter(name="*")] = None,
    metric: Annotated[str, Parameter(group=MEASURING)] = "error",
    out: Annotated[Path, Parameter(group=OUTPUT)] = Path("comparisons"),
    name: Annotated[str | None, Parameter(group=OUTPUT, show_default="by data, methods and settings")] = None,
    file: SettingsFile = None,
    dry_run: Annotated[bool, Flag] = False,
    track: Track = None,
    talk: Annotated[Talk, Parameter(name="*")] = ALOUD,
    where: Annotated[Place | None, Parameter(name="*")] = None,
) -> None:
    """Compare methods: train each with every number of labels and every seed, and write tables of means and differences.

    All settings are checked before the first run starts. Runs are kept in comparisons/runs and never repeated: the same command
    resumes after an interruption, and more seeds, labels or methods add only the missing runs. A run that fails is tried again
    from its last checkpoint. A seed gives all methods the same labelled samples.

    Results are in comparisons/NAME: Markdown, LaTeX and CSV with mean ± standard deviation, the best method and those that cannot
    be distinguished from it in bold, and a page with all curves. On a cluster, all machines must share the output folder and have
    softmatch installed.

    Exit codes: 0 done, 1 some runs failed, 2 wrong usage, 75 stopped by a signal; the same command resumes.

    For example:

    - softmatch compare digits --methods supervised,fixmatch,softmatch --labels 20,40 --seeds 5
    - softmatch compare tickets.csv --methods supervised,softmatch --text-column message --label-column category
    - softmatch compare cifar10 --data cifar-10-python.tar.gz --methods fixmatch,softmatch --labels 40,250 --steps 2000
    - softmatch compare cifar10 --methods softmatch,darp+softmatch --imbalance 50,100 --recipe paper
    - softmatch compare digits --methods 'softmatch,softmatch{k: 3},mine.py:MyWeighting' --parallel-runs 2
    - softmatch compare digits --methods fixmatch,softmatch --metric "worst class"
    - softmatch compare digits --methods fixmatch,softmatch --on ray --address 10.0.0.1:6379 --gpus-per-run 1
    - softmatch compare digits --methods fixmatch,softmatch --on slurm --slurm.partition gpu --slurm.gpus 1 --slurm.time 120

    Parameters
    ----------
    source:
        Data to train on, as of `softmatch train`.
    methods:
        Rows of the table: methods, separated by commas, with options in braces: softmatch,softmatch{k: 3}.
    labels:
        Columns of the table: numbers of labelled samples, separated by commas.
    imbalance:
        Columns of the table: ratios γ of the largest class to the smallest, separated by commas. Replaces --labels.
    seeds:
        Number of seeds; each is a split of the data and a training.
    first_seed:
        First of these seeds.
    data:
        Files of a named dataset: a folder, an archive or an .npz file.
    out:
        Folder of runs and results, which comparisons share.
    name:
        Name of the folder of these results.
    metric:
        Metric of the table: error, quantity, quality, mean quantity, mean quality, best class quality, worst class quality,
        seconds, best error, early error, early quantity, early quality, spread of weights, spread without alignment, worst class
        or mean of classes. The runs are the same; unless it is error, the folder of the results ends with its name.
    dry_run:
        Check all settings, and print which runs are finished and which are missing. Nothing is written.
    """
    from softmatch.cli.display import make_console, say, say_finding
    from softmatch.cli.sweep_progress import Progress, run_sheets
    from softmatch.experiments.checking import check
    from softmatch.experiments.results.collect import collect, measure_named
    from softmatch.experiments.results.layout import Layout
    from softmatch.experiments.results.tables import summary_table, write_results
    from softmatch.training.trackers import find_listeners

    if seeds < 1 or first_seed < 0:
        raise InputError(f"--seeds {seeds} --first-seed {first_seed}: give 1 or more seeds, from 0 on.")
    measure_named(metric)
    find_listeners(track or ())
    layer = {} if file is None else _read(file)
    written = layer.pop("source", None)
    settings = {"baseline": False, **layer, **given(common)}
    settings |= {key: type(settings[key])(_absolute(str(settings[key]))) for key in PATHS if settings.get(key) is not None}
    chosen = _absolute(source or written or "digits")
    made_of = _made_of(chosen, data, *(settings.get(key) for key in PATHS))
    columns = [replace(column, made_of=made_of) for column in _columns(chosen, labels, imbalance)]
    sheet = make_sheet(chosen, methods, columns, range(first_seed, first_seed + seeds), settings, name)
    if metric != "error":
        sheet = replace(sheet, name=f"{sheet.name}-{metric.replace(' ', '-')}")
    store, console = Store(out), make_console(talk)
    found = {} if data is None else {chosen: data}
    here = where is None or where.on == "here"
    for finding in check(sheet, store, found, None if here else "cpu"):
        say_finding(console, finding)
    if dry_run:
        missing = [run for run in sheet.runs() if not store.is_finished(run)]
        progress = Progress([sheet], store, console)
        progress.begins(missing)
        console.print(progress.table())
        missing_runs = f"{len(missing)} run{'s are' if len(missing) != 1 else ' is'} missing"
        say(console, f"{missing_runs}. This is a dry run: nothing is written.")
        return
    command = command_line()
    also = ["--track", *track, "--track-group", sheet.name] if track else []
    outcomes = run_sheets([sheet], store, where or Where(), console, data=found, also=also, command=command)
    layout = Layout(collect(sheet, store, metric, outcomes=outcomes))
    paths = write_results(layout, store, commands=[command])
    console.print(summary_table(layout))
    for path in paths:
        say(console, str(path))
    failed = sum(outcome.state != "done" for outcome in outcomes)
    if failed:
        raise TrainingError(f"{failed} of {len(outcomes)} runs failed, for the reasons above. The same command tries them again.")


def make_sheet(
    source: str, methods: str, columns: Sequence[Column], seeds: Sequence[int], common: Mapping[str, Any], name: str | None = None
) -> Sheet:
    """Make the sheet of a comparison.

    Args:
        methods: names separated by commas, each with its options in braces where it has any.
        name: default: by the data, the columns, and the settings if there are any.
    """
    if name is not None and (not re.fullmatch(r"[\w-][\w.-]*", name) or name in ("runs", "slurm")):
        raise InputError(f"--name {name}: a name consists of letters, digits, dashes and dots, and is not runs or slurm.")
    rows = [Row(text, settings) for text, settings in _methods(methods)]
    title = f"Comparison on {_title(source)}"
    return Sheet(name or _name(source, rows, columns, common), title, rows, columns, tuple(seeds), common)


def _read(file: Path) -> dict[str, Any]:
    layer = read_file(file)
    for key, option in CHOSEN.items():
        if key in layer:
            raise InputError(f"settings file {file}: {key} is not shared by all runs here. Remove it, and give {option}.")
    return layer


def _made_of(*paths: str | Path | None) -> str:
    """Digest of the contents of files and folders."""
    found = [expand_home(path) for path in paths if path is not None]
    return "-".join(digest(path) for path in found if path.exists())


def _absolute(source: str) -> str:
    """Absolute path of the user's files, so that it is the same comparison from any folder."""
    from softmatch.data.sources import SOURCES

    path = expand_home(source)
    return str(path.resolve()) if source not in SOURCES and path.exists() else source


def _title(source: str) -> str:
    return Path(source).stem or source


def _columns(source: str, labels: str | None, imbalance: str | None) -> list[Column]:
    if labels is not None and imbalance is not None:
        raise InputError("--labels and --imbalance exclude each other. Give one of them.")
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
    """Number in a list on the command line."""
    try:
        number = int(text) if whole else float(text)
        if not math.isfinite(number):
            raise ValueError
    except ValueError as error:
        what = "whole numbers" if whole else "numbers"
        raise InputError(f"{option} takes {what} separated by commas; {text.strip()!r} is not one.") from error
    return int(number) if number == round(number) else number


def _methods(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Split a list of methods into each method as written, and its settings."""
    for each in _split(text):
        name, brace, options = each.partition("{")
        found = parse_yaml(brace + options, f"--methods {each}") if brace else {}
        if not name.strip() or not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise InputError(f"--methods {each}: give NAME, or NAME{{option: value}}, separated by commas.")
        yield each, {"method": name.strip(), **({"method_options": found} if found else {})}


def _split(text: str) -> list[str]:
    """Split at commas outside braces and brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _name(source: str, rows: Sequence[Row], columns: Sequence[Column], common: Mapping[str, Any]) -> str:
    """Name of a comparison by data, methods, columns and settings; more seeds do not change it."""
    known = former_names(common).items()  # as comparisons that exist already were named
    decisive = {key: value for key, value in known if key not in ELSEWHERE and (key, value) != ("twin", False)}
    numbers = [f"{value:g}" for column in columns for value in column.settings.values()]
    kind = next((key for column in columns for key in column.settings), None)
    parts = [_title(source), *numbers, *([kind] if kind else [])]
    text = json.dumps([source, [row.name for row in rows], decisive], sort_keys=True, default=str)
    parts.append(hashlib.sha256(text.encode()).hexdigest()[:6])
    return re.sub(r"[^\w.-]+", "-", "-".join(parts)).strip("-.")
