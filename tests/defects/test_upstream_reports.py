"""Reports of the defects that are there, each with a script that showed it."""

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.defects import DefectMeasurement, defect
from kokoro_nb.defects import defect_script as reports
from kokoro_nb.defects.repro import Figure
from kokoro_nb.errors import InputError

UNSIGNED = "onnx_verification_unsigned"
SECTIONS = ("Versions", "To reproduce", "Expected and actual", "Lines at fault", "Workaround", "Related")


SHOWS = "print('The defect is there.'); raise SystemExit(1)\n"
GONE = Figure(0.0, 0.0, "1", "1")


def _measured(name, broken=Figure(0.5, 0.25, "255", "1")):  # noqa: B008  # it is frozen
    return DefectMeasurement(defect(name), broken, GONE)


def test_the_command_prints_a_table_and_writes_reports(tmp_path, capsys, monkeypatch):
    known = defect(UNSIGNED)
    record = ["Title.", "Cause.", "Control: both cast to float before (the patch divided_snake)"]
    monkeypatch.setattr(known, "__doc__", "\n\n".join(record) + "\nThreads: owner/name#1, owner/name#22\n")
    folder = tmp_path / "reports"
    assert main(["defects", UNSIGNED, "--reports", str(folder)]) == 0
    table = capsys.readouterr().out
    assert "present" in table
    assert "both cast to float before" in table
    assert sorted(path.name for path in folder.iterdir()) == ["STATE.md", f"{UNSIGNED}.md", f"{UNSIGNED}.py"]
    text = (folder / f"{UNSIGNED}.md").read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(SECTIONS)
    assert (folder / f"{UNSIGNED}.py").read_text() in text
    assert reports.THERE in text
    assert text.endswith("## Related\n\n- owner/name#1\n- owner/name#22\n")
    assert "Right by the same measure: both cast to float before.\n" in text  # our patches are no one else's
    state = (folder / "STATE.md").read_text()
    assert f"{UNSIGNED}.md" in state
    assert "owner/name#22" in state


def test_a_report_says_by_how_much_an_element_may_be_off_and_how_core_ml_is_judged(monkeypatch):
    monkeypatch.setattr(reports, "report_script", lambda known: SHOWS)
    text, script = reports.upstream_report(_measured("coremltools_reciprocal"))
    assert script == SHOWS
    assert "off by more than 1e-05 of the peak" in text
    assert f"## To reproduce\n\n{reports.MIL}\n" in text
    assert "- apple/coremltools#2773\n" in text


def test_a_script_that_does_not_show_the_defect_makes_no_report(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "report_script", lambda known: "print('something else')\n")
    assert reports.write_reports([_measured(UNSIGNED)], tmp_path / "reports") == []
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["STATE.md"]
    assert "the script fails" in (tmp_path / "reports" / "STATE.md").read_text()


def test_what_is_gone_is_not_reported():
    assert reports.upstream_report(_measured(UNSIGNED, GONE)) is None


def test_a_folder_of_something_else_and_a_wrong_name_are_refused_before_anything_is_run(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="something else than reports"):
        reports.write_reports([], tmp_path)
    assert main(["defects", UNSIGNED, "--reports", str(tmp_path)]) == 2
    assert main(["defects", "there_is_no_such"]) == 2
    assert "There is no defect 'there_is_no_such'" in capsys.readouterr().err
