"""Options that commands share: help panels, defaults in help, settings of each command; and the words that were typed."""

import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.help import DefaultFormatter
from pydantic import BaseModel, ConfigDict, create_model

from softmatch.config import FORMER, Config
from softmatch.formatting import as_json, visible_lines

_SETTINGS = {f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in FORMER.items()}
_COLUMNS = {option: _SETTINGS[option] for option in ("--label", "--text", "--features")}
_SWEEP = {"--processes": "--parallel-runs"}
RENAMED: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("train", "check", "bench", "plan"), _SETTINGS),
    "compare": {**_SETTINGS, **_SWEEP, "--measure": "--metric"},
    "reproduce": _SWEEP,
    **dict.fromkeys(("predict", "suggest"), _COLUMNS),
    "augment": {"--text": "--text-column"},
}
"""Options that had another name in version 0.1: for each command, old name → name."""
FLAGS: Mapping[str, str] = {"--fine-tune": "--tune=all", "--no-fine-tune": "--tune=head"}
"""Former options without a value, and what they are now."""

_words: list[str] = []


def remember(arguments: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Keep the arguments under the current names of their options, and return them."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    names = RENAMED.get(command, {})
    names = {**names, **{f"--no-{old[2:]}": f"--no-{new[2:]}" for old, new in names.items()}}
    _words[:] = arguments
    for place, word in enumerate(arguments):
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if option in names and option in FLAGS and not equals:
            _words[place] = FLAGS[option]
            tell(f"{option} is now called {FLAGS[option]}.")
        elif option in names:
            _words[place] = names[option] + equals + value
            tell(f"{option} is now called {names[option]}.")
        elif option == "--views" and command in ("train", "check", "compare", "curve", "bench", "plan"):
            _words[place] = "--views.own" + equals + value  # beside which there may be --views.NAME of that code
    return list(_words)


def arguments() -> list[str]:
    """Arguments of this command, without the name of the program."""
    return list(_words)


def command_line(arguments: Sequence[str] | None = None) -> str:
    """This command as a line for a shell, or the command with these arguments."""
    return shlex.join(["softmatch", *(_words if arguments is None else arguments)])


def without_option(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments without an option and its value, given as two words or as one with "=" between."""
    kept, skip = [], False
    for word in arguments:
        if skip or word == option:
            skip = not skip
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


class Folded(DefaultFormatter):
    """Formatter of the panels that only --help-all prints."""

    open = False

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        if Folded.open:
            super().__call__(console, options, panel)


PANELS: Mapping[str, str] = {
    "Your data": "labels label_column text_column feature_columns unlabeled labels_from data arrays image_size",
    "Encoder": "encoder tune max_tokens augmented",
    "Method": "method method_options network baseline keep",
    "Length and seed": "steps minutes seed",
    "Measuring": "test evaluation folds test_fraction evaluate_every",
    "Output": "out",
}
"""Settings that `--help` shows, by panel."""
MORE: Mapping[str, str] = {
    "Labels from a file": "prefer",
    "Table of readings": "series_column time_column",
    "Optimiser": "labeled_batch unlabeled_batch optimizer lr schedule weight_decay decay clip warmup views layer_decay "
    "strong_share small_images neighbours head_rate tuned_layers lora head length_buckets",
    "Machine": "device precision threads workers compile micro_batch checkpoint_every",
    "Paper and long tail": "split_seed recipe imbalance unlabeled_imbalance largest_class_labels largest_class_unlabeled "
    "train_per_class validation_per_class batch_statistics averages teacher statistics_momentum model_momentum "
    "batch_norm_momentum",
}
"""Settings that `--help-all` shows in addition."""
BY_DATA = "by the data"
DEFAULTS: Mapping[str, str] = {
    **dict.fromkeys(("labels", "label_column", "text_column", "feature_columns", "arrays", "image_size", "max_tokens"), BY_DATA),
    "series_column": "none",
    "time_column": "the order of the rows",
    **dict.fromkeys(("recipe", "schedule", "teacher", "neighbours", "strong_share", "small_images"), BY_DATA),
    **dict.fromkeys(("network", "views", "steps", "labeled_batch", "unlabeled_batch", "optimizer", "lr", "warmup"), BY_DATA),
    **dict.fromkeys(("weight_decay", "layer_decay", "head_rate", "model_momentum", "test_fraction", "folds"), BY_DATA),
    **dict.fromkeys(("largest_class_labels", "largest_class_unlabeled"), "the paper's number for CIFAR"),
    **dict.fromkeys(("statistics_momentum", "batch_norm_momentum"), "by --averages"),
    "data": "cache, then the Hugging Face hub",
    "augmented": "aug_0, aug_1, … of the table",
    "split_seed": "the same as the seed",
    "minutes": "10 or 20 for images on a CPU, else by the steps",
    "evaluate_every": "a fortieth of the run",
    "checkpoint_every": "a tenth of the run",
    "out": "a new folder in runs/",
    "clip": "no clipping",
    "tuned_layers": "all layers",
    "lora": "8",
    "length_buckets": "50",
    "threads": "chosen by torch",
    "workers": "by the data and the machine",
    "micro_batch": "64 on a CPU, no limit elsewhere",
    "unlabeled_imbalance": "the same as --imbalance",
    "train_per_class": "all",
    "validation_per_class": "the test set",
}
"""Defaults that are not a value of their own, as help shows them."""

SHORT = {"series_column": ("--series-column", "--series"), "time_column": ("--time-column", "--time")}
"""Options with a second name."""
_GROUPS = {name: Group.create_ordered(name) for name in ("Arguments", "Options", *PANELS, "Where to run")}
_GROUPS |= {name: Group.create_ordered(name, help_formatter=Folded()) for name in MORE}
ARGUMENTS, OPTIONS, SOURCES, _, METHOD, LENGTH, MEASURING, OUTPUT, WHERE, _, _, _, MACHINE, _ = _GROUPS.values()
_PANEL = {field: _GROUPS[panel] for panel, names in {**PANELS, **MORE}.items() for field in names.split()}


def settings_model(names: Collection[str], **changed: Any) -> Any:
    """Model of the settings that a command reads, each an option in its help panel.

    Args:
        changed: fields whose default or description differs from that of `Config`.
    """
    fields: dict[str, Any] = {}
    for name in (name for name in _PANEL if name in names):
        field, annotation = changed.get(name, Config.model_fields[name]), Config.model_fields[name].annotation
        shown: Any = None if name in changed else DEFAULTS.get(name)
        if annotation is bool:
            shown = f"--{'' if field.default else 'no-'}{name.replace('_', '-')}"
        if field.default == {}:
            shown = DEFAULTS.get(name, False)
        parameter = Parameter(name=SHORT.get(name), group=_PANEL[name], show_default=shown)
        fields[name] = (Annotated[annotation, parameter], field)
    return create_model("Settings", __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def placed_model(model: type[BaseModel], panel: Group, **names: str) -> Any:
    """A model whose fields are options in one help panel.

    Args:
        names: options of fields that are not called like them.
    """
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        parameter = Parameter(group=panel, name=names.get(name))
        fields[name] = (Annotated[field.annotation, parameter], field)
    return create_model(model.__name__, __base__=model, **fields)


def given(settings: BaseModel | None) -> dict[str, Any]:
    """Settings that are on the command line."""
    return {} if settings is None else {key: getattr(settings, key) for key in settings.model_fields_set}


Flag = Parameter(negative=(), show_default=False, group=OUTPUT)
Json = Annotated[bool, Flag, Parameter(help="Print JSON instead of a table.")]


@dataclass(frozen=True)
class Talk:
    """How much a command prints."""

    quiet: Annotated[bool, Flag, Parameter(name=["--quiet", "-q"], help="Print only warnings and errors, no progress.")] = False
    verbose: Annotated[bool, Flag, Parameter(name=["--verbose", "-v"], help="Print more, and a traceback with an error.")] = False


@dataclass(frozen=True)
class TalkOrJson(Talk):
    """How much a command prints, or its result as JSON."""

    as_json: Annotated[bool, Flag, Parameter(name="--json", help="Print the result as JSON; all else on standard error.")] = False


@dataclass(frozen=True)
class Parts:
    """Parts of a run that its folder does not have: a moved encoder, and code of the user's own, which must be named again."""

    network: Annotated[str | None, Parameter(help="file.py:name of your own network, if the run used one. Its code is run.")] = (
        None
    )
    views: Annotated[str | None, Parameter(help="file.py:name of your own views, if the run used such. Its code is run.")] = None
    encoder_path: Annotated[Path | None, Parameter(help="New location of the run's encoder, if its folder has moved.")] = None


IN_FOLDER = Parts()
ALOUD = TalkOrJson()

Track = Annotated[
    list[str] | None,
    Parameter(
        group=OUTPUT,
        consume_multiple=True,
        negative=(),
        help="Trackers that receive settings, records, figures, result and model: trackio, tensorboard, wandb, mlflow, or "
        "file.py:name for a listener of your own. SOURCE comes before this option.",
    ),
]
TrackGroup = Annotated[str | None, Parameter(group=MACHINE, help="Name of the group of this run in its trackers.")]
Run = Annotated[Path, Parameter(help="Folder of a finished run.", group=ARGUMENTS)]
Moved = Annotated[str | None, Parameter(help="New location of the run's data, if they have moved.")]
Method = Annotated[str | None, Parameter(help="file.py:name of your own method, if the run used one. Its code is run.")]
Device = Annotated[str, Parameter(help=Config.model_fields["device"].description)]
TextColumn = Annotated[str | None, Parameter(name="--text-column", help=Config.model_fields["text_column"].description)]
SettingsFile = Annotated[
    Path | None,
    Parameter(
        name=["--config", "-c"],
        group=OUTPUT,
        help="YAML file of settings: `source`, and options of this command with _ for -. Options override the file.",
    ),
]
OutFile = Annotated[Path | None, Parameter(name=["--out", "-o"], group=OUTPUT)]
Raw = Annotated[
    bool,
    Flag,
    Parameter(
        help="Write CSV cells that start with = + - or @ as they are. By default such cells get a leading ' so that a "
        "spreadsheet does not run them as formulas; softmatch removes it on reading."
    ),
]


def tell(found: Any, talk: Talk, to_stderr: bool = False) -> None:
    """Print a result in words, as JSON, or not at all."""
    if isinstance(talk, TalkOrJson) and talk.as_json:
        print(as_json(asdict(found)))
    elif not talk.quiet:
        print(visible_lines(found.describe()), file=sys.stderr if to_stderr else sys.stdout)
