"""A result is shown by its type, and what has no drawing says so."""

from dataclasses import dataclass

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment
from kokoro_nb.reporting.logbook import Logbook
from kokoro_nb.reporting.show import drawn, shown


@dataclass(frozen=True)
class _Drawable:
    title: str


def test_rows_become_a_table_and_anything_else_but_rows_is_refused():
    assert "<td" in shown([{"a": 1.5}]).html
    with pytest.raises(InputError, match="Only rows can be shown"):
        shown([1, 2])
    with pytest.raises(InputError, match="how to show a set"):
        shown({1})


def test_a_registered_drawing_is_found_by_type_and_given_the_label():
    drawn.register(_Drawable, lambda result, label, caption: Fragment("<p>", f"{result.title} {label} {caption}"))
    assert shown(_Drawable("x"), "mini", "c").text == "x mini c"


def test_a_figure_is_saved_under_its_name(tmp_path):
    from matplotlib.figure import Figure

    log = Logbook("01_x", "mini", {}, tmp_path)
    picture = log.show(Figure(), "empty")
    assert picture.path == tmp_path / "empty.png"
    assert picture.path.is_file()
