"""What a release is made of: files that repeat pyproject.toml agree with it, and other systems are met with a message."""

import logging
import os
import re
import signal
import subprocess
import sys
import tomllib
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import softmatch
from softmatch.cli import app
from softmatch.distributed import launching
from softmatch.labeling import trainings
from softmatch.training import setup
from softmatch.training.stop import NO_SIGNALS, Stop

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REQUIRED = [Requirement(line) for line in PROJECT["dependencies"]]


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    found = {softmatch.__version__, str(load("CITATION.cff")["version"]), load("conda/meta.yaml")["package"]["version"]}
    assert found == {PROJECT["version"]}


def test_the_conda_recipe_has_the_requirements() -> None:
    recipe = load("conda/meta.yaml")
    found = {name: SpecifierSet(bounds) for name, bounds in (line.split() for line in recipe["requirements"]["run"])}
    assert found.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert found == {{"torch": "pytorch"}.get(each.name, each.name): each.specifier for each in REQUIRED}
    [(name, place)] = PROJECT["scripts"].items()
    assert recipe["build"]["entry_points"] == [f"{name} = {place}"]


def test_the_lock_file_has_every_requirement_in_a_version_that_is_allowed() -> None:
    lines = (ROOT / "requirements/tests.txt").read_text("utf-8").splitlines()
    locked = {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines if line[0] != "#")}
    wanted = [*REQUIRED, *(Requirement(line) for line in PROJECT["optional-dependencies"]["dev"])]
    for each in wanted:
        if each.name != "softmatch":
            assert locked[each.name.lower()] in each.specifier, each


def test_the_workflow_tests_every_python_of_the_classifiers() -> None:
    matrix = load(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert matrix["python"] == named
    assert [each.partition("-")[0] for each in matrix["system"]] == ["ubuntu", "macos", "windows"]


def test_the_workflows_name_programs_that_exist_and_no_host() -> None:
    for path in (ROOT / ".github/workflows").iterdir():
        text = path.read_text("utf-8")
        assert "://" not in text
        for name in re.findall(r"run: (?:\S+ )?((?:tools/|\.ci/)\S+)", text):
            assert os.access(ROOT / name, os.X_OK), name


def test_the_image_is_made_of_files_that_are_not_ignored() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert sorted(names) == sorted(kept)
    assert all((ROOT / name).exists() for name in names)


def test_a_newer_torch_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    torch = next(each for each in REQUIRED if each.name == "torch")
    newest, next_one = (".".join(map(str, (setup.TESTED[0], setup.TESTED[1] + more))) for more in (0, 1))
    assert newest in torch.specifier
    assert next_one not in torch.specifier
    setup.warn_of_untested.cache_clear()
    for version in (f"{newest}.1+cpu", f"{next_one}.0", f"{next_one}.0"):
        setup.warn_of_untested(version)
    [record] = caplog.records
    assert record.getMessage() == f"torch {next_one}.0 is newer than {newest}, the last version that softmatch was tested with."


WARN = "import logging, softmatch; logging.getLogger('softmatch.training').warning('something')"


def test_the_library_is_silent_unless_logging_is_set_up() -> None:
    for before, printed in (("", ""), ("import logging; logging.basicConfig(); ", "WARNING:softmatch.training:something\n")):
        done = subprocess.run([sys.executable, "-c", before + WARN], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("", printed)


def test_the_command_line_prints_warnings_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    with app._shown_log():
        logging.getLogger("softmatch.training").warning("something")
        logging.getLogger("softmatch.training").info("nothing")
    logging.getLogger("softmatch.training").warning("too late")
    assert capsys.readouterr().err == "something\n"


def test_output_that_cannot_encode_symbols_is_utf8() -> None:
    narrow = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "softmatch", "methods", "softmatch"]
    done = subprocess.run(command, capture_output=True, env=narrow, check=True)
    assert "λ_max" in done.stdout.decode("utf-8")


def test_a_system_without_signals_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("SIGHUP", "SIGUSR1"):
        monkeypatch.delattr(signal, name)
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
    assert stop.signal == "SIGINT"
    assert [record.getMessage() for record in caplog.records] == [NO_SIGNALS]


def test_the_labelling_page_starts_without_sigkill(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trainings.ENDED == [-signal.SIGTERM, -signal.SIGKILL]
    monkeypatch.delattr(signal, "SIGKILL")
    spec = find_spec(trainings.__name__)
    assert spec is not None
    assert spec.loader is not None
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    assert copy.ENDED == [-signal.SIGTERM]


def test_ctrl_c_is_not_sent_again_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Child:
        def __init__(self) -> None:
            self.heard: list[int] = []

        def send_signal(self, number: int) -> None:
            self.heard.append(number)

    group, child = launching._Group(), Child()
    group._children = [child]  # type: ignore[list-item]  # hears what it is sent
    monkeypatch.setattr(launching, "WINDOWS", True)
    group._send(signal.SIGINT)
    group._send(signal.SIGTERM)
    assert child.heard == [signal.SIGTERM]
