"""A list of run folders with their results and states, read from the folders alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        error: measured error as a fraction; None where there is none.
        baseline: error of the baseline.
        state: "finished", "running", or "stopped at step N of M".
        date: of the last change, in local time.
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
    places = [folder, *sorted(folder.iterdir())]
    found = [listed for path in places if (path / SETTINGS).is_file() for listed in _read(RunFolder(path))]
    return sorted(found, key=lambda run: run.date, reverse=True)


def _read(run: RunFolder) -> Iterator[Listed]:
    """The run in a list; nothing for a folder whose config.yaml is not that of a run."""
    try:
        settings = parse_yaml(read_text(run.path / SETTINGS), run.path / SETTINGS)
    except InputError:
        settings = None
    if not isinstance(settings, dict) or "source" not in settings:
        return
    result = _result(run)
    newest = max((path.stat().st_mtime for path in run.path.iterdir() if path.is_file()), default=0.0)
    yield Listed(
        run=run.path,
        source=_text(settings["source"]),
        method=_text(settings.get("method")),
        labels=_whole(result.get("labels")) or _whole(settings.get("labels")),
        error=_share(result.get("test_error")),
        baseline=_share(result.get("supervised_test_error")),
        state="finished" if result else _state(run, _whole(settings.get("steps"))),
        date=datetime.fromtimestamp(newest).astimezone(),
    )


def _result(run: RunFolder) -> Mapping[str, Any]:
    try:
        found = run.read_json("result.json") if run.report.is_file() else None
    except InputError:
        found = None
    return found if isinstance(found, dict) else {}


def _state(run: RunFolder, steps: int | None) -> str:
    """State of a run without a result."""
    if _is_locked(run.path / LOCK):
        return "running"
    saved = sorted(path.stem for path in run.checkpoints.glob("step-*.safetensors"))
    step = int(saved[-1].removeprefix("step-")) if saved and saved[-1].removeprefix("step-").isdecimal() else 0
    return f"stopped at step {step:,}" + (f" of {steps:,}" if steps else "")


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except (Timeout, OSError):
        return True


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _share(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
