"""Unfinished runs: which of them is that of a command, and how it is opened again to go on."""

from __future__ import annotations

import glob
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from softmatch.config import Config, make_config, merge, read_file
from softmatch.data.sources import SOURCES
from softmatch.distributed.processes import first_of_machine, main_says
from softmatch.errors import InputError
from softmatch.methods import code_in
from softmatch.networks import Network, is_own
from softmatch.runs.folder import RunFolder, is_finished, refuse_used
from softmatch.training.opening import Job, open_again

RUNS = Path("runs")
"""Where runs are made that have no --out."""
ELSEWHERE = ("device", "threads", "checkpoint_every", "data")
"""Settings that may be others when a run goes on: they say how and where it is computed, not what."""
IN_MEMORY = ("arrays", "frame")
"""Sources that no path leads to."""


def decide(job: Job, auto: bool, wants_to_go_on: Callable[[RunFolder], bool]) -> tuple[RunFolder | None, bool]:
    """The run to go on with, or None for a new one; and whether there is nothing to do, since --out is finished.

    Args:
        auto: go on without asking.

    Raises:
        InputError: where --out holds something else.
    """

    def look() -> str:
        out, found = job.config.out, _find(job)
        if out is not None and auto and is_finished(out) and is_run_of(out, job):
            return json.dumps([None, True])
        if found is not None:
            _refuse_links(found)
            if not auto and not wants_to_go_on(RunFolder(found)):
                found = None
        if found is None and out is not None:
            _explain_other(out, job)
            refuse_used(out)
        return json.dumps([None if found is None else str(found), False])

    found, finished = json.loads(main_says(look))  # one process looks: a folder that it makes would confuse the others
    return None if found is None else RunFolder(Path(found)), finished


def _explain_other(out: Path, job: Job) -> None:
    """Say why an unfinished run is not that of this command."""
    if not (out / "config.yaml").is_file() or is_finished(out):
        return
    source, config = _settings(out)
    if source != job.source:
        raise InputError(f"{out} is an unfinished run on {source}, not on {job.source}: choose another --out.")
    if (key := _same(config, job.config)) is not None:
        raise InputError(
            f"{out} is an unfinished run with other settings: {key} is {getattr(config, key)!r} there, not "
            f"{getattr(job.config, key)!r}. Choose another --out, or go on with it by --resume {out}."
        )


def _find(job: Job) -> Path | None:
    """The newest unfinished run of this source and these settings: in its --out, or under runs/ where there is none."""
    if job.config.out is not None:
        found = [job.config.out]
    else:
        known = [path for path in RUNS.glob(f"{glob.escape(job.name)}-*/config.yaml") if path.is_file()]
        found = [path.parent for path in sorted(known, key=lambda path: path.stat().st_mtime, reverse=True)]
    return next((folder for folder in found if not is_finished(folder) and is_run_of(folder, job)), None)


def is_run_of(folder: Path, job: Job) -> bool:
    """Whether that folder has a run of this source and these settings."""
    if not (folder / "config.yaml").is_file():
        return False
    try:
        source, config = _settings(folder)
    except InputError:
        return False
    return source == job.source and _same(config, job.config) is None


def reopen(
    folder: Path, source: Any = None, given: Mapping[str, Any] | None = None, network: Network | None = None
) -> tuple[Job, RunFolder]:
    """The job of an unfinished run, by its own settings.

    Args:
        source: where the data are now, if they have moved; the frame or arrays, if they were no file.
        given: settings that the user repeats. Those of `ELSEWHERE` may differ. Code of one's own has to be named again:
            nothing in a run folder is executed.
        network: of your own, for a run with one.

    Raises:
        InputError: for what is no run, a run that is finished, and other settings.
    """

    def look() -> str:
        if not (folder / "config.yaml").is_file():
            raise InputError(f"{folder} is not a run folder: it has no config.yaml. Give a folder that softmatch train has made.")
        if is_finished(folder):
            raise InputError(f"{folder} is finished: there is nothing to go on with. Its report is {folder / 'report.html'}.")
        _refuse_links(folder)
        found, settings = _settings(folder)
        return json.dumps([found, settings.model_dump(mode="json")])

    where, written = json.loads(main_says(look))  # the others may be on machines that do not have the folder
    config, asked = make_config(written, where=str(folder / "config.yaml")), merge(given or {})
    if isinstance(source, str) and source != where and (where in SOURCES or source in SOURCES):
        raise InputError(f"{folder} was trained on {where}, not on {source}: leave out the source.")
    if source is None and where in IN_MEMORY:
        raise InputError(f"{folder} was trained on {where}: go on in Python, with softmatch.train(source, resume=…).")
    _refuse_unnamed_code(config, asked, network, folder)
    other = make_config(config.model_dump(), asked)
    if (key := _same(config, other)) is not None:
        raise InputError(
            f"{key} is {getattr(config, key)!r} in {folder}, not {getattr(other, key)!r}: a run goes on with the settings "
            "that it was begun with. Leave the option out, or begin a new run."
        )
    with first_of_machine():
        job = open_again(where if source is None else source, other)
    return replace(job, source=where), RunFolder(folder)


def resume_command(folder: Path, job: Job) -> str:
    """What to type to go on with a run."""
    config = job.config
    if job.source in IN_MEMORY:
        return f'softmatch.train(source, resume="{folder}") in Python, with the same source'
    command = f"softmatch train --resume {shlex.quote(str(folder))}"
    if code_in([config.method, config.method_options]):
        command += f" --method {shlex.quote(config.method)}"
    return command + (f" --network {shlex.quote(config.network)}" if is_own(config.network) else "")


def _settings(folder: Path) -> tuple[str, Config]:
    """Source and settings of a run folder."""
    found = read_file(folder / "config.yaml")
    source = found.pop("source", None)
    if not isinstance(source, str):
        raise InputError(f"{folder / 'config.yaml'} does not say what the run was trained on: it needs a source.")
    return source, make_config(found, where=str(folder / "config.yaml"))


def _same(one: Config, other: Config) -> str | None:
    """The first setting that differs and decides about the outcome."""

    def differs(key: str) -> bool:
        pair = getattr(one, key), getattr(other, key)
        if key == "workers":  # whether processes make the views decides about them; how many does not
            return bool(pair[0]) != bool(pair[1])
        return key not in (*ELSEWHERE, "out") and pair[0] != pair[1]

    return next((key for key in Config.model_fields if differs(key)), None)


def _refuse_unnamed_code(config: Config, asked: Mapping[str, Any], network: Network | None, folder: Path) -> None:
    named = code_in([asked.get("method"), asked.get("method_options")])
    own = [("method", code_in([config.method, config.method_options]) - named)]
    if network is None and is_own(config.network):
        own.append(("network", {config.network} - {asked.get("network")}))
    for key, unnamed in own:
        if unnamed:
            raise InputError(
                f"{folder} was trained with code of your own, {min(unnamed)}, which is run only if you name it: "
                f"add --{key} {getattr(config, key)}."
            )


def _refuse_links(folder: Path) -> None:
    """A link in the folder would let whoever made it choose what is written to."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise InputError(
                f"{path} is a link: runs do not go on in folders with links in them. Remove it, or copy what it shows."
            )
