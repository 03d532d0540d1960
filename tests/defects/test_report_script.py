"""The script of a report: one file under 60 lines that shows the defect in a process of its own."""

import ast
import subprocess
import sys

import pytest

from kokoro_nb.defects import DEFECTS, defect
from kokoro_nb.defects.report_script import GONE, LINES, THERE, report_script

# One that calls a tool; the others are slow, for each process imports a runtime.
QUICK = {"onnx_reference_conv_transpose"}
NAMES = [pytest.param(k.name, marks=[] if k.name in QUICK else [pytest.mark.slow]) for k in DEFECTS]
STATIC = [known for known in DEFECTS if known.runner != "coremltools"]  # those are converted to know their operators
LONG = (
    "sherpa_onnx_closing_mark",
    "sherpa_onnx_half_audio",
    "sherpa_onnx_long_tokens",
    "sherpa_onnx_unread_lexicon",
)  # a whole model is made in them


def _run(folder, text):
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_it_shows_the_defect_by_itself(name, tmp_path, measured):
    found = measured(name)
    if found.absent:
        pytest.skip(found.absent)
    done = _run(tmp_path, report_script(found.defect))
    assert done.returncode == {"present": 1, "gone": 0}[found.state], done.stderr
    assert done.stdout.splitlines()[-1] == {"present": THERE, "gone": GONE}[found.state]
    assert ("actual:" in done.stdout) is True


def _whole(known, text):
    assert text.count("\n") < LINES or known.name in LONG
    names = {node.names[0].name.split(".")[0] for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)}
    own = {"tvm": "apache-tvm", "sherpa_onnx": "sherpa-onnx", "espeakng_loader": "espeakng-loader"}
    assert {own.get(n, n) for n in names - set(sys.stdlib_module_names)} <= {"torch", "numpy", *known.packages}
    assert "kokoro_nb" not in text
    assert known.title in text


@pytest.mark.parametrize("known", STATIC, ids=lambda known: known.name)
def test_it_is_short_and_needs_the_packages_of_the_defect_alone(known):
    _whole(known, report_script(known))


@pytest.mark.parametrize("name", LONG)  # sherpa-onnx is not beside the tests, so that nothing runs these
def test_what_a_case_reads_of_itself_is_in_its_script(name):
    classes = [node for node in ast.walk(ast.parse(report_script(defect(name)))) if isinstance(node, ast.ClassDef)]
    (case,) = classes
    attributes = [node for node in ast.walk(case) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "self"}
    held = {node.name for node in case.body if isinstance(node, ast.FunctionDef)}
    held |= {node.targets[0].id for node in case.body if isinstance(node, ast.Assign)}
    held |= {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    assert {"spoken"} <= read <= held


def test_a_converted_program_brings_its_own_operators_alone():
    known = defect("coremltools_tanh_gelu")
    text = report_script(known)
    _whole(known, text)
    assert text.index("def _gelu") < text.index("'gelu': _gelu")
    assert "'atan'" not in text


def test_where_the_defect_is_gone_it_ends_with_0(tmp_path):
    text = report_script(defect("onnx_reference_conv_transpose"))
    mended = text.replace("np.asarray(case.broken(*case.inputs.values()), np.float64)", "expected.copy()")
    assert mended != text
    done = _run(tmp_path, mended)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, GONE)
