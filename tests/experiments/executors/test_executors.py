"""Which executor options choose, and what is said of misplaced options and of the ends of jobs."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from softmatch.errors import InputError
from softmatch.experiments.executors import Ended, Where, open_executor


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(1), "ended with code 1"),
        (Ended(-9), "was ended by signal 9 (killed)"),
        (Ended(1, "its worker was lost"), "its worker was lost"),
    ],
    ids=["code", "signal", "message"],
)
def test_ends_in_words(ended: Ended, words: str) -> None:
    assert ended.describe() == words


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (Where(address="10.0.0.1:6379"), "--address only works with --on ray"),
        (Where(on="slurm", gpus_per_run=1.0), "--gpus-per-run only works with --on ray"),
        (Where(on="ray", slurm={"time": "5"}), "--slurm only works with --on slurm"),
    ],
    ids=["address", "gpus", "slurm"],
)
def test_misplaced_options(where: Where, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        open_executor(where, tmp_path)


def test_wrong_values() -> None:
    with pytest.raises(ValidationError):
        Where(processes=0)


@pytest.mark.parametrize(("on", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_library_that_is_not_installed_is_named(on: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    opened = open_executor(Where(on=on), tmp_path)  # type: ignore[arg-type]  # one of the names
    with pytest.raises(InputError, match=rf"pip install 'softmatch\[{on}\]'"), opened:
        pass


def test_a_sweep_and_its_executors_are_imported_without_torch() -> None:
    names = ["sweep", "executors.here", "executors.on_ray", "executors.on_slurm"]
    imports = "; ".join(f"import softmatch.experiments.{name}" for name in names)
    code = f"import sys; {imports}; print([name for name in ('torch', 'ray', 'submitit') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
