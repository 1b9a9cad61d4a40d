"""Trackers as listeners: TensorBoard, MLflow, Weights & Biases and Trackio. Their libraries are imported when one is chosen."""

import math
import os
import re
import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from softmatch.errors import InputError, nearest
from softmatch.formatting import percent, signed
from softmatch.plugins import call_own, find_own
from softmatch.report.drawn_charts import Picture, draw_charts
from softmatch.runs.folder import RunFolder
from softmatch.training.loop import Record
from softmatch.training.tracking import Listener, TrackedRun

PROJECT = "softmatch"
"""Project, or experiment, of the runs where the tracker's own environment variable names no other."""
MEMORY = "trackers"
"""Folder of a run with the ids of its runs in trackers."""
FEW = 10
"""Largest number of classes whose figures are sent one by one."""
UNSENT = ("step", "role", "curve", "histogram")
"""Parts of a record that are not numbers by step."""
MLFLOW = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Settings of MLflow, unless the user has set them: by default, it tries a lost server for many minutes."""
FILES = ("report.html", "result.json", "config.yaml")


class Tracker(Listener, ABC):
    """A tracker that continues its own run when ours is resumed."""

    name: ClassVar[str]
    module: ClassVar[str]

    def __init__(self) -> None:
        try:
            self.library: Any = import_module(self.module)
        except ImportError as error:
            message = (
                f"--track {self.name} needs a library that is not installed: pip install 'softmatch[{self.name}]' ({error})."
            )
            raise InputError(message) from error

    @abstractmethod
    def begin(self, run: TrackedRun, known: str | None) -> str:
        """Begin a run with its settings, or continue the known one; return its id."""

    @abstractmethod
    def log(self, figures: dict[str, float], step: int) -> None:
        """Send figures of a step."""

    @abstractmethod
    def finish(self, figures: dict[str, float], table: str, pictures: dict[str, Picture]) -> None:
        """Send the final figures, also as a table in Markdown, and the pictures; and the files, where the tracker takes any."""

    @abstractmethod
    def close(self, finished: bool) -> None:
        """End the run."""

    def start(self, run: TrackedRun) -> None:
        self.run, self.sent = run, dict[str, int]()
        self.memory = None if run.folder is None else RunFolder(run.folder / MEMORY)
        memory = None if self.memory is None else self.memory.read_json(f"{self.name}.json")
        known = memory.get("id") if run.resumed and isinstance(memory, dict) else None
        if isinstance(known, str) and isinstance(memory, dict):
            self.sent = {str(role): int(step) for role, step in memory["sent"].items()}
        self.id = self.begin(run, known)
        self._remember()

    def record(self, record: Record) -> None:
        role, step = record["role"], record["step"]
        if step > self.sent.get(role, 0):  # a resumed run repeats some
            prefix = role_prefix(role, self.run.settings["method"])
            self.log({prefix + name: value for name, value in numbers(record).items()}, step)
            self.sent[role] = step
            self._remember()

    def end(self, result: dict[str, Any] | None) -> None:
        if result is not None:
            pictures = {} if self.run.folder is None else draw_charts(RunFolder(self.run.folder))
            self.finish(final_figures(result), final_table(result), pictures)
        self.close(result is not None)

    def files(self) -> Iterable[Path]:
        """Files of the run for the tracker, and the folder of the model."""
        found = [] if self.run.folder is None else [self.run.folder / name for name in (*FILES, "model")]
        return [path for path in found if path.exists()]

    def artifact(self) -> Any:
        """These files as an artefact, in wandb and Trackio."""
        found = self.library.Artifact(f"model-{self.id}", type="model")
        for path in self.files():
            (found.add_dir if path.is_dir() else found.add_file)(str(path), name=path.name)
        return found

    def _remember(self) -> None:
        if self.memory is not None:
            self.memory.path.mkdir(exist_ok=True)
            self.memory.write_json(f"{self.name}.json", {"id": self.id, "sent": self.sent})


class TensorBoard(Tracker):
    """Event files in the folder tensorboard/ of the run. It has no artefacts."""

    name, module = "tensorboard", "torch.utils.tensorboard"

    def begin(self, run: TrackedRun, known: str | None) -> str:
        self.writer = self.library.SummaryWriter(None if run.folder is None else str(run.folder / self.name))
        if known is None:
            rows = "".join(f"| {key} | {value} |\n" for key, value in flat_settings(run).items())
            self.writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}", 0)
        self.writer.flush()
        return self.name

    def log(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def finish(self, figures: dict[str, float], table: str, pictures: dict[str, Picture]) -> None:
        self.writer.add_text("result", table, 0)
        for name, picture in pictures.items():
            self.writer.add_image(f"report/{name}", picture, 0, dataformats="HWC")
        self.writer.add_hparams(flat_settings(self.run), figures, run_name=".")

    def close(self, finished: bool) -> None:
        self.writer.close()


class MLflow(Tracker):
    """A run of an MLflow experiment, on the server or in the store of MLFLOW_TRACKING_URI."""

    name, module = "mlflow", "mlflow"

    def __init__(self) -> None:
        for key, value in MLFLOW.items():
            os.environ.setdefault(key, value)
        super().__init__()

    def begin(self, run: TrackedRun, known: str | None) -> str:
        self.client = self.library.MlflowClient()
        if known is not None:
            self.client.update_run(known, status="RUNNING")
            return known
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self.client.get_experiment_by_name(name)
        number = self.client.create_experiment(name) if experiment is None else experiment.experiment_id
        tags = {} if run.group is None else {"group": run.group}
        made = str(self.client.create_run(number, run_name=run.name, tags=tags).info.run_id)
        params = [self.library.entities.Param(key, str(value)) for key, value in flat_settings(run).items()]
        for first in range(0, len(params), 100):  # the most that it takes at once
            self.client.log_batch(made, params=params[first : first + 100])
        return made

    def log(self, figures: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        self.client.log_batch(self.id, [self.library.entities.Metric(key, value, now, step) for key, value in figures.items()])

    def finish(self, figures: dict[str, float], table: str, pictures: dict[str, Picture]) -> None:
        self.log(figures, int(self.run.settings["steps"]))
        self.client.log_text(self.id, table, "result.md")
        for name, picture in pictures.items():
            self.client.log_image(self.id, picture, artifact_file=f"report/{name}.png")
        for path in self.files():
            if path.is_dir():
                self.client.log_artifacts(self.id, str(path), path.name)
            else:
                self.client.log_artifact(self.id, str(path))

    def close(self, finished: bool) -> None:
        self.client.set_terminated(self.id, "FINISHED" if finished else "KILLED")


class Wandb(Tracker):
    """A run of Weights & Biases."""

    name, module = "wandb", "wandb"

    def begin(self, run: TrackedRun, known: str | None) -> str:
        online = os.environ.get("WANDB_MODE", "online") == "online"
        if online and not self.library.login(prompt=False, verify=False):
            raise InputError("you are not logged in. Run `wandb login`, or set WANDB_MODE=offline")
        self.tracked = self.library.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.name,
            id=known,
            resume=None if known is None else "allow",
            group=run.group,
            config={"source": run.source, **run.settings},
            settings=self.library.Settings(init_timeout=30, finish_timeout=50),
        )
        self.tracked.define_metric("*", step_metric="step")  # the baseline has the same steps
        return str(self.tracked.id)

    def log(self, figures: dict[str, float], step: int) -> None:
        self.tracked.log({**figures, "step": step})

    def finish(self, figures: dict[str, float], table: str, pictures: dict[str, Picture]) -> None:
        self.tracked.summary.update(figures)
        rows = self.library.Table(columns=["figure", "value"], data=[[key, value] for key, value in figures.items()])
        images = {f"report/{name}": self.library.Image(picture) for name, picture in pictures.items()}
        self.tracked.log({"result": rows, **images})
        self.tracked.log_artifact(self.artifact())

    def close(self, finished: bool) -> None:
        self.tracked.finish(exit_code=0 if finished else 1)


class Trackio(Tracker):
    """A run of Trackio, on this machine or in the Space of TRACKIO_SPACE_ID. It prints, which is not for standard output."""

    name, module = "trackio", "trackio"

    def begin(self, run: TrackedRun, known: str | None) -> str:
        name = known or f"{run.name}-{secrets.token_hex(3)}"  # it finds a run by its name
        config = {"source": run.source, **run.settings}
        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        with redirect_stdout(sys.stderr):
            self.tracked = self.library.init(
                project, name, run.group, config=config, resume="never" if known is None else "must", embed=False
            )
        return name

    def log(self, figures: dict[str, float], step: int) -> None:
        self.tracked.log(figures, step)

    def finish(self, figures: dict[str, float], table: str, pictures: dict[str, Picture]) -> None:
        images = {f"report/{name}": self.library.Image(picture) for name, picture in pictures.items()}
        self.tracked.log({**figures, "result": self.library.Markdown(table), **images}, int(self.run.settings["steps"]))
        self.tracked.log_artifact(self.artifact())

    def close(self, finished: bool) -> None:
        with redirect_stdout(sys.stderr):
            self.tracked.finish()


TRACKERS: Mapping[str, type[Tracker]] = {each.name: each for each in (Trackio, TensorBoard, Wandb, MLflow)}


def find_listeners(given: Iterable[str | Listener]) -> dict[str, Listener]:
    """Listeners by name: trackers, your own as file.py:name, and objects."""
    found: dict[str, Listener] = {}
    for each in given:
        name = each if isinstance(each, str) else type(each).__name__
        listener: Any = each
        if isinstance(each, str) and name in found:
            continue
        if isinstance(each, str) and ":" in each:
            target = find_own(each)
            listener = call_own(target, {}, {}, f"listener {each!r}") if callable(target) else target
        elif isinstance(each, str):
            if each not in TRACKERS:
                raise InputError(f"there is no tracker {each!r}. {nearest(each, TRACKERS)} Or give file.py:name for your own.")
            listener = TRACKERS[each]()
        missing = [method for method in ("start", "record", "end") if not callable(getattr(listener, method, None))]
        if missing:
            raise InputError(f"{name} is not a listener: it has no method {missing[0]}. Inherit from softmatch.Listener.")
        found[name if name not in found else f"{name} {len(found) + 1}"] = listener
    return found


def is_named(name: str) -> bool:
    """True for the name of a listener that --track takes, False for that of an object."""
    return name in TRACKERS or ":" in name


def role_prefix(role: str, method: str) -> str:
    """Prefix of a network's figures: none for that of the run, "baseline/", "fold-1/" or "fold-1/baseline/"."""
    fold = re.match(r"(\d+)/\d+ ", role)
    rest = role if fold is None else role[fold.end() :]
    return ("" if fold is None else f"fold-{fold[1]}/") + ("" if rest == method else f"{rest}/")


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a record, by name; those of classes as name/0, name/1, … where there are few."""
    found: dict[str, float] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                add(f"{name}/{key}", item)
        elif isinstance(value, list) and len(value) <= FEW:
            add(name, dict(enumerate(value)))
        elif isinstance(value, int | float) and math.isfinite(value):
            found[name] = float(value)

    for key, value in record.items():
        if key not in UNSENT:
            add(key, value)
    return found


def flat_settings(run: TrackedRun) -> dict[str, str | int | float | bool]:
    """Settings without those that are not set; options of a method as method_options.k."""
    found: dict[str, Any] = {"source": run.source}
    for key, value in run.settings.items():
        found |= {f"{key}.{name}": item for name, item in value.items()} if isinstance(value, dict) else {key: value}
    plain = {key: value for key, value in found.items() if value is not None}
    return {key: value if isinstance(value, str | int | float) else str(value) for key, value in plain.items()}


def final_figures(result: Mapping[str, Any]) -> dict[str, float]:
    """Error, baseline and gain with their intervals, as fractions; only those that were measured."""
    low, high = result.get("test_error_interval") or (None, None)
    lowest, highest = result.get("difference_interval") or (None, None)
    gain, least, most = (None if value is None else -value for value in (result.get("difference"), highest, lowest))
    found = {"error": result.get("test_error"), "error_low": low, "error_high": high}
    found |= {"baseline_error": result.get("supervised_test_error"), "gain": gain, "gain_low": least, "gain_high": most}
    return {f"final/{name}": float(value) for name, value in found.items() if value is not None}


def final_table(result: Mapping[str, Any]) -> str:
    """The same as a table in Markdown."""
    figures = {name.removeprefix("final/"): value for name, value in final_figures(result).items()}
    rows = ["| | value | 95 % interval |", "|---|---|---|"]
    for name, title in (
        ("error", f"error of {result.get('method')}"),
        ("baseline_error", "error of the baseline"),
        ("gain", "gain"),
    ):
        if name in figures:
            shown = [figures.get(key) for key in (name, f"{name}_low", f"{name}_high")]
            as_text = [None if v is None else f"{signed(v)} points" if name == "gain" else percent(v) for v in shown]
            rows.append(f"| {title} | {as_text[0]} | {'' if as_text[1] is None else f'{as_text[1]} to {as_text[2]}'} |")
    return "\n".join(rows)
