"""The public names: complete, importable, documented, and lazy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import softmatch


def test_every_public_name_can_be_imported_and_is_documented() -> None:
    for name in softmatch.__all__:
        value = getattr(softmatch, name)
        if name != "METHODS":
            assert value.__doc__, name
    assert set(softmatch.__all__) <= set(dir(softmatch))


def test_all_lists_what_type_checkers_see() -> None:
    tree = ast.parse(Path(softmatch.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(softmatch.__all__)


def test_every_weighting_and_alignment_is_public() -> None:
    from softmatch import alignments, thresholds, weightings

    for module, base in (
        (weightings, weightings.Weighting),
        (thresholds, weightings.Weighting),
        (alignments, softmatch.Alignment),
    ):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, base) and not name.startswith("_"):
                assert name in softmatch.__all__, name


def test_help_does_not_import_torch_or_sklearn() -> None:
    code = (
        "import sys; from softmatch.cli.app import main; main(['train', '--help']); "
        "print(sorted(m for m in ('torch', 'sklearn', 'transformers', 'numpy') if m in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip().endswith("[]")


def test_unknown_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="softmax"):
        getattr(softmatch, "softmax")  # noqa: B009 - what `softmatch.softmax` does
