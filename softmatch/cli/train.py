"""What `softmatch train` does: open the source, find out whether a run goes on, train, print."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from softmatch.cli.display import Display, Reading, print_plan, print_result, say
from softmatch.config import Config, read_file
from softmatch.distributed.processes import first_of_machine, from_environment, joined, main_says, world
from softmatch.errors import InputError
from softmatch.runs.folder import RunFolder, is_finished
from softmatch.training.bench import plan
from softmatch.training.checkpoint import list_checkpoints
from softmatch.training.job import run_job
from softmatch.training.memory import keep_freed_memory
from softmatch.training.opening import Job, open_job
from softmatch.training.resume import decide, reopen

AUTO = "auto"


def open_source(source: str | None, config: Config | None, file: Path | None, resuming: bool = False) -> Job:
    """The source of the command line or the file, read; the file's settings under those of the command line."""
    layer = read_file(file) if file is not None else {}
    written = layer.pop("source", None)
    name = source if source is not None else written if written is not None else "digits"
    keep_freed_memory()
    with first_of_machine(), Reading() if world().is_main else nullcontext() as progress:
        return open_job(name, layer, _given(config), where=str(file or "settings"), progress=progress, resuming=resuming)


def _given(config: Config | None) -> dict[str, object]:
    """Settings that stand on the command line."""
    return {} if config is None else {key: getattr(config, key) for key in config.model_fields_set}


def train_command(source: str | None, config: Config | None, file: Path | None, dry_run: bool, resume: str | None) -> None:
    """See `softmatch.cli.train`."""
    if resume is None and from_environment("TORCHELASTIC_RESTART_COUNT", 0):
        resume = AUTO  # torchrun has started this command again after a failure
    with joined():
        if dry_run and (world().size > 1 or resume is not None):
            raise InputError("--dry-run measures a new run in one process: leave out --resume and torchrun.")
        _train(source, config, file, dry_run, resume)


def _train(source: str | None, config: Config | None, file: Path | None, dry_run: bool, resume: str | None) -> None:
    run: RunFolder | None
    if resume is not None and resume != AUTO:
        folder = Path(resume)
        if file is not None or not resume:
            raise InputError("--resume takes a run folder, or auto; a run goes on with its own settings: leave out --config.")
        if config is not None and config.out is not None and config.out != folder:
            raise InputError(f"--resume {folder} goes on in that folder: leave out --out. To keep it as it is, copy it first.")
        if main_says(lambda: str(is_finished(folder))) == "True":
            _say_finished(folder)
            return
        keep_freed_memory()
        job, run = reopen(folder, source, _given(config))
    else:
        job = open_source(source, config, file, resuming=True)
        if dry_run:
            print_plan(plan(job))
            return
        run, finished = decide(job, resume == AUTO, _wants_to_go_on)
        if finished:
            _say_finished(job.config.out or Path())
            return
    if not world().is_main:
        run_job(job, run=run)
        return
    with Display() as display:
        result = run_job(job, display, run=run)
    print_result(result, said=[finding.text for finding in job.findings])


def _say_finished(folder: Path) -> None:
    if world().is_main:
        print(f"{folder} is finished: its report is {folder / 'report.html'}.")


def _wants_to_go_on(run: RunFolder) -> bool:
    """Ask, on a terminal; elsewhere say how it could be done."""
    saved = list_checkpoints(run.path / "checkpoints")
    state = f", saved up to step {int(saved[-1].stem.removeprefix('step-')):,}" if saved else ""
    text = f"{run.path} is an unfinished run of this very command{state}."
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say(Display().console, f"{text} To go on with it: --resume {run.path}, or --resume auto.", style="yellow")
        return False
    try:
        return input(f"{text} Go on with it? [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False
