"""The house: layers that hold, no cycles, names that occur once, and light modules that stay light."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import house

SIBLINGS: set[str] = set()
"""Names that several folders share by design, one for each modality or figure."""


@pytest.fixture(scope="module")
def arrows() -> list[house.Import]:
    return house.imports(house.modules())


def test_no_cycles_with_imports_inside_functions_counted(arrows: list[house.Import]) -> None:
    assert house.cycles(arrows) == []


def test_a_cycle_would_be_found(tmp_path: Path) -> None:
    package = tmp_path / "softmatch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from softmatch.b import x\n")
    (package / "b.py").write_text("def f():\n    from softmatch import c\n    return c\nx = 1\n")
    (package / "c.py").write_text("import softmatch.a\n")
    arrows = house.imports(house.modules(tmp_path))
    assert house.cycles(arrows) == [["softmatch.a", "softmatch.b", "softmatch.c"]]
    assert [(arrow.by, arrow.of) for arrow in arrows if arrow.inside] == [("softmatch.b", "softmatch.c")]


def test_our_modules_are_imported_at_the_top_outside_the_command_line(arrows: list[house.Import]) -> None:
    places = {(arrow.by, arrow.of) for arrow in house.outside_cli([arrow for arrow in arrows if arrow.inside])}
    assert places <= HEAVY, sorted(places - HEAVY)


HEAVY = {
    ("softmatch.augmenting.versions", "softmatch.augmenting.translation"),  # transformers
    ("softmatch.experiments.reproduction", "softmatch.experiments.figures"),  # matplotlib
    ("softmatch.networks", "softmatch.networks.pretrained"),  # transformers
}
"""Imports inside functions that keep a heavy library out of start-up; the module says so where it stands."""


def test_no_two_modules_share_a_name() -> None:
    assert set(house.repeated_names(house.modules())) <= SIBLINGS


@pytest.mark.parametrize(
    "modules",
    [
        "errors files files.atomic files.locks files.untrusted",
        "plugins",
        "runs.folder runs.listing runs.verdict",
        "experiments.sweep",
        "cli.app",
    ],
)
def test_light_modules_load_no_torch(modules: str) -> None:
    imported = ", ".join(f"softmatch.{module}" for module in modules.split())
    code = f"import {imported}, sys; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_house_stays_small() -> None:
    """The sizes that CONTRIBUTING names. Raise them with a reason."""
    assert house.lines("softmatch") <= 42_400
    assert len(house.modules()) <= 244
    assert house.lines("tests") <= 40_200
