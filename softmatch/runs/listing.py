"""A list of run folders with their results and states, read from the folders alone."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from softmatch.errors import InputError
from softmatch.files.untrusted import parse_yaml, read_text
from softmatch.runs.folder import LOCK, RunFolder

SETTINGS = "config.yaml"


@dataclass(frozen=True)
class Listed:
    """A run folder in a list.

    Attributes:
        source, method, labels: what was trained; None where the folder does not say.
        state: "finished", "running", or "stopped at step N of M".
    """

    run: Path
    source: str | None
    method: str | None
    labels: int | None
    error: float | None
    baseline: float | None
    state: str
    date: datetime


def list_runs(folder: Path) -> list[Listed]:
    """The runs in a folder, or the folder itself if it is a run; the newest first."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}. Give a folder of runs, or start one with softmatch train.")
    found = [_read(RunFolder(path)) for path in [folder, *sorted(folder.iterdir())] if (path / SETTINGS).is_file()]
    return sorted((run for run in found if run is not None), key=lambda run: run.date, reverse=True)


def _read(run: RunFolder) -> Listed | None:
    """The run in a list; None for a folder whose config.yaml is not that of a run."""
    settings = result = None
    with suppress(InputError):  # of either file
        settings = parse_yaml(read_text(run.path / SETTINGS), run.path / SETTINGS)
        result = run.read_json("result.json") if run.report.is_file() else None
    if not isinstance(settings, dict) or "source" not in settings:
        return None
    result = result if isinstance(result, dict) else {}
    newest = max((path.stat().st_mtime for path in run.path.iterdir() if path.is_file()), default=0.0)
    return Listed(
        run=run.path,
        source=_typed(settings["source"], str),
        method=_typed(settings.get("method"), str),
        labels=_typed(result.get("labels"), int) or _typed(settings.get("labels"), int),
        error=_typed(result.get("test_error"), int, float),
        baseline=_typed(result.get("supervised_test_error"), int, float),
        state="finished" if result else _state(run, _typed(settings.get("steps"), int)),
        date=datetime.fromtimestamp(newest).astimezone(),
    )


def _state(run: RunFolder, steps: int | None) -> str:
    """State of a run without a result."""
    try:
        if (run.path / LOCK).exists():
            with FileLock(run.path / LOCK, timeout=0):
                pass
    except (Timeout, OSError):
        return "running"
    saved = sorted(path.stem for path in run.checkpoints.glob("step-*.safetensors"))
    step = int(saved[-1].removeprefix("step-")) if saved and saved[-1].removeprefix("step-").isdecimal() else 0
    return f"stopped at step {step:,}" + (f" of {steps:,}" if steps else "")


def _typed(value: Any, *kinds: type) -> Any:
    """The value if it has one of the types, else None; true and false are not numbers."""
    return value if isinstance(value, kinds) and not isinstance(value, bool) else None
