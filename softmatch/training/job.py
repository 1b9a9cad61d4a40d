"""The main job: from a source and settings to a run folder with a trained classifier and its measured error."""

import json
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from softmatch.config import RUN_SETTINGS, left_open, read_file, renamed, write_config
from softmatch.data.fingerprint import content, fingerprint
from softmatch.distributed.processes import first_of_machine, joined, main_says, world
from softmatch.errors import InputError, ProcessLost, Stopped, TrainingError
from softmatch.methods import Method, split_wrapper
from softmatch.networks import Network, describe_network
from softmatch.report import write_report
from softmatch.report.drawn_charts import html_result, plot
from softmatch.runs.folder import RunFolder, is_finished
from softmatch.runs.model import copy_model, set_temperature
from softmatch.training.bench import plan_length
from softmatch.training.fit import Curve, Fit, Fitted, Watcher, fit
from softmatch.training.inputs import fold_task
from softmatch.training.measure import HeldOut, Measured, baseline_wins, measure_error, pool, save_pictures, write_held_out
from softmatch.training.opening import Job, open_job
from softmatch.training.resume import RUNS, decide, reopen, resume_command
from softmatch.training.setup import build_method, prepare_job, restored_state
from softmatch.training.stop import Stop
from softmatch.training.task import Task
from softmatch.training.trackers import find_listeners, is_named
from softmatch.training.tracking import Listener, Tracking


@dataclass(frozen=True, kw_only=True)
class Result(Measured):
    """Final figures of a run.

    Attributes:
        run: the run folder.
        method, labels, steps, seed: as in config.yaml; labels is their number.
        quantity, quality: of the pseudo-labels at the last record that has them.
        kept: method of the saved model: `method`, or "supervised" where the baseline was clearly better.
        seconds: of all trainings.
        supervised_seconds: of the baseline; None without one.
        evaluation: kind ("test", "holdout", "crossfit", "none"), samples, folds, reason.
    """

    run: Path
    method: str
    labels: int
    steps: int
    seed: int
    quantity: float | None
    quality: float | None
    kept: str
    seconds: float
    supervised_seconds: float | None
    evaluation: dict[str, Any]

    def plot(self) -> Any:
        """Draw error, quantity f and quality g over the steps; see `softmatch.plot`."""
        return plot(self.run)

    def _repr_html_(self) -> str:
        return html_result(asdict(self), str(self.run / "report.html"))


def train(
    source: Any = "digits",
    *,
    network: Network | None = None,
    listeners: Sequence[str | Listener] = (),
    watcher: Watcher | None = None,
    resume: Path | str | None = None,
    **settings: Any,
) -> Result:
    """Train on a named source or on your own data; settings are those of `Config`.

    Args:
        source: a name, the path of a folder or file, an id of the hub, a frame of pandas or polars, a `datasets.Dataset`, a
            map-style dataset of torch with pairs (item, label), or a pair of arrays (X, y). −1, None or NaN: no label.
        network: the setting of that name; or an nn.Module of your own, copied for each run, or a function that makes one.
        listeners: trackers by name ("tensorboard", "mlflow", "wandb", "trackio"), and objects with the methods of
            `softmatch.Listener`.
        watcher: an object that shows the course of the run, as the command line does.
        resume: "auto" resumes an unfinished run of the same source and settings, if there is one. A run folder resumes that run
            with its settings; the source is needed only if it was not a file or a name.
        settings: `labels`, `method`, `steps`, `out`, `seed`, …; `softmatch help train` lists all of them.

    Returns:
        The figures that result.json has, and the run folder.

    Raises:
        InputError: source or settings cannot be used, or the run in `out` is finished.
        TrainingError: training failed; the message names the step.
        Stopped: a signal came. The state is saved.

    Example:
        >>> result = train("digits", labels=40, method="softmatch", steps=2, out="runs/short")
        >>> result.labels, result.test_samples
        (40, 539)
    """
    settings = renamed(settings, "train", warn=True)
    named = settings.pop("network", None)  # by its former name, model
    if named is not None and network is not None:
        raise InputError("train: model is the former name of network. Give one of them.")
    network = named if network is None else network
    if isinstance(network, str):
        settings["network"], network = network, None
    with joined():
        heard = open_listeners(listeners)
        if resume is not None and resume != "auto":
            given = None if isinstance(source, str) and source == "digits" else source
            job, run = reopen(Path(resume), given, settings, network)
            return run_job(job, watcher, network, run, heard)
        if network is not None:
            settings["network"] = describe_network(network)
        with first_of_machine():
            job = open_job(source, settings, resuming=resume == "auto")
        found, finished = decide(job, True, lambda run: False) if resume == "auto" else (None, False)
        if finished:
            raise InputError(f"{job.config.out} is finished: there is nothing to do.")
        return run_job(job, watcher, network, found, heard)


@restored_state()
def run_job(
    job: Job,
    watcher: Watcher | None = None,
    network: Network | None = None,
    run: RunFolder | None = None,
    listeners: Mapping[str, Listener] | None = None,
    group: str | None = None,
) -> Result:
    """Train a job: a source that was read, with complete settings.

    Args:
        run: an unfinished run of this job to resume.
    """
    started, listeners = time.perf_counter(), listeners or {}
    tracking = Tracking(listeners, watcher, group, run is not None)
    watcher = (tracking if listeners else watcher) if world().is_main else None
    if network is not None:
        job = replace(job, config=job.config.model_copy(update={"network": describe_network(network)}))
    job = _with_choices(job, network, run, started)
    task = prepare_job(job, network, None if watcher is None else watcher.note)
    job = replace(job, config=task.config)
    method = build_method(task, job.config.method)  # before anything is written, to report a wrong option
    folder = run or RunFolder(Path(main_says(lambda: str(_make_folder(task).path))))
    with folder.locked() if world().is_main else nullcontext(), tracking, Stop() as stop:
        main_says(lambda: _begin(task, job, folder))
        if world().is_main:
            folder.remove_leftovers()
        if watcher is not None:
            watcher.understood(task, folder)
        command = resume_command(folder.path, job, [name for name in listeners if is_named(name)])
        try:
            result = _train_all(task, method, Fit(folder, job.config.method, watcher, stop), started)
            tracking.result = folder.read_json("result.json") if world().is_main else None
            return result
        except ProcessLost as lost:
            raise ProcessLost(f"{lost} Resume with: {command}") from lost
        except Stopped as stopped:
            raise Stopped(f"{stopped}; the state is saved. Resume with: {command}") from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise TrainingError(
                f"{where}{error.strerror or error}. The files of the run so far are kept in {folder.path}; "
                f"when the problem is fixed, resume with: {command}"
            ) from error


def open_listeners(given: Sequence[str | Listener]) -> dict[str, Listener]:
    """Listeners by name, in the main process only; an error is raised in all of them."""
    found: dict[str, Listener] = {}

    def open_all() -> str:
        found.update(find_listeners(given))
        return ""

    main_says(open_all)
    return found


def _with_choices(job: Job, network: Network | None, run: RunFolder | None, started: float) -> Job:
    """Replace open settings by those of the run that is resumed, or a length in minutes by the steps that fit into it."""
    wanted = left_open(job.config)
    if run is not None and wanted:
        written = run.path / RUN_SETTINGS
        said = main_says(lambda: json.dumps({key: value for key, value in read_file(written).items() if key in wanted}))
    elif job.config.minutes is not None:
        planned = plan_length(job, 60 * job.config.minutes - (time.perf_counter() - started), network)
        said = main_says(lambda: json.dumps(planned))
    else:
        return job
    return replace(job, config=job.config.model_copy(update={"minutes": None, **json.loads(said)}))


def _begin(task: Task, job: Job, run: RunFolder) -> str:
    """Write settings and split, or check that those of an unfinished run are equal. The folder is locked."""
    data = fingerprint(task.examples.names, task.examples.labels, task.split.labeled)
    chosen = [] if task.examples.chosen is None else task.examples.chosen.nonzero().flatten().tolist()
    split = {
        **task.split.as_dict(),
        "data": data,
        "content": content(task.examples),
        "chosen": chosen,
        "device": task.device.type,
    }
    if not (run.path / "config.yaml").exists():
        write_config(run.path / "config.yaml", job.source, job.config)
    if is_finished(run.path):
        raise InputError(f"{run.path} is finished: another process has just completed it.")
    written, now = run.read_json("split.json"), json.loads(json.dumps(split))
    if isinstance(written, dict):
        changed = [key for key, value in written.items() if now.get(key) != value]
        if changed == ["device"]:
            raise InputError(
                f"{run.path} was started on {written['device']!r}; on {now['device']!r} the results would differ. "
                f"Use --device {written['device']}, or start a new run."
            )
        if changed:
            file = f" or the labels of {job.config.labels_from}" if job.config.labels_from is not None else ""
            raise InputError(f"the data{file} of {run.path} have changed since the run was started. Start a new run.")
    run.write_json("split.json", split)
    return ""


def _train_all(task: Task, method: Method, to: Fit, started: float) -> Result:
    """Train the baseline or the folds, then the network of the run, and compute the figures."""
    known, baseline_seconds, run, kept = Curve(), None, to.run, task.config.method
    if task.evaluation.kind == "crossfit":
        found, known, baseline_seconds = _cross_fit(task, to)
        if task.may_choose and baseline_wins(found):
            kept = "supervised"
            method, to = build_method(task, kept), to._replace(role="baseline")
        fitted = fit(task, method, to, known)
    else:
        supervised = None
        if task.has_baseline:
            supervised = fit(task, build_method(task, "supervised"), to._replace(run=run.baseline(), role="baseline"))
        fitted = fit(task, method, to)
        found = HeldOut(task.test[1], fitted.probs, None if supervised is None else supervised.probs, task.test_names)
        baseline_seconds = None if supervised is None else supervised.seconds
        if task.may_choose and baseline_wins(found):
            kept = "supervised"
            if world().is_main:
                copy_model(run.baseline(), run)
    result = _result(task, run, found, fitted, time.perf_counter() - started, baseline_seconds, kept)
    if world().is_main:
        shown = found.baseline if kept != task.config.method else None
        kept_found = found if shown is None else replace(found, probs=shown)
        write_held_out(run, kept_found, task.examples.classes)
        save_pictures(task, kept_found, run)
        figures = {key: value for key, value in asdict(result).items() if key != "run"}
        versions = {"softmatch": version("softmatch"), "torch": torch.__version__, "python": platform.python_version()}
        run.write_json("result.json", {**figures, "processes": world().size, "versions": versions})
        write_report(run)
        run.finish()
    return result


def _make_folder(task: Task) -> RunFolder:
    config = task.config
    if config.out is not None:
        return RunFolder.create(config.out)
    labels = len(task.split.labeled)
    return RunFolder.create_new(RUNS, f"{task.name}-{_file_name(config.method)}-{labels}-labels-seed-{config.seed}")


def _file_name(method: str) -> str:
    """Name of a method in a folder's name: "saw+dir/mine.py:f" becomes saw+mine-f."""
    wrapper, base = split_wrapper(method)
    if wrapper is not None:
        return f"{_file_name(wrapper)}+{_file_name(base)}"
    place, _, name = method.rpartition(":")
    return f"{Path(place).stem}-{name}" if place else name


def _cross_fit(task: Task, to: Fit) -> tuple[HeldOut, Curve, float | None]:
    """Train once without each part of the labelled samples. Only figures are kept, in folds/."""
    curve, baseline_curve, parts = Curve(), Curve(), list[HeldOut]()
    seconds, folds, number = 0.0, task.evaluation.folds, len(task.examples.classes)
    for position, split in enumerate(folds, 1):
        fold = fold_task(task, split)
        folder, role = to.run.fold(position), f"{position}/{len(folds)} "
        supervised = None
        if task.has_baseline:
            method = build_method(fold, "supervised")
            supervised = fit(fold, method, to._replace(run=folder.baseline(), role=f"{role}baseline", keep=False))
            baseline_curve.add(supervised, fold.test[1])
            seconds += supervised.seconds
        fitted = fit(fold, build_method(fold, to.role), to._replace(run=folder, role=role + to.role, keep=False))
        curve.add(fitted, fold.test[1])
        parts.append(HeldOut(fold.test[1], fitted.probs, None if supervised is None else supervised.probs, fold.test_names))
    if task.has_baseline and world().is_main:
        to.run.baseline().put_records(b"")
        for step in baseline_curve.wrong:
            to.run.baseline().append_record({"step": step, **baseline_curve.figures(step, number)})
    return pool(parts), curve, seconds if task.has_baseline else None


def _result(
    task: Task, run: RunFolder, found: HeldOut, fitted: Fitted, seconds: float, baseline_seconds: float | None, kept: str
) -> Result:
    evaluation, classes, number = task.evaluation, task.examples.classes, len(found.labels)
    counts = torch.bincount(task.examples.labels[task.split.labeled], minlength=len(classes)).tolist()
    measured = measure_error(found, classes, counts, evaluation, found.baseline if kept != task.config.method else None)
    if world().is_main and measured.calibration is not None and measured.calibration["temperature"] is not None:
        set_temperature(run, measured.calibration["temperature"])
    warnings = [*(finding.text for finding in task.findings if finding.level == "warning"), *measured.warnings]
    about = {"kind": evaluation.kind, "samples": number, "folds": len(evaluation.folds) or None, "reason": evaluation.reason}
    return Result(
        **{**vars(measured), "warnings": warnings},
        run=run.path,
        method=task.config.method,
        labels=len(task.split.labeled),
        steps=task.config.steps,
        seed=task.config.seed,
        quantity=fitted.judged.get("quantity"),
        quality=fitted.judged.get("quality"),
        kept=kept,
        seconds=seconds,
        supervised_seconds=baseline_seconds,
        evaluation=about,
    )
