"""A second version of the runtime: right where this one is wrong, wrong as well, or no interpreter at all."""

import os
import stat
import sys

import numpy as np
import pytest

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS

STAND_IN = """\
#!{python}
import runpy, sys
import onnxruntime
onnxruntime.__version__ = "0.9"
real = onnxruntime.InferenceSession.run
def run(self, names, inputs):
    given = zip([one.name for one in self.get_outputs()], real(self, names, inputs))
    return [value * {factor} if name == "{name}" else value for name, value in given]
onnxruntime.InferenceSession.run = run
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def interpreter(tmp_path):
    """Return a function that writes an interpreter whose runtime gives `factor` times the value `name`."""

    def write(name, factor):
        path = tmp_path / "python"
        path.write_text(STAND_IN.format(python=sys.executable, name=name, factor=factor))
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return path

    return write


@pytest.fixture
def file(save, node):
    return save([node("Neg", ["x"], ["a"], name="/neg"), node("Exp", ["a"], ["y"], name="/exp")], {"x": [8]}, ["y"])


def test_the_runtime_is_to_blame_where_the_other_version_is_right(file, spoil, interpreter):
    spoil("y", lambda value: value * (1 + 1e-3))
    report = nb.inspect(file, other_python=interpreter("y", 1.0))
    assert (report.first.key, report.first.blame) == ("/exp", "runtime")
    right = [one for one in report.first.proof if "gives here what float64 does" in one]
    assert len(right) == 1
    assert report.runtime in right[0]
    assert right[0].startswith("onnxruntime ")


def test_a_version_that_is_wrong_as_well_settles_nothing(file, interpreter, monkeypatch):
    monkeypatch.setitem(MEANINGS, ("", "Exp"), lambda call, x: np.exp(x) * 1.001)
    alone = nb.inspect(file)
    assert alone.first.blame == "unknown"
    report = nb.inspect(file, other_python=interpreter("y", 1.5))
    assert report.first.blame == alone.first.blame
    assert "does not give here what float64 does either" in report.first.proof[-1]
    assert nb.inspect(file, other_python=interpreter("y", 1.001)).first.blame == "runtime"  # it agrees with "float64"


def test_a_version_that_alone_is_wrong_is_noted(file, interpreter):
    report = nb.inspect(file, other_python=interpreter("y", 1.5))
    assert report.findings == ()
    assert "gives the output 'y' within 0.5 of the peak" in report.notes[-1]


def test_what_is_no_interpreter_with_the_runtime_is_refused(file, tmp_path):
    with pytest.raises(InputError, match="is not a Python interpreter that can be started; give bin/python"):
        nb.inspect(file, other_python=tmp_path / "none")
    bare = tmp_path / "bare"
    bare.write_text(
        f'#!{sys.executable}\nprint(\'\\nkokoro-nb defect: {{"python": "3", "system": "", "packages": {{}}}}\')'
    )
    os.chmod(bare, 0o755)
    with pytest.raises(InputError, match="has no onnxruntime; give"):
        nb.inspect(file, other_python=bare)
    with pytest.raises(InputError, match=r"Only an \.onnx file that is run can be run on another version"):
        nb.inspect(file, static=True, other_python=sys.executable)


def test_a_runtime_that_ends_its_process_is_a_note(file, tmp_path):
    path = tmp_path / "python"
    path.write_text(
        f"#!{sys.executable}\nimport os, runpy, sys\n"
        "sys.argv = sys.argv[2:]\n"
        "os._exit(3) if 'elsewhere' in sys.argv[0] else runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    path.chmod(0o755)
    report = nb.inspect(file, {"x": np.ones(8, np.float32)}, other_python=path)
    assert report.verdict == "pass"
    assert any("crashes on the file: exit status 3" in note for note in report.notes)
