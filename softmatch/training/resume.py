"""Unfinished runs: how the one of a command is found, and how it is opened again to resume."""

import glob
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from softmatch.config import Config, left_open, make_config, merge, read_file
from softmatch.data.sources import SOURCES
from softmatch.distributed.processes import first_of_machine, main_says
from softmatch.errors import InputError
from softmatch.methods import code_in
from softmatch.methods.base import DISTIL
from softmatch.networks import Network, is_own
from softmatch.runs.folder import RunFolder, is_finished, refuse_used
from softmatch.training.opening import Job, absolute, open_again
from softmatch.views.own_views import OWN

RUNS = Path("runs")
"""Folder of runs without --out."""
ELSEWHERE = ("device", "threads", "checkpoint_every", "data")
"""Settings that may differ when a run is resumed: they do not change the results."""
MOVED = ("labels_from",)
"""Settings that may differ when a run is named to be resumed: its split tells whether the contents are still the same."""
IN_MEMORY = ("arrays", "dataset", "frame")
"""Sources without a path."""


def decide(job: Job, auto: bool, wants_to_resume: Callable[[RunFolder], bool]) -> tuple[RunFolder | None, bool]:
    """Find the run to resume, or None for a new one; and tell whether --out is finished, so that nothing is to be done.

    Args:
        auto: resume without asking.
    """

    def look() -> str:
        out, found = job.config.out, _find(job)
        if out is not None and auto and is_finished(out) and is_run_of(out, job):
            return json.dumps([None, True])
        if found is not None:
            _refuse_links(found)
            if not auto and not wants_to_resume(RunFolder(found)):
                found = None
        if found is None and out is not None:
            _explain_other(out, job)
            refuse_used(out)
        return json.dumps([None if found is None else str(found), False])

    found, finished = json.loads(main_says(look))  # in one process only: a folder that it makes would confuse the others
    return None if found is None else RunFolder(Path(found)), finished


def _explain_other(out: Path, job: Job) -> None:
    """Raise InputError that explains why an unfinished run does not belong to this command."""
    if not (out / "config.yaml").is_file() or is_finished(out):
        return
    source, config = read_settings(out)
    if source != job.source:
        raise InputError(f"{out} is an unfinished run on {source}, not on {job.source}. Choose another --out.")
    if (key := _same(config, job.config)) is not None:
        raise InputError(
            f"{out} is an unfinished run with other settings: {key} is {getattr(config, key)!r} there, not "
            f"{getattr(job.config, key)!r}. Choose another --out, or resume it with --resume {out}."
        )


def _find(job: Job) -> Path | None:
    """Find the newest unfinished run of this source and these settings, in its --out or in runs/."""
    if job.config.out is not None:
        found = [job.config.out]
    else:
        known = [path for path in RUNS.glob(f"{glob.escape(job.name)}-*/config.yaml") if path.is_file()]
        found = [path.parent for path in sorted(known, key=lambda path: path.stat().st_mtime, reverse=True)]
    return next((folder for folder in found if not is_finished(folder) and is_run_of(folder, job)), None)


def is_run_of(folder: Path, job: Job) -> bool:
    """Return whether a folder contains a run of this source and these settings."""
    if not (folder / "config.yaml").is_file():
        return False
    try:
        source, config = read_settings(folder)
    except InputError:
        return False
    return source == job.source and _same(config, job.config) is None


def reopen(
    folder: Path, source: Any = None, given: Mapping[str, Any] | None = None, network: Network | None = None
) -> tuple[Job, RunFolder]:
    """Open the job of an unfinished run with its own settings.

    Args:
        source: new place of the data, if they have moved; the frame or arrays, if they were not a file.
        given: settings that the user repeats. Those of `ELSEWHERE` may differ. Your own code must be named again: nothing that
            a run folder names is executed.
        network: your own network, for a run with one.

    Raises:
        InputError: the folder is not a run, the run is finished, or settings differ.
    """

    def look() -> str:
        if not (folder / "config.yaml").is_file():
            raise InputError(f"{folder} is not a run folder: it has no config.yaml. Give one that softmatch train has created.")
        if is_finished(folder):
            raise InputError(f"{folder} is finished; there is nothing to resume. Its report is {folder / 'report.html'}.")
        _refuse_links(folder)
        found, settings = read_settings(folder)
        return json.dumps([found, settings.model_dump(mode="json")])

    where, written = json.loads(main_says(look))  # the others may run on machines without the folder
    config, asked = make_config(written, where=str(folder / "config.yaml")), merge(given or {})
    moved = {key: absolute(asked.pop(key)) for key in MOVED if key in asked}
    if isinstance(source, str) and source != where and (where in SOURCES or source in SOURCES):
        raise InputError(f"{folder} was trained on {where}, not on {source}. Leave out the source.")
    if source is None and where in IN_MEMORY:
        raise InputError(f"{folder} was trained on {where}. Resume in Python, with softmatch.train(source, resume=…).")
    refuse_unnamed_code(config, asked, network, folder)
    other = make_config(config.model_dump(), asked)
    if (key := _same(config, other)) is not None:
        raise InputError(
            f"{key} is {getattr(config, key)!r} in {folder}, not {getattr(other, key)!r}, and a run is resumed with its own "
            "settings. Leave the option out, or start a new run."
        )
    with first_of_machine():
        job = open_again(where if source is None else source, make_config(other.model_dump(), moved))
    return replace(job, source=where), RunFolder(folder)


def resume_command(folder: Path, job: Job, track: Sequence[str] = ()) -> str:
    """Command that resumes a run, with its trackers."""
    config = job.config
    if job.source in IN_MEMORY:
        return f'softmatch.train(source, resume="{folder}") in Python, with the same source'
    if config.method == DISTIL:
        teacher = shlex.quote(str(config.method_options.get("teacher", "RUN")))
        return f"softmatch distil {teacher} --out {shlex.quote(str(folder))} and the same options"
    command = f"softmatch train --resume {shlex.quote(str(folder))}"
    if code_in([config.method, config.method_options]):
        command += f" --method {shlex.quote(config.method)}"
    command += f" --network {shlex.quote(config.network)}" if is_own(config.network) else ""
    command += f" --views {shlex.quote(config.views[OWN])}" if OWN in config.views else ""
    return command + (f" --track {shlex.join(track)}" if track else "")


def read_settings(folder: Path) -> tuple[str, Config]:
    """Source and settings of a run folder."""
    found = read_file(folder / "config.yaml")
    source = found.pop("source", None)
    if not isinstance(source, str):
        raise InputError(f"{folder / 'config.yaml'} does not name the data of the run: it needs a source.")
    return source, make_config(found, where=str(folder / "config.yaml"))


def _same(one: Config, other: Config) -> str | None:
    """Return the first setting that differs and changes the results; what `other` leaves open does not differ."""
    unasked = (*ELSEWHERE, "out", *(("minutes",) if other.minutes is not None else ()), *left_open(other))

    def differs(key: str) -> bool:
        pair = getattr(one, key), getattr(other, key)
        if key == "workers":  # worker processes change the views; their number does not
            return bool(pair[0]) != bool(pair[1])
        return key not in unasked and pair[0] != pair[1]

    return next((key for key in Config.model_fields if differs(key)), None)


def refuse_unnamed_code(config: Config, asked: Mapping[str, Any], network: Network | None, folder: Path) -> None:
    """Raise InputError for code of the user's own that the settings of a run folder name and the user does not."""
    named = code_in([asked.get("method"), asked.get("method_options")])
    own = [("method", code_in([config.method, config.method_options]) - named)]
    if network is None and is_own(config.network):
        own.append(("network", {config.network} - {asked.get("network")}))
    if OWN in config.views:
        own.append(("views", {config.views[OWN]} - {(asked.get("views") or {}).get(OWN)}))
    for key, unnamed in own:
        if unnamed:
            raise InputError(
                f"{folder} was trained with code of your own, {min(unnamed)}, which is run only if you name it: "
                f"add --{key} {config.views[OWN] if key == 'views' else getattr(config, key)}."
            )


def _refuse_links(folder: Path) -> None:
    """Raise InputError for a link in the folder: it could redirect writing to any file."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise InputError(f"{path} is a link, and a run with links is not resumed. Remove it, or replace it by a copy.")
