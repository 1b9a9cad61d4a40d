"""Docstrings of the public names: complete, and their examples do what they show."""

import ast
import doctest
import inspect
import re
import textwrap
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import softmatch

NAMES = [name for name in softmatch.__all__ if name != "METHODS" and not inspect.ismodule(getattr(softmatch, name))]
MADE = {"LearningCurve", "Model", "PairBatch", "Result", "TrackedRun"}
"""Results, which the package makes and a user reads."""


def missing(name: str, value: Any) -> list[str]:
    """What the docstring of a public name lacks."""
    if isinstance(value, type) and issubclass(value, Exception):
        return [] if value.__doc__ else ["a docstring"]
    bases = [base for base in getattr(value, "__mro__", [value]) if "torch" not in base.__module__]
    text = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in bases)
    own = inspect.cleandoc(value.__doc__ or "")
    found = {f"argument {each}" for each in parameters(value) - described(text)}
    if not isinstance(value, type) and inspect.signature(value).return_annotation is not None and "\nReturns:\n" not in own:
        found.add("Returns")
    found |= {f"error {error}" for error in raised(value) - described(text)}
    if name not in MADE and "\nExample:\n    >>> " not in own:
        found.add("Example")
    return sorted(found)


def parameters(value: Any) -> set[str]:
    """Names of all parameters; those of a class are its fields or what __init__ takes."""
    init = value if not isinstance(value, type) or is_dataclass(value) else value.__init__
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD) if init is not value else ()
    return {name for name, found in inspect.signature(init).parameters.items() if name != "self" and found.kind not in kinds}


def described(text: str) -> set[str]:
    """Names in the sections Args, Attributes and Raises."""
    sections = re.findall(r"^(?:Args|Attributes|Raises):\n((?: {4}.*\n?|\n(?= {4}))+)", text, re.MULTILINE)
    rows = [row for section in sections for row in re.findall(r"^ {4}([\w, ]+):", section, re.MULTILINE)]
    return {name.strip() for row in rows for name in row.split(",")}


def raised(value: Any) -> set[str]:
    """Names of the errors that a function, or the making of an object, raises itself."""
    code = value if not isinstance(value, type) else vars(value).get("__post_init__" if is_dataclass(value) else "__init__")
    tree = ast.parse(textwrap.dedent(inspect.getsource(code))) if inspect.isfunction(code) else ast.Module([], [])
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)}


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_of_a_public_name_is_complete(name: str) -> None:
    assert missing(name, getattr(softmatch, name)) == []


def test_a_poor_docstring_would_be_found() -> None:
    def poor(source: str, number: int, **settings: int) -> int:
        """Count.

        Args:
            source: what is counted.
        """
        if number < 0:
            raise ValueError(source)
        return number

    assert missing("poor", poor) == ["Example", "Returns", "argument number", "argument settings", "error ValueError"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with digits.npz, of which forty have a label, and runs/mine, trained on them for two steps."""
    folder: Path = tmp_path_factory.mktemp("examples")
    images, labels = load_digits(return_X_y=True)
    labels[40:120] = -1
    np.savez(folder / "digits.npz", X=(images[:120] * 15).reshape(-1, 8, 8).astype(np.uint8), y=labels[:120])
    softmatch.train(folder / "digits.npz", steps=2, baseline=False, out=folder / "runs" / "mine")
    return folder


def examples() -> list[doctest.DocTest]:
    """The examples of all public names; what they may use without importing it is on the pages of the API reference."""
    known = {"torch": torch, "softmatch": softmatch, **{name: getattr(softmatch, name) for name in softmatch.__all__}}
    finder = doctest.DocTestFinder(recurse=False)
    return [test for name in NAMES for test in finder.find(getattr(softmatch, name), name, globs=known) if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_the_example_does_what_it_shows(
    example: doctest.DocTest, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    torch.manual_seed(0)
    failed = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed
    assert not failed, capsys.readouterr().out


def test_the_api_reference_has_every_public_name() -> None:
    pages = (Path(softmatch.__file__).parents[1] / "docs" / "api").glob("*.md")
    text = "\n".join(page.read_text("utf-8") for page in pages)
    assert [name for name in NAMES if f":: softmatch.{name}\n" not in text] == []
