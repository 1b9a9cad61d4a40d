"""Every notebook runs from empty outputs, and the documentation shows the cells that it has."""

from pathlib import Path

import pytest

from tools import notebooks

NAMES = {"compare", "digits", "own_weighting", "photos", "tickets"}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_notebooks_are_kept_without_outputs_and_shown_with_them() -> None:
    found = notebooks.sources()
    assert set(found) == NAMES
    for name, notebook in found.items():
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert all(not cell.outputs and cell.execution_count is None for cell in code), name
    assert notebooks.stale() == []
    for name in NAMES:
        shown = (notebooks.SHOWN / f"{name}.md").read_text(encoding="utf-8")
        assert notebooks.OUTPUT in shown
        assert f"({name}-1.png)" in shown
    assert all(path.stat().st_size < 100_000 for path in notebooks.SHOWN.iterdir())


def test_a_changed_cell_or_a_page_too_many_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in notebooks.SHOWN.glob("*.md"):
        (tmp_path / path.name).write_text(
            path.read_text(encoding="utf-8").replace("import softmatch", "import other", 1), encoding="utf-8"
        )
    (tmp_path / "more.md").touch()
    monkeypatch.setattr(notebooks, "SHOWN", tmp_path)
    assert set(notebooks.stale()) == {*NAMES, "more"}
    assert notebooks.main(["--check"]) == 1


def test_every_notebook_runs_in_a_kernel(tmp_path: Path) -> None:
    found = notebooks.sources()
    notebooks.execute(list(found.values()), tmp_path, steps=4)
    for name, notebook in found.items():
        pictures: dict[str, bytes] = {}
        text = notebooks.page(name, notebook, pictures)
        assert pictures, name
        assert notebooks.without_outputs(text) == notebooks.page(name, notebooks.sources()[name])
        assert all(content.startswith(b"\x89PNG") for content in pictures.values())
