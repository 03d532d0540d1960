"""A second version of the runtime: right where this one is wrong, wrong as well, or no environment for it at all."""

import sys

import numpy as np
import pytest

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS

STAND_IN = """\
#!{python}
import runpy, sys
sys.executable = {path!r}
before = {before!r}
exec(before)
arguments = [one for one in sys.argv[1:] if one != "-I"]
sys.argv = arguments[arguments[0] == "-m":]
sys.path[0] = "."
if arguments[0] == "-m":
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SPOILT = """
if "kokoro_nb.commands.inspect_process" in sys.argv:
    import onnxruntime
    real = onnxruntime.InferenceSession.run
    def run(self, names, inputs):
        given = zip([one.name for one in self.get_outputs()], real(self, names, inputs))
        return [value * {factor} if name == "y" else value for name, value in given]
    onnxruntime.InferenceSession.run = run
"""
PACKAGES = """
if sys.argv[-1].endswith("other_environment.py"):
    print('\\nkokoro-nb defect: {{"python": "3", "system": "", "packages": {packages}}}')
    sys.exit()
"""
LACKING = """
class Lacking:
    def find_spec(self, name, *rest):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
sys.meta_path.insert(0, Lacking())
"""


@pytest.fixture
def interpreter(tmp_path):
    """Return a function that writes an interpreter which first does something else."""

    def write(before):
        path = tmp_path / "python"
        path.write_text(STAND_IN.format(python=sys.executable, path=str(path), before=before))
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def file(save, node):
    return save([node("Neg", ["x"], ["a"], name="/neg"), node("Exp", ["a"], ["y"], name="/exp")], {"x": [8]}, ["y"])


def test_the_runtime_is_to_blame_where_the_other_version_is_right(file, spoil):
    spoil("y", lambda value: value * (1 + 1e-3))
    report = nb.inspect(file, other_python=sys.executable)
    assert (report.first.key, report.first.blame) == ("/exp", "runtime")
    right = [one for one in report.first.proof if "gives here what float64 does" in one]
    assert len(right) == 1
    assert report.runtime in right[0]
    assert right[0].startswith("onnxruntime ")
    assert "gives the output 'y' within 9.991e-4 of the peak" in report.notes[-1]


def test_a_version_that_is_wrong_as_well_settles_nothing(file, interpreter, monkeypatch):
    monkeypatch.setitem(MEANINGS, ("", "Exp"), lambda call, x: np.exp(x) * 1.001)
    alone = nb.inspect(file)
    assert alone.first.blame == "unknown"
    report = nb.inspect(file, other_python=interpreter(SPOILT.format(factor=1.5)))
    assert report.first.blame == alone.first.blame
    assert "does not give here what float64 does either" in report.first.proof[-1]


def test_a_version_that_alone_is_wrong_is_noted(file, interpreter):
    report = nb.inspect(file, other_python=interpreter(SPOILT.format(factor=1.5)))
    assert report.findings == ()
    assert "gives the output 'y' within 0.5 of the peak" in report.notes[-1]


def test_what_is_no_environment_for_the_file_is_refused(file, tmp_path, interpreter):
    with pytest.raises(InputError, match="is not a Python interpreter that can be started; give bin/python"):
        nb.inspect(file, other_python=tmp_path / "none")
    with pytest.raises(InputError, match="has no onnxruntime; give"):
        nb.inspect(file, other_python=interpreter(PACKAGES.format(packages="{}")))
    lacking = PACKAGES.format(packages='{"onnxruntime": "0.9"}') + LACKING
    with pytest.raises(InputError, match="has no torch, which kokoro_nb needs there; install it there"):
        nb.inspect(file, other_python=interpreter(lacking))
    with pytest.raises(InputError, match=r"Only a file that is run can be run on another version"):
        nb.inspect(file, static=True, other_python=sys.executable)


def test_a_runtime_that_ends_its_process_is_a_note(file, interpreter):
    ended = "import os\nif 'kokoro_nb.commands.inspect_process' in sys.argv: os._exit(3)"
    report = nb.inspect(file, {"x": np.ones(8, np.float32)}, other_python=interpreter(ended))
    assert report.verdict == "pass"
    assert any("does not run the file" in note and "exit status 3" in note for note in report.notes)
