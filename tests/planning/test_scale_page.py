"""docs/scale.md says what the planning functions say."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("plan_tables")


@pytest.fixture(scope="module")
def lines() -> set[str]:
    return set((ROOT / "docs" / "scale.md").read_text(encoding="utf-8").splitlines())


def test_one_run_on_every_gpu(tables: Any, lines: set[str]) -> None:
    assert tables.run_row("cifar10", "CIFAR-10") in lines


@pytest.mark.parametrize("name", ["a run, hours", "… the supervised baseline", "memory of a GPU"])
def test_from_1_gpu_to_64(name: str, tables: Any, lines: set[str]) -> None:
    assert tables.scaling_row(name) in lines


def test_what_methods_remember(tables: Any, lines: set[str]) -> None:
    assert set(tables.state()) <= lines
