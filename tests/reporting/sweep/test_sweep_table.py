import math

import pytest

from kokoro_nb.findings import Finding, write_findings
from kokoro_nb.reporting.report_files import Report
from kokoro_nb.reporting.run_outcome import RunOutcome
from kokoro_nb.reporting.runs import write_run
from kokoro_nb.reporting.sweep import ENDED, FOUND, write_table
from kokoro_nb.reporting.sweep_grid import expand
from tests.reporting.sweep.conftest import make_notebook, spec_of

parquet = pytest.importorskip("pyarrow.parquet")

TEXT = """
notebook = "01"
[grid]
number = [1, 2, 3]
[fixed]
backend = "eager"
"""


@pytest.fixture
def results(tmp_path):
    """A cell that passed with two findings, one that failed with none, and one skipped."""
    cells = expand(spec_of(tmp_path, TEXT), make_notebook(tmp_path))
    findings = [
        Finding("parity", "pass", "They agree.", "mini", "tvm", 0.25, 0.5, "of peak", relation="<="),
        Finding("finite", "fail", "It is finite.", "mini", "tvm", float("nan"), None, tap="decode:mul"),
    ]
    write_findings(tmp_path / "cells" / cells[0].run.notebook / "findings.json", findings, weights="mini")
    ends = [
        (RunOutcome("passed"), 1.5),
        (RunOutcome("failed", "Mend it.", "No."), 2.5),
        (RunOutcome("skipped", "No connected worker announces cuda (connected: 1)."), None),
    ]
    runs = [cell.run.ended(*end) for cell, end in zip(cells, ends, strict=True)]
    for run in runs:
        write_run(tmp_path / "cells" / run.notebook, run)
    return cells, runs


def test_there_is_a_row_for_each_finding_and_one_for_a_cell_without(results, tmp_path):
    path = write_table(tmp_path / "results.parquet", *results, tmp_path / "cells")
    rows = parquet.read_table(path).to_pylist()
    assert list(rows[0]) == ["number", "backend", *ENDED, *FOUND]
    assert [(row["number"], row["status"], row["kind"]) for row in rows] == [
        (1, "passed", "parity"),
        (1, "passed", "finite"),
        (2, "failed", None),
        (3, "skipped", None),
    ]
    assert (rows[0]["value"], rows[0]["relation"], rows[0]["limit"], rows[0]["on_backend"]) == (0.25, "<=", 0.5, "tvm")
    assert math.isnan(rows[1]["value"]), "NaN is a figure"
    assert rows[2]["value"] is None, "and what is not there is none"
    assert rows[1]["limit"] is None
    assert (rows[2]["seconds"], rows[2]["error"]) == (2.5, "No.")
    assert rows[3]["seconds"] is None


def test_a_parameter_gives_way_to_a_column_of_its_name(tmp_path):
    folder = make_notebook(tmp_path, parameters='limit = 0\nkind = ""\nmixed = 0\nlisted = []')
    text = 'notebook = "01"\n[grid]\nlimit = [7, 8]\nmixed = [1, "a", [2]]\n[fixed]\nlisted = ["x"]'
    cells = expand(spec_of(tmp_path, text), folder)
    runs = [cell.run for cell in cells]
    rows = parquet.read_table(write_table(tmp_path / "results.parquet", cells, runs, tmp_path)).to_pylist()
    assert [row["parameter_limit"] for row in rows] == [7, 7, 7, 8, 8, 8]
    assert {row["limit"] for row in rows} == {None}
    assert [row["mixed"] for row in rows[:3]] == ["1", "a", "[2]"], "several kinds in one column become text"
    assert rows[0]["listed"] == ["x"]


def test_the_report_has_a_page_for_every_cell_and_says_which_was_skipped(results, tmp_path):
    titles = {cell.run.notebook: cell.label for cell in results[0]}
    index = Report(tmp_path / "cells", tmp_path / "report", titles=titles).close().read_text(encoding="utf-8")
    pages = {f"{name}.html" for name in titles}
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"index.html", *pages}
    for number in (1, 2, 3):
        assert f"01_tiny: number {number}" in index
    assert index.count('<span class="state">skipped</span>') == index.count("No connected worker announces cuda") == 1
    assert index.count('<span class="knb-chip knb-skip">skip</span> <a') == 1
    assert "1 of 3 notebooks did not reach the end" in index
