"""The store: files of runs, what is finished, and the command that makes a run."""

from pathlib import Path

import pytest

from softmatch.config import read_file
from softmatch.errors import InputError
from softmatch.experiments.sheet import Run
from softmatch.experiments.store import Store
from tests.experiments.finished import finish

RUN = Run("digits", {"method": "softmatch", "method_options": {"k": 3}, "labels": 40, "seed": 2, "baseline": False})


def test_the_settings_file_is_what_train_reads(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.prepare(RUN)
    written = store.settings_file(RUN)
    assert read_file(written) == {"source": "digits", **RUN.settings}
    before = written.stat().st_mtime_ns
    store.prepare(RUN)
    assert written.stat().st_mtime_ns == before


def test_the_command_makes_the_run_or_goes_on_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    wanted = ["train", "-c", str(tmp_path / "runs" / f"{RUN.name}.yaml"), "--out", str(tmp_path / "runs" / RUN.name)]
    assert store.arguments(RUN, ["--threads", "1"]) == [*wanted, "--resume", "auto", "--threads", "1"]


def test_a_run_is_finished_with_its_figures_and_its_report(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert not store.is_finished(RUN)
    assert store.result(RUN) is None
    finish(store, RUN, 0.25)
    assert store.is_finished(RUN)
    assert (store.result(RUN) or {})["test_error"] == 0.25
    (store.folder(RUN) / "report.html").unlink()
    assert store.result(RUN) is None


def test_a_damaged_result_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (finish(store, RUN, 0.25) / "result.json").write_text("[1]")
    with pytest.raises(InputError, match=r"result.json must hold a JSON object. Its result is lost: remove .*, and the same"):
        store.result(RUN)
