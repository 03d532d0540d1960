"""A bundle, run in a process of its own: it exits with 1 while the defect is there, with 0 in its control."""

import inspect
import runpy
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from kokoro_nb.defects import DEFECTS, DefectMeasurement, defect, repro, write_bundle
from kokoro_nb.defects.catalogue import versions
from kokoro_nb.defects.defect_bundle import runner_source
from kokoro_nb.errors import InputError

# One of a tool, one of PyTorch alone and one with a runner; the others are slow, for each process imports a runtime.
QUICK = {"onnx_reference_conv_transpose", "torch_gelu_infinity", "tvm_ignored_alpha"}
NAMES = [pytest.param(k.name, marks=[] if k.name in QUICK else [pytest.mark.slow]) for k in DEFECTS]


def _run(folder, *arguments, cwd):
    command = [sys.executable, "-I", str(folder / "repro.py"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_it_exits_with_1_and_its_control_with_0(name, tmp_path, measured):
    found = measured(name)
    if found.absent:
        pytest.skip(found.absent)
    folder = write_bundle(defect(name), tmp_path / "bundle", found)
    done = _run(folder, cwd=tmp_path)
    assert done.returncode == {"present": 1, "gone": 0}[found.state], done.stderr
    word = {"present": "there", "gone": "gone"}[found.state]
    # a tool may print a table of its own before it
    assert any(line.startswith(f"{word}: {100 * found.broken.wrong:.4g} % wrong") for line in done.stdout.splitlines())
    mended = _run(folder, "--mended", cwd=tmp_path)
    assert mended.returncode == 0, mended.stderr
    assert "gone: 0 % wrong" in mended.stdout


@pytest.mark.parametrize("known", DEFECTS, ids=lambda known: known.name)
def test_it_needs_only_torch_numpy_safetensors_and_the_packages_of_the_case(known, packages, tmp_path):
    folder = write_bundle(known, tmp_path / "bundle", DefectMeasurement(known, absent="Not measured."))
    needed = packages(*(path.read_text(encoding="utf-8") for path in folder.glob("*.py")))
    assert needed <= {"torch", "numpy", "safetensors", *known.packages}


def test_it_holds_the_code_and_the_numbers_that_were_measured(tmp_path, measured):
    name = "tvm_ignored_alpha"
    known = defect(name)
    folder = write_bundle(known, tmp_path / "bundle", measured(name))
    files = ["REPORT.md", "case.py", "inputs.safetensors", "repro.py", "runner.py"]
    assert sorted(path.name for path in folder.iterdir()) == files
    assert (folder / "repro.py").read_text(encoding="utf-8") == inspect.getsource(repro)
    assert (folder / "runner.py").read_text(encoding="utf-8") == runner_source("tvm")
    namespace = runpy.run_path(str(folder / "case.py"))
    assert type(namespace["case"]).__name__ == type(known).__name__
    for form in ("broken", "mended"):
        code = getattr(namespace["case"], form).__code__
        assert (code.co_code, code.co_consts) == ((mine := getattr(known, form).__code__).co_code, mine.co_consts)
    stored = load_file(folder / "inputs.safetensors")
    assert set(stored) == set(known.inputs)
    for key, tensor in known.inputs.items():
        torch.testing.assert_close(stored[key], tensor, rtol=0, atol=0)


def test_the_report_gives_versions_figures_and_how_to_run_it(tmp_path, measured):
    found = measured("onnx_reference_conv_transpose")
    text = (write_bundle(found.defect, tmp_path / "bundle", found) / "REPORT.md").read_text(encoding="utf-8")
    for part in (
        f"# {found.defect.title}",
        found.defect.cause,
        found.defect.where,
        f"- onnx {versions(('onnx',))['onnx']}",
        f"- torch {torch.__version__}",
        "- Python 3.",
        f"As it is, {100 * found.broken.wrong:.4g} % of the elements are wrong",
        f"is {found.broken.seen} where {found.broken.expected} is right",
        "Mended, 0 % of the elements are wrong",
        "python repro.py --mended",
    ):
        assert part in text


def test_a_defect_that_could_not_be_measured_is_reported_so(tmp_path):
    known = defect("tvm_ignored_alpha")
    folder = write_bundle(known, tmp_path / "bundle", DefectMeasurement(known, absent="apache-tvm is not installed."))
    assert "Not measured where this was written: apache-tvm is not installed." in (folder / "REPORT.md").read_text()


def _spoilt(tmp_path, find, put):
    known = defect("torch_gelu_infinity")
    folder = write_bundle(known, tmp_path / "bundle", DefectMeasurement(known, absent="Not measured."))
    case = folder / "case.py"
    text = case.read_text(encoding="utf-8")
    assert find in text
    case.write_text(text.replace(find, put), encoding="utf-8")
    return _run(folder, cwd=tmp_path)


def test_without_the_runtime_it_exits_with_3_and_a_sentence(tmp_path):
    done = _spoilt(tmp_path, 'packages = ("torch",)', 'packages = ("there-is-no-such",)')
    assert done.returncode == 3
    assert done.stdout == "there-is-no-such is not installed; install it with pip install there-is-no-such.\n"


def test_a_case_that_breaks_is_no_defect(tmp_path):
    done = _spoilt(tmp_path, "F.gelu(", "F.no_such(")
    assert done.returncode == 2
    assert "no_such" in done.stderr


def test_the_input_is_read_from_the_file(tmp_path):
    # with the numbers that are large taken out of the file the defect does not show
    known = defect("torch_gelu_infinity")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "inputs", {"x": torch.tensor([-50.0, 0.0, 50.0])})
        folder = write_bundle(known, tmp_path / "bundle", DefectMeasurement(known, absent="Not measured."))
    assert _run(folder, cwd=tmp_path).returncode == 0


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    known = defect("torch_gelu_infinity")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="Cannot write"):
        write_bundle(known, tmp_path / "file" / "bundle", DefectMeasurement(known, absent="Not measured."))
    with pytest.raises(InputError, match="something else than a bundle"):
        write_bundle(known, tmp_path / "file", DefectMeasurement(known, absent="Not measured."))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
