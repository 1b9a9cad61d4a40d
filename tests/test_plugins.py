"""Objects of the user's own code: found, called with what they ask for, and mistakes named."""

import sys
from pathlib import Path

import pytest

from softmatch.plugins import call_own, find_own
from tests.refusals import refused


def test_from_a_file_and_from_a_module(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def double(x): return 2 * x\n")
    assert find_own(f"{file}:double")(4) == 8
    assert find_own("math:sqrt")(9) == 3


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (None, "double", "there is no file"),
        ("def double(x): return 2 * x", "duoble", "Did you mean 'double'"),
        ("raise KeyError('x')", "double", "cannot be run: KeyError"),
        ("def broken(:", "double", "cannot be run: SyntaxError"),
    ],
)
def test_mistakes_in_files(tmp_path: Path, content: str | None, name: str, message: str) -> None:
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_text(content)
    refused(message, find_own, f"{file}:{name}")
    refused("cannot be imported: ModuleNotFoundError", find_own, "no_such_module:x")


def test_a_function_is_given_what_it_has_parameters_for() -> None:
    def target(b: int, c: int = 5) -> tuple[int, int]:
        return b, c

    assert call_own(target, {"a": 1, "b": 2}, {}, "it") == (2, 5)
    assert call_own(target, {"a": 1, "b": 2}, {"b": 3, "c": 4}, "it") == (3, 4)
    refused("it has no option 'd'", call_own, target, {"b": 1}, {"d": 3}, "it")
    refused("it cannot be built", call_own, target, {}, {}, "it")


def test_factories_that_take_any_option_get_the_classes_and_what_they_raise_is_reported() -> None:
    assert call_own(lambda **options: options, {"num_classes": 3, "shape": 4}, {}, "it") == {"num_classes": 3}

    def broken(num_classes: int) -> None:
        raise KeyError("weights")

    refused("it cannot be built: KeyError: 'weights'", call_own, broken, {"num_classes": 3}, {}, "it")


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_mine.py").write_text("answer = 42\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert find_own("module_of_mine:answer") == 42
    assert sys.path == before
