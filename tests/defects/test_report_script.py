"""The script of a report: one short file that shows the defect in a process of its own."""

import ast

import pytest

from kokoro_nb.defects import DEFECTS, defect
from kokoro_nb.defects.defect_script import THERE, report_script
from kokoro_nb.run_apart import run_apart

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
