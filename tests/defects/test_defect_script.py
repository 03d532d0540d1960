"""The script of a report: one short file that shows the defect in a process of its own; and the reports."""

import ast

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.defects import DEFECTS, DefectMeasurement, defect
from kokoro_nb.defects import catalogue as reports
from kokoro_nb.defects.catalogue import THERE, report_script
from kokoro_nb.defects.defect_case import Figure
from kokoro_nb.run_apart import run_apart
from tests.refusals import refused

# One that calls a tool; the others are slow, for each process imports a runtime.
QUICK = {"onnx_reference_conv_transpose"}
NAMES = [pytest.param(k.name, marks=[] if k.name in QUICK else [pytest.mark.slow]) for k in DEFECTS]
GONE = "The defect is gone."
LINES = 210  # a script has fewer: the judgement, the base of the cases, the runner, the case with its record


def _run(folder, text, *arguments):
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    return run_apart(["-I", path, *arguments], folder=folder)


@pytest.mark.parametrize("name", NAMES)
def test_it_shows_the_defect_by_itself(name, tmp_path, measured):
    found = measured(name)
    if found.absent:
        pytest.skip(found.absent)
    done = _run(tmp_path, report_script(found.defect))
    assert done.status == {"present": 1, "gone": 0}[found.state], done.stderr
    assert done.stdout.splitlines()[-1] == {"present": THERE, "gone": GONE}[found.state]
    assert "actual:" in done.stdout
    mended = _run(tmp_path, report_script(found.defect), "--mended")
    assert (mended.status, mended.stdout.splitlines()[-1]) == (0, GONE), mended.stderr


@pytest.mark.parametrize("known", DEFECTS, ids=lambda known: known.name)
def test_it_is_short_and_needs_the_packages_of_the_defect_alone(known, packages):
    text = report_script(known)
    assert text.count("\n") < LINES
    assert packages(text) <= {"torch", "numpy", *known.packages}
    assert "kokoro_nb" not in text
    assert known.title in text


SPOKEN = ("sherpa_onnx_closing_mark", "sherpa_onnx_half_audio", "sherpa_onnx_long_tokens")


@pytest.mark.parametrize("name", SPOKEN)  # sherpa-onnx is not beside the tests, so that nothing runs these
def test_what_a_case_reads_of_itself_is_in_its_script(name):
    classes = [node for node in ast.walk(ast.parse(report_script(defect(name)))) if isinstance(node, ast.ClassDef)]
    attributes = [node for case in classes for node in ast.walk(case) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "self"}
    members = [member for case in classes for member in case.body]
    held = {node.name for node in members if isinstance(node, ast.FunctionDef)}
    held |= {node.targets[0].id for node in members if isinstance(node, ast.Assign)}
    held |= {node.target.id for node in members if isinstance(node, ast.AnnAssign)}
    assert {"spoken", "printed", "script"} <= read <= held


@pytest.mark.parametrize(
    ("find", "put", "status", "said"),
    [
        ("case.seen(case.inputs, mended, run)", "expected.copy()", 0, GONE),
        ("case.expected(case.inputs)", "case.no_such", 2, "no_such"),  # a case that breaks is no defect
    ],
)
def test_the_exit_status_says_whether_the_defect_is_there(tmp_path, find, put, status, said):
    text = report_script(defect("onnx_reference_conv_transpose"))
    assert find in text
    done = _run(tmp_path, text.replace(find, put))
    assert (done.status, said in done.stdout + done.stderr) == (status, True)


UNSIGNED = "onnx_verification_unsigned"
SECTIONS = ("Versions", "To reproduce", "Expected and actual", "Lines at fault", "Workaround", "Related")


SHOWS = "print('The defect is there.'); raise SystemExit(1)\n"
NONE_WRONG = Figure(0.0, 0.0, "1", "1")


def _measured(name, broken=Figure(0.5, 0.25, "255", "1")):  # noqa: B008  # it is frozen
    return DefectMeasurement(defect(name), broken, NONE_WRONG)


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
    assert reports.upstream_report(_measured(UNSIGNED, NONE_WRONG)) is None


def test_a_folder_of_something_else_and_a_wrong_name_are_refused_before_anything_is_run(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    refused("something else than reports", reports.write_reports, [], tmp_path)
    assert main(["defects", UNSIGNED, "--reports", str(tmp_path)]) == 2
    assert main(["defects", "there_is_no_such"]) == 2
    assert "There is no defect 'there_is_no_such'" in capsys.readouterr().err
