"""A result is shown by its type, and what has no drawing says so."""

from dataclasses import dataclass

import torch

from kokoro_nb.backends.exported import export_program
from kokoro_nb.inspection import diagnose
from kokoro_nb.listening.transcript import Transcript, Word
from kokoro_nb.locate.investigation import investigate
from kokoro_nb.markup import Fragment
from kokoro_nb.reporting.drawings import drawn
from kokoro_nb.reporting.logbook import Logbook, shown
from kokoro_nb.traces.statistics import compare
from tests.refusals import refused


@dataclass(frozen=True)
class _Drawable:
    title: str


def test_rows_become_a_table_and_anything_else_but_rows_is_refused(tmp_path):
    from matplotlib.figure import Figure

    assert "<td" in shown([{"a": 1.5}]).html
    for bad, name in (([1, 2], "int"), ({1}, "set")):
        refused(f"no drawing for a result of the type {name}", shown, bad)
    drawn.register(_Drawable, lambda result, label, caption: Fragment("<p>", f"{result.title} {label} {caption}"))
    assert shown(_Drawable("x"), "mini", "c").text == "x mini c"
    assert Logbook("01_x", "mini", {}, tmp_path).show(Figure(), "empty").path.is_file()
    heard = Transcript("hello", -0.2, 0.01, 0.9, (Word("hello", 0.1, 0.4, 0.99),))
    assert "hello" in shown(heard).text
    assert "mean log probability" in shown({"eager": heard}).text


def test_what_can_be_a_row_becomes_a_table_alone_and_several_at_a_time():
    parity = compare([1.0, 2.0], [1.0, 2.5])
    assert "max error" in shown(parity).text
    assert "0.5" in shown([parity, parity]).text
    assert "name" in shown({"tvm": parity}).text.splitlines()[0]
    cells = {"eager": {"decode.0": 0.0, "generator": 0.5}, "tvm": {"decode.0": "pass", "generator": "fail: NaN"}}
    assert "✗ fail: NaN" in [text.get_text() for text in shown(cells, "mini", "Errors").axes[0].texts]


def test_results_of_localisation_are_drawn_by_their_type():
    module, given = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval(), {"input": torch.ones(2, 4)}
    found = investigate(export_program(module, given), given, "eager")
    for explored in (found, found.candidate):
        assert "1:tanh" in str(shown(explored).operators)
    for profile in (shown({"eager": found}), shown([found])):
        assert profile.axes[0].get_ylabel() == "error / rounding-error bound"
    found = diagnose(module, given, "eager")
    assert shown(found) is found
    assert found.statement in shown({"toy": found}).text


def test_what_failed_or_is_absent_is_a_row_and_the_rest_is_drawn(tmp_path):
    from kokoro_nb.backends.base import Failure

    log = Logbook("01_x", "mini", {}, tmp_path)
    failure = Failure("tvm", "lowered", "AssertionError", "Unsupported function types ['cumprod.default']")
    assert "cumprod.default" in log.show(failure).html
    both = log.show({"tvm": failure, "eager": None}, caption="All").html
    assert "cumprod.default" in both
    assert "absent" in both
    assert "No rows" in log.show({}).html


def test_a_drawing_that_fails_is_recorded_and_stops_nothing(tmp_path, monkeypatch):
    log = Logbook("01_x", "mini", {}, tmp_path)
    log.show({"tvm": {"a": -1.0}}, "one")

    def broken(*_):
        raise ValueError("zero-size array")

    monkeypatch.setattr("kokoro_nb.reporting.logbook.shown", broken)
    assert "zero-size array" in log.show([{"a": 1}], "two").html
    assert [(one.kind, one.verdict) for one in log.findings] == [("drawing", "unknown")]
