from pathlib import Path

import pytest

import softmatch
from softmatch.errors import InputError
from softmatch.experiments.figures import FIGURES, draw
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, ROWS, cells_of, finish, make_sheet


def test_a_real_run_gives_every_figure_of_one_sheet(tmp_path: Path) -> None:
    column = Column("4", "two-moons", {"steps": 4, "evaluate_every": 2}, "Two moons")
    sheet, store = make_sheet(rows=(Row("SoftMatch", {"method": "softmatch"}),), columns=(column,), seeds=(0, 1)), Store(tmp_path)
    softmatch.train("two-moons", steps=4, evaluate_every=2, baseline=False, out=store.folder(sheet.runs()[0]))
    for figure in FIGURES.values():
        made = figure(cells_of(sheet, store, column), "A try")
        assert made is not None
        assert made.axes
    png, pdf = draw("fig-qualitative", [sheet], store, tmp_path / "out")
    assert (png.name, pdf.name) == ("fig-qualitative.png", "fig-qualitative.pdf")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")


def test_of_several_columns_each_that_has_runs_is_drawn(tmp_path: Path) -> None:
    empty, full = Column("γ = 10", "digits", {}, "Digits"), Column("4,000", "two-moons", {}, "Two moons")
    sheet, store = make_sheet(rows=ROWS[2:], columns=(empty, full), seeds=(0,)), Store(tmp_path)
    finish(store, sheet.run(ROWS[2], full, 0))
    written = draw("fig-ua", [sheet], store, tmp_path / "out")
    assert [path.name for path in written] == ["fig-ua-two-moons-4-000.png", "fig-ua-two-moons-4-000.pdf"]


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_finished_says_what_to_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"no finished run in .*runs has what it shows. Run: softmatch reproduce {name}"):
        draw(name, [make_sheet(columns=(MOONS,))], Store(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
