"""The look of figures, lines over training, and every figure as files."""

import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

import softmatch
from softmatch.errors import InputError
from softmatch.experiments.figures import FIGURES, draw, style
from softmatch.experiments.results.collect import collect
from softmatch.experiments.sheet import Column, Row
from softmatch.experiments.store import Store
from tests.experiments.figures.stored import MOONS, ROWS, cells_of, finish, make_sheet, record_of


def _figure(title: str = "A title") -> object:
    with style.styled():
        figure = style.new_figure(2.0, title)
        figure.subplots().plot([0, 1], [0.0, 1.0])
        return figure


def test_saved_twice_a_figure_has_the_same_bytes_and_no_date(tmp_path: Path) -> None:
    first = style.save(_figure(), tmp_path / "new" / "folder", "name")
    assert [path.name for path in first] == ["name.png", "name.pdf"]
    before = [path.read_bytes() for path in first]
    with matplotlib.rc_context({"font.size": 30.0, "savefig.bbox": "tight"}):  # a user's own settings
        again = style.save(_figure(), tmp_path / "new" / "folder", "name")
    assert again == first
    assert [path.read_bytes() for path in again] == before
    assert b"CreationDate" not in before[1]
    with Image.open(first[0]) as image:
        assert image.size == (1200, 300)
        assert "Software" not in image.info
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_pyplot_is_not_imported_and_settings_are_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # to import it is an error
    with matplotlib.rc_context({"font.size": 30.0}):
        known = [key for key in matplotlib.rcParams if key != "backend"]  # to look at it imports pyplot
        before = [matplotlib.rcParams[key] for key in known]
        style.save(_figure(), tmp_path, "name")
        assert [matplotlib.rcParams[key] for key in known] == before


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(InputError, match="fig-x cannot be written to"):
        style.save(_figure(), tmp_path / "file", "fig-x")


def test_a_method_has_its_colour_wherever_it_stands() -> None:
    assert style.colours(["SoftMatch", "Mine"])["SoftMatch"] == style.colours(["Mine", "FixMatch", "SoftMatch"])["SoftMatch"]
    found = style.colours(["Fixed", "All-class", "Per-class", "Gaussian"], softmatch="All-class")
    assert found["All-class"] == style.SOFTMATCH
    assert len(set(found.values())) == 4
    many = style.colours([f"row {number}" for number in range(12)])
    assert len(many) == 12


def test_a_long_title_is_wrapped_but_not_before_a_dot_or_within_the_seeds() -> None:
    title = style.new_figure(2.0, f"{'word ' * 17}· here · {style.seeds([3, 5, 5])}").get_suptitle()
    assert len(title.split("\n")) == 2
    assert not any(line.startswith("·") for line in title.split("\n"))
    assert "n = 3 to 5 seeds" in title.split("\n")[-1].replace("\N{NO-BREAK SPACE}", " ")


def test_seeds_in_words() -> None:
    words = [style.means(counts).replace("\N{NO-BREAK SPACE}", " ") for counts in ([1, 1], [5, 5], [4, 1])]
    assert words == ["n = 1 seed", "mean ± sd, n = 5 seeds", "mean ± sd, n = 1 to 4 seeds"]


def test_names_are_not_read_as_formulas() -> None:
    with style.styled():
        assert matplotlib.rcParams["text.parse_math"] is False


def test_mean_and_deviation_are_of_what_is_known() -> None:
    mean, sd = style.spread(np.array([[1.0, np.nan, 4.0, np.nan], [3.0, np.nan, np.nan, 0.0], [5.0, np.nan, np.nan, 1.0]]))
    np.testing.assert_array_equal(mean, [3.0, np.nan, 4.0, 0.5])
    np.testing.assert_allclose(sd, [2.0, np.nan, 0.0, np.sqrt(0.5)])


def test_a_figure_over_steps_has_gaps_where_a_seed_has_none(tmp_path: Path) -> None:
    sheet, store = make_sheet(), Store(tmp_path)
    first, second = sheet.run(ROWS[0], MOONS, 0), sheet.run(ROWS[0], MOONS, 1)
    finish(store, first, [record_of(first, 5, quality=0.5), record_of(first, 10, quality=None)])
    finish(store, second, [record_of(second, 10, quality=0.75), record_of(second, 20, quality=0.25)])
    cells = cells_of(sheet, store)
    steps, values = style.over_steps(cells[0].runs, lambda record: record.get("quality"))
    assert steps == [5, 10, 20]
    np.testing.assert_array_equal(values, [[0.5, np.nan, np.nan], [np.nan, 0.75, 0.25]])
    np.testing.assert_array_equal(style.spread(values)[0], [0.5, 0.75, 0.25])
    assert style.common_steps(cells) == [10]
    assert style.common_steps([]) == []


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row("All-class", {"method": "softmatch"}), True),
        (Row("by default", {}), True),
        (Row("Per-class", {"method": "softmatch", "method_options": {"estimation": "per_class"}}), False),
        (Row("SoftMatch?", {"method": "fixmatch"}), False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_softmatch_is_known_by_its_settings(row: Row, expected: bool, tmp_path: Path) -> None:
    (cell,) = collect(make_sheet(rows=(row,)), Store(tmp_path)).column(MOONS.title)
    assert style.is_softmatch(cell) is expected


def test_a_column_of_a_mere_number_counts_labels() -> None:
    assert style.place(Column("4,000", "cifar10", {}, "CIFAR-10")) == "CIFAR-10, 4,000 labels"
    assert style.place(Column("γ = 50", "cifar10", {}, "CIFAR-10-LT"), "\n") == "CIFAR-10-LT\nγ = 50"
    assert style.place(Column("4 labels", "two-moons", {})) == "4 labels"


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


@pytest.mark.parametrize("name", [*FIGURES, "fig-ablation"])
def test_nothing_finished_says_what_to_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"no finished run in .*runs has what it shows. Run: softmatch reproduce {name}"):
        draw(name, [make_sheet(columns=(MOONS,))], Store(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
