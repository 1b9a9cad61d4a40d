"""The work of `softmatch train` and `softmatch check`: open the data, find a run to resume, train, print. Imports torch."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from softmatch.cli.display import Display, make_console, progress_of, say
from softmatch.cli.options import TalkOrJson
from softmatch.cli.summaries import check_facts, print_check, print_estimate, print_plan, print_result, print_settings
from softmatch.config import read_file
from softmatch.distributed.processes import first_of_machine, from_environment, joined, main_says, world
from softmatch.errors import InputError
from softmatch.formatting import as_json
from softmatch.runs.folder import RunFolder, is_finished
from softmatch.training.arithmetic import keep_freed_memory
from softmatch.training.bench import plan
from softmatch.training.checkpoint import list_checkpoints
from softmatch.training.job import open_listeners, run_job
from softmatch.training.opening import Job, open_job
from softmatch.training.resume import decide, reopen
from softmatch.training.setup import restored_state
from softmatch.training.task import Task
from softmatch.training.tracking import Listener

AUTO = "auto"
FEW_STEPS, SECONDS = 2, 5.0
"""Steps that are timed before an encoder is trained, and the number of seconds after which timing stops early."""


class _Verbose(Display):
    """A display that prints all settings first."""

    def understood(self, task: Task, run: RunFolder) -> None:
        super().understood(task, run)
        print_settings(task, self.console)
        self.console.print()


def open_source(source: str | None, given: Mapping[str, Any], file: Path | None, talk: TalkOrJson, resuming: bool = False) -> Job:
    """Read the source that the command line or the file names; the command line overrides the file's settings."""
    layer = read_file(file) if file is not None else {}
    written = layer.pop("source", None)
    name = source if source is not None else written if written is not None else "digits"
    keep_freed_memory()
    with first_of_machine(), progress_of(talk) if world().is_main else nullcontext() as progress:
        return open_job(name, layer, given, where=str(file or "settings"), progress=progress, resuming=resuming)


def run_check(source: str, given: Mapping[str, Any], file: Path | None, talk: TalkOrJson) -> None:
    """See `softmatch.cli.train.check`."""
    _show_plan(open_source(source, given, file, talk), talk, dry_run=False)


def _show_plan(job: Job, talk: TalkOrJson, dry_run: bool) -> None:
    with restored_state():
        planned = plan(job)
        if talk.as_json:
            print(as_json(check_facts(planned, job.findings)))
        elif dry_run:
            print_plan(planned, make_console(talk))
        else:
            print_check(planned, job.findings, make_console(talk), talk.verbose)


def run_train(
    source: str | None,
    given: Mapping[str, Any],
    file: Path | None,
    dry_run: bool,
    resume: str | None,
    talk: TalkOrJson,
    track: Sequence[str] = (),
    group: str | None = None,
) -> None:
    """See `softmatch.cli.train.train`."""
    if resume is None and from_environment("TORCHELASTIC_RESTART_COUNT", 0):
        resume = AUTO  # torchrun has started this command again after a failure
    with joined():
        if dry_run and (world().size > 1 or resume is not None):
            raise InputError("--dry-run measures a new run in one process: leave out --resume and torchrun.")
        if dry_run:
            _show_plan(open_source(source, given, file, talk), talk, dry_run=True)
            return
        listeners = open_listeners(track)
        if resume is not None and resume != AUTO:
            found = _reopen(Path(resume) if resume else None, source, given, file, talk)
        else:
            job = open_source(source, given, file, talk, resuming=True)
            run, finished = decide(job, resume == AUTO, lambda run: _wants_to_resume(run, talk))
            found = None if finished else (job, run)
            if finished:
                _say_finished(job.config.out or Path(), talk)
        if found is not None:
            _train(*found, talk, listeners, group)


def _reopen(
    folder: Path | None, source: str | None, given: Mapping[str, Any], file: Path | None, talk: TalkOrJson
) -> tuple[Job, RunFolder | None] | None:
    """The job and folder of a run to resume; None if it is finished."""
    if file is not None or folder is None:
        raise InputError("--resume takes a run folder, or auto. A run resumes with its own settings: leave out --config.")
    if given.get("out") not in (None, folder):
        raise InputError(f"--resume {folder} continues in that folder: leave out --out. To keep it as it is, copy it first.")
    if main_says(lambda: str(is_finished(folder))) == "True":
        _say_finished(folder, talk)
        return None
    keep_freed_memory()
    return reopen(folder, source, given)


def train_first(source: str, given: Mapping[str, Any], talk: TalkOrJson) -> Path:
    """Train a source, or resume its unfinished run, and return the run folder. A finished one in --out is not trained again."""
    if world().size > 1:
        raise InputError("a curve is trained in one process: leave out torchrun.")
    job = open_source(source, given, None, talk, resuming=True)
    run, finished = decide(job, True, lambda run: True)
    quiet = replace(talk, as_json=False, quiet=talk.quiet or talk.as_json)  # standard output is for the curve
    return job.config.out if finished and job.config.out is not None else _train(job, run, quiet)


def _train(
    job: Job, run: RunFolder | None, talk: TalkOrJson, listeners: Mapping[str, Listener] | None = None, group: str | None = None
) -> Path:
    if not world().is_main:
        return run_job(job, run=run).run
    console = make_console(talk)
    if job.config.tune != "head" and run is None and world().size == 1 and not talk.quiet:
        with restored_state():
            print_estimate(plan(job, FEW_STEPS, SECONDS), console)
    with (_Verbose if talk.verbose else Display)(console) as display:
        result = run_job(job, display, run=run, listeners=listeners, group=group)
    print_result(result, job.source, said=[finding.text for finding in job.findings], console=console)
    if talk.as_json:
        print(as_json(asdict(result)))
    return result.run


def _say_finished(folder: Path, talk: TalkOrJson) -> None:
    if world().is_main:
        say(make_console(talk), f"{folder} is finished. Its report is {folder / 'report.html'}.")
        if talk.as_json:
            print(as_json({"run": folder, **RunFolder(folder).read_json("result.json")}))


def _wants_to_resume(run: RunFolder, talk: TalkOrJson) -> bool:
    """Ask on a terminal; elsewhere print how to resume."""
    saved = list_checkpoints(run.path / "checkpoints")
    state = f", saved up to step {int(saved[-1].stem.removeprefix('step-')):,}" if saved else ""
    text = f"{run.path} is an unfinished run of this command{state}."
    if talk.as_json or talk.quiet or not (sys.stdin.isatty() and sys.stdout.isatty()):
        say(make_console(talk), f"{text} Resume it with --resume {run.path}, or --resume auto.", style="yellow")
        return False
    try:
        return input(f"{text} Resume it? [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False
