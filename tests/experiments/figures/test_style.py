from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from softmatch.errors import InputError
from softmatch.experiments.figures import style


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
        before = {key: matplotlib.rcParams[key] for key in style.STYLE}
        style.save(_figure(), tmp_path, "name")
        assert {key: matplotlib.rcParams[key] for key in style.STYLE} == before


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'softmatch\[plots\]'"), style.styled():
        pass


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


def test_legends_have_as_many_columns_as_fit() -> None:
    assert style.legend_columns(["a", "b", "c", "d"], 10) == 3
    assert style.legend_columns(["four", "four", "four"], 10) == 2
    assert style.legend_columns(["a long name"], 5) == 1
    assert style.legend_columns(["a long name", "another"], 5) == 1


def test_names_are_not_read_as_formulas() -> None:
    assert style.STYLE["text.parse_math"] is False
