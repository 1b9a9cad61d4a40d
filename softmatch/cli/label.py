"""The commands label and serve. They import torch and the web server only when they run: help must not wait for them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from softmatch.cli.options import ARGUMENTS, given, settings_model
from softmatch.config import RUN_SETTINGS, Config, make_config
from softmatch.errors import InputError

COLUMNS = ("label_column", "text_column", "feature_columns")
NOT_READ = ("out", "labels", "labels_from", "prefer", "data", "train_per_class", "validation_per_class")
"""Settings of training that the page decides itself, or that are for named data."""
if TYPE_CHECKING:
    from softmatch.labeling.shown_samples import ShownSamples

    LabelSettings = Config
else:
    LabelSettings = settings_model([name for name in Config.model_fields if name not in NOT_READ])

Port = Annotated[int | None, Parameter(show_default="7765, or a free one", help="Port of the page.")]
Browser = Annotated[bool, Parameter(negative="--no-browser", show_default="--browser", help="Open the page in your browser.")]
Host = Annotated[str, Parameter(help="Address to serve on. Any other than this machine's own needs --allow-network.")]
AllowNetwork = Annotated[
    bool, Parameter(negative=(), show_default=False, help="Let other machines reach the page, without encryption.")
]


def label(
    source: Annotated[
        str, Parameter(group=ARGUMENTS, help="Data to label: a folder of images, or a table of texts or features.")
    ],
    /,
    *,
    project: Annotated[Path | None, Parameter(show_default="NAME-labels in the current folder")] = None,
    settings: Annotated[LabelSettings | None, Parameter(name="*")] = None,
    port: Port = None,
    browser: Browser = True,
    host: Host = "127.0.0.1",
    allow_network: AllowNetwork = False,
) -> None:
    """Label your data in the browser, with suggestions, and train from there.

    The page is served from this machine only. It suggests typical samples first, then those that a light model doubts. After the
    first 40, random ones among them measure the error. Every label is on disk before the page says "saved", and every
    step can be undone. Stop with Ctrl+C, and go on later with the same command. Options of `softmatch train` are for the
    trainings that the page starts.

    For example:

    - softmatch label photos/
    - softmatch label tickets.csv --text-column message --project tickets-labels
    - softmatch label photos/ --encoder images --minutes 10

    Parameters
    ----------
    project:
        Folder for the labels (labels.csv, log.jsonl) and the trainings.
    """
    from softmatch.files.paths import expand_home
    from softmatch.training.opening import reading_of

    _require_web("label")
    from softmatch.labeling.label_log import LabelLog
    from softmatch.labeling.label_page import LabelPage
    from softmatch.labeling.label_server import serve
    from softmatch.labeling.shown_samples import ShownSamples
    from softmatch.labeling.suggestion_queue import SuggestionQueue
    from softmatch.labeling.trainings import Trainings
    from softmatch.labeling.web_security import refuse_open_network

    refuse_open_network(host, allow_network)
    asked = given(settings)
    config = make_config(asked)
    reading = reading_of(config)
    where = str(expand_home(source).resolve()) if expand_home(source).exists() else source
    shown = ShownSamples(where, reading)
    folder = (project or Path(f"{_plain_name(where)}-labels")).absolute()
    _refuse_inside(folder, where)
    log = LabelLog(folder)
    moved, gone = shown.follow(log)
    log.write_table()
    if log.cut:
        print("An act that was being written when the last server ended was removed; it had not been acknowledged.")
    _say(f"{shown.where}: {len(shown):,} samples, {len(log.labels()):,} labelled here. Project: {folder}")
    for note in [*shown.notes, *_changes(moved, len(gone)), *_edited(log.edited)]:
        print(note)
    if shown.kind == "image" and config.encoder is None:
        advice = "For photos, add --encoder images (346 MB, downloaded once), which sees what they show."
        print(f"Similar images are found by their pixels. {advice}")
    if len(shown.known) == len(shown):
        advice = "To label images anew, move their folders into one called unlabeled; for a table, name another --label-column."
        print(f"Every sample has a label in the source, so none is suggested; Review shows them. {advice}")
    queue = SuggestionQueue(shown, log, reading, config.seed)
    trainings = Trainings(folder, where, _words(asked), _words({key: asked[key] for key in COLUMNS if key in asked}))
    queue.start()
    known = len(log.edited)
    serve(LabelPage(trainings, shown, log, queue, gone), host, port, _say, browser)
    print(f"{len(log.labels()):,} labels in {folder / 'labels.csv'}")
    for note in _edited(log.edited[known:]):
        print(note)
    for name in trainings.names():
        if trainings.is_running(name):
            run = shlex.quote(str(trainings.path(name)))
            print(f"Training {name} goes on without the page. See it with: softmatch serve {run}, or start this command again.")


def serve(
    run: Annotated[Path, Parameter(group=ARGUMENTS, help="Run folder, finished or not.")],
    /,
    *,
    port: Port = None,
    browser: Browser = True,
    host: Host = "127.0.0.1",
    allow_network: AllowNetwork = False,
) -> None:
    """Show a run in the browser while it trains: errors, pseudo-labels, confidence and mistakes. Nothing is changed.

    For example:

    - softmatch serve runs/photos
    """
    _require_web("serve")
    from softmatch.labeling.label_page import LabelPage
    from softmatch.labeling.label_server import serve as run_server
    from softmatch.labeling.trainings import Trainings
    from softmatch.labeling.web_security import refuse_open_network

    refuse_open_network(host, allow_network)
    if not (run / RUN_SETTINGS).is_file():
        raise InputError(f"{run} is not a run folder: it has no {RUN_SETTINGS}.")
    path = run.absolute()
    run_server(LabelPage(Trainings(path.parent, "", [], only=path), _samples_of(path)), host, port, _say, browser)


def _samples_of(run: Path) -> "ShownSamples | None":
    """Samples of a run's source; None where they cannot be shown, which the page can do without."""
    from softmatch.config import read_file
    from softmatch.labeling.shown_samples import ShownSamples
    from softmatch.training.opening import reading_of

    try:
        written = read_file(run / RUN_SETTINGS)
        source = str(written.pop("source", ""))
        return ShownSamples(source, reading_of(make_config(written)))
    except InputError as error:
        _say(f"The samples of the run are listed by name only: {error}")
        return None


def _changes(moved: int, gone: int) -> list[str]:
    """Sentences about labels whose samples are not where they were."""
    return [
        *([f"{moved:,} labels follow samples that have another name or row now."] if moved else []),
        *([f"{gone:,} labels are of samples that are gone or were changed. Trainings leave them out."] if gone else []),
    ]


def _edited(copies: list[Path]) -> list[str]:
    """Sentences about a labels.csv that somebody else has changed."""
    advice = "labels.csv is made from log.jsonl: correct labels on the page, or give the copy to --labels-from."
    return [f"labels.csv had been changed by hand; that version is kept as {path}. {advice}" for path in copies]


def _require_web(command: str) -> None:
    from importlib.util import find_spec

    missing = next((name for name in ("starlette", "uvicorn") if find_spec(name) is None), None)
    if missing is not None:
        raise InputError(f"softmatch {command} needs {missing}: pip install 'softmatch[web]'.")


def _refuse_inside(folder: Path, source: str) -> None:
    """Raise InputError for a project in the folder that is labelled: its tables would be read as labels of the images."""
    if Path(source).is_dir() and folder.resolve().is_relative_to(Path(source).resolve()):
        raise InputError(f"--project {folder} is inside {source}. Choose a folder outside of the data.")


def _plain_name(source: str) -> str:
    import re

    return re.sub(r"[^\w.-]+", "-", Path(source).stem).strip("-.") or "data"


def _words(asked: dict[str, Any], before: str = "--") -> list[str]:
    """Settings as options of the command line."""
    words = []
    for key, value in asked.items():
        option = before + key.replace("_", "-")
        if isinstance(value, bool) and before == "--":
            words.append(option if value else f"--no-{option[2:]}")
        elif isinstance(value, dict):
            words += _words({name.replace("-", "_"): each for name, each in value.items()}, f"{option}.")
        elif value is not None:
            words += [option, str(value)]
    return words


def _say(line: str) -> None:
    print(line, flush=True)
