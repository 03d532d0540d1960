"""Faults in what a notebook measures: a check that sees them, one that cannot fail, and a control."""

import json
from types import SimpleNamespace

import nbformat
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.commands import studies_command
from kokoro_nb.errors import InputError
from kokoro_nb.reporting import check_faults as subject
from kokoro_nb.reporting.check_faults import CheckedBy, check_faults
from kokoro_nb.reporting.measured_faults import MEASURE_FAULTS

CELLS = (
    "frames = 80\nout_dir = None",
    "import numpy as np\nimport kokoro_nb as nb\nfrom kokoro_nb.traces import parity\n"
    "from types import SimpleNamespace\nstudy = SimpleNamespace(texts=lambda: ['a', 'b'], heard=lambda: 3.52)\n"
    "log = nb.Logbook('01_toy', 'none', dict(frames=frames), out_dir)\nruns = []",
    "runs.append('before')\ny = np.linspace(-0.1, 0.1, 16)",
    "runs.append('after')\nsame, other = parity.compare(y, y.copy()), parity.compare(y, y[::-1].copy())",
    "log.check('parity', 'It is the same.', same.of_peak, 1e-6, backend='tvm')",
    "log.check('blind', 'It is at most anything.', same.of_peak, float('inf'))\n"
    "log.claim('blind', 'It is itself.', True)",
    "log.check('control', 'The other way round it is not.', other.of_peak, 1, '>')",
    "log.check('frames', 'The parameters are small.', frames, 8, '==')",
    "cost = nb.compare(y, y)\nnames = dict(cost=[name for name in vars(cost)])",
    "log.check('fields', 'It has its fields.', len(vars(cost)), len(names['cost']), '==')",
    "texts = study.texts()",
    "log.check('texts', 'There are two.', len(texts), 2, '==')\nheard, said = study.heard(), study.heard()",
    "log.check('apart', 'It is as long as was said.', abs(heard - said), 0.005)",
    "from kokoro_nb.backends.base import Failure\nlog.diagnosis(Failure('tvm', 'run', 'E', 'm'), 'A sick export')",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebooks")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "01_toy.ipynb")
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return {(row.kind, row.place): row for row in check_faults("01", folder=folder, kinds="every")}


def test_a_check_that_can_fail_is_turned_red_and_one_that_cannot_is_seen(rows):
    assert all(row.verdict == "pass" for row in rows.values()), "the card of a sick export is no check"
    assert {"scaled by 1.02", "one step late", "NaN in one element"} <= set(rows["parity", 1].killed_by)
    assert "nothing differs" not in rows["parity", 1].killed_by
    assert {"NaN in one element", "nothing differs"} < set(rows["control", 1].killed_by)
    assert "eight times as loud" not in rows["control", 1].killed_by
    assert rows["blind", 2].killed_by == rows["frames", 1].killed_by == ()
    assert rows["blind", 1].killed_by == ("NaN in one element", "figures that are NaN")
    assert rows["parity", 1].stopped_by == ("one element short",), "shapes that differ are refused"
    assert rows["blind", 2].as_dict()["turned red by"] == "no fault"
    assert [rows[name, 1].backend for name in ("parity", "control")] == ["tvm", ""]
    assert rows["parity", 1].statement == "It is the same."


def test_a_result_that_no_measure_has_seen_is_changed_itself(rows):
    assert {"nothing where something was", "a row twice"} <= set(rows["texts", 1].killed_by)


def test_of_two_figures_that_one_statement_made_one_may_change_alone(rows):
    assert {"each row eight times the last", "each row an eighth of the last"} <= set(rows["apart", 1].killed_by)
    assert "figures eight times as large" not in rows["apart", 1].killed_by
    fault = "each row eight times the last"
    assert subject._changed_together({"a": 1.0, "b": 1.0}, fault) == {"a": 1.0, "b": 8.0}


def test_a_cell_in_which_nothing_is_measured_is_not_executed_again(folder):
    run = subject._Run(folder / "01_toy.ipynb")
    found = run.clean()
    run.with_fault("eight times as loud", set(found))
    assert run.names["runs"] == ["before", "after", "after"]
    assert {"same", "heard"} <= run._results
    assert not run._results & set(subject.SLICED)


def test_the_study_stops_when_every_check_has_been_red(folder):
    rows = {(row.kind, row.place): row for row in check_faults("01", folder=folder)}
    assert len(rows["parity", 1].killed_by) == len(rows["control", 1].killed_by) == 1
    assert not {*rows["parity", 1].killed_by} & {*MEASURE_FAULTS}
    assert rows["blind", 2].killed_by == ()


@pytest.mark.parametrize("verdict", ["fail", "skip", "unknown"])
def test_of_what_does_not_pass_without_a_fault_nothing_is_wanted(verdict):
    red = CheckedBy("01_patching", 3, "kind", 1, "It is.", "", verdict)
    assert not any(red.wants(fault, kinds) for fault in ("no phase", "a failure") for kinds in ("one", "both", "every"))


def test_a_fault_of_each_kind_is_looked_for_on_demand(folder):
    rows = {(row.kind, row.place): row for row in check_faults("01", folder=folder, kinds="both")}
    in_result, in_measure = rows["parity", 1].killed_by
    assert in_result not in MEASURE_FAULTS
    assert in_measure in MEASURE_FAULTS


def test_a_fault_that_no_check_wants_does_not_end_the_study(tmp_path):
    cells = [nbformat.v4.new_markdown_cell("# A check\n\nThis is no code."), *map(nbformat.v4.new_code_cell, CELLS[:5])]
    cells[1].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "01_toy.ipynb")
    (row,) = check_faults("01", folder=tmp_path, kinds="both")
    assert [one in MEASURE_FAULTS for one in row.killed_by] == [False, True]
    assert row.cell == 5, "cells are counted with those of text"


def test_what_is_known_is_read_from_its_file(monkeypatch, tmp_path, capsys):
    asked, clock = [], iter((1.0, 8.4))
    monkeypatch.setattr(subject, "time", SimpleNamespace(process_time=lambda: next(clock, 0.0)))
    (tmp_path / "01_patching.json").write_text("[]")  # of an earlier form
    row = CheckedBy("01_patching", 3, "kind", 1, "It is.", "", "pass", ("no phase",))
    monkeypatch.setattr(subject, "check_faults", lambda name, kinds: asked.append((name, kinds)) or [row])
    for _ in range(2):
        assert subject.study_checks(["01"], tmp_path) == [row]
    assert asked == [("01_patching", "one")]
    assert json.loads((tmp_path / "01_patching.json").read_text())["seconds"] == 7
    assert "no phase" in (tmp_path / "index.html").read_text(encoding="utf-8")
    monkeypatch.setattr(subject, "content_key", lambda *about: "of changed code")
    subject.study_checks(["01"], tmp_path)
    assert len(asked) == 2
    recorded = []
    monkeypatch.setattr(subject, "record_checks", lambda studied, present: recorded.append((studied, present)))
    subject.study_checks(["01"], tmp_path, record=True)
    ((studied, present),) = recorded
    assert set(studied["01_patching"]) == {"commit", "versions", "parameters", "seconds", "rows"}
    assert studied["01_patching"]["rows"][0]["killed_by"] == ["no phase"]
    assert {"01_patching", "22_old_claims"} <= set(present)
    monkeypatch.setattr(studies_command, "import_models", lambda: None)
    assert main(["study", "checks", "--notebooks", "01", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "turned red by no phase" in told
    assert f"1 of 1 checks are turned red by a fault; the table: {tmp_path / 'index.html'}" in told


def test_a_folder_that_cannot_be_written_is_refused_before_the_study(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(studies_command, "import_models", lambda: None)
    monkeypatch.setattr(subject, "study_checks", lambda *given, **options: pytest.fail("it was begun"))
    (tmp_path / "file").write_text("")
    assert main(["study", "checks", "--notebooks", "01", "--out", str(tmp_path / "file" / "out")]) == 2
    assert "Cannot write" in capsys.readouterr().err


def test_a_notebook_that_stops_without_a_fault_is_refused(tmp_path):
    cells = [nbformat.v4.new_code_cell(source) for source in ("frames = 8", "absent")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "02_stopping.ipynb")
    with pytest.raises(InputError, match="cell 1 of 02_stopping stops without a fault: NameError"):
        check_faults("02", folder=tmp_path)
