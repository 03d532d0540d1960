"""Every notebook, executed on small weights and one runtime: the run is the test."""

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import kokoro_nb as nb
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.qnn.assignment import Assignment, Node
from kokoro_nb.delivery import export
from kokoro_nb.errors import ChecksError
from kokoro_nb.findings import read_findings
from kokoro_nb.reporting.selection import declared_parameters, find_notebooks, read_notebook
from kokoro_nb.studies import clients, delegation

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SMALL = {
    "weights": "narrow",
    "frames": 8,
    "defects": ["coremltools_remainder", "onnx_atan2_nan", "tvm_argmax_nan", "xnnpack_tanh_gelu"],
    "staged_clients": [],
    "delegates": ["executorch-xnnpack"],
    "text": "A short one.",
    "padded_buckets": [16],
    "audit_bucket": 32,
    "runtime_bucket": 12,
    "tokens_buckets": [32],
    "voices": ["seeded:1", "seeded:2"],
    "bucket_seconds": [6.0],
    "long_count": 6,
    "bench_rounds": 3,
    "bench_tokens": 32,
    "seed": 3,
    **{f"{use}_backends": ["eager"] for use in ("fault", "padding")},
    **{f"{use}backends": ["onnxruntime"] for use in ("", "trace_", "part_", "main_", "bench_")},
    **dict.fromkeys(("fault_count", "fault_phrases", "text_count"), 1),
}

# minutes each, however small
LONG = ("00_diagnose", "07_coreml_complete", "10_upstream_defects", "11_delegation", "21_inspect_file")
SPECTRAL = ("04_waveform_spectrum",)  # its limits are those of speech; a decoder of fewer layers is further from that


NAMES = [path.stem for path in find_notebooks(folder=NOTEBOOKS)]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in NAMES])
def test_a_notebook_passes_with_other_parameters(name, shallow_weights, tmp_path, monkeypatch):
    small = SMALL if name in SPECTRAL else SMALL | {"weights": str(shallow_weights)}
    _execute(name, small, tmp_path, monkeypatch)
    findings, about = read_findings(tmp_path / "findings.json")
    checks = [finding for finding in findings if finding.diagnosis is None]
    assert {finding.verdict for finding in checks if finding.kind != "timing"} <= {"pass", "skip"}
    # what a busy machine spoils is unknown, and no test
    assert {finding.verdict for finding in checks if finding.kind == "timing"} <= {"pass", "unknown"}
    # a picture or the card of a diagnosis leads its page
    assert all([about["finished"], about["figures"] or len(checks) < len(findings)])
    # a folder of Kokoro's weights is nothing to PocketTTS, nor to records
    label = "narrow" if name in (*SPECTRAL, "08_pockettts", "12_executorch_0_7") else "shallow"
    assert all(label in finding.weights for finding in findings)


def _execute(name, parameters, folder, monkeypatch):
    """Execute the cells as a kernel would, their last values shown, but here: a kernel imports everything anew."""
    notebook = read_notebook(NOTEBOOKS / f"{name}.ipynb")
    given = {key: value for key, value in parameters.items() if key in declared_parameters(notebook)}
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # which the shell replaces
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}), ipython_dir=str(folder / "ipython"))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source).raise_error()
        if "parameters" in cell.metadata.get("tags", ()):
            shell.push(given | {"out_dir": str(folder)})
    shell.reset()  # else every model lives as long as the process


def test_every_notebook_is_executed_and_every_small_parameter_is_one_that_a_notebook_has():
    assert set(LONG) < {path.stem for path in find_notebooks(folder=NOTEBOOKS)}
    declared = {name for path in find_notebooks(folder=NOTEBOOKS) for name in declared_parameters(read_notebook(path))}
    assert set(SMALL) <= declared
    assert {path.suffix for path in NOTEBOOKS.iterdir() if path.is_file()} == {".ipynb"}, "nothing is written there"


def test_plain_papermill_in_the_folder_of_the_notebooks(tmp_path):
    name = "12_executorch_0_7.ipynb"  # the quickest
    command = [sys.executable, "-m", "papermill", name, str(tmp_path / "out.ipynb"), "--no-progress-bar"]
    command += ["-p", "weights", "narrow", "-y", f"{{out_dir: {tmp_path}}}"]
    done = subprocess.run(command, cwd=NOTEBOOKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "findings.json").exists()


@pytest.mark.slow
def test_a_notebook_never_dies_of_what_it_investigates(shallow_weights, tmp_path, monkeypatch):
    sick = {"planted": ["nan_channel/3@decoder.decode.0.conv1:conv1d"], "weights": str(shallow_weights)}
    with pytest.raises(ChecksError):
        _execute("03_decoder_nan", SMALL | sick, tmp_path, monkeypatch)
    findings, about = read_findings(tmp_path / "findings.json")
    assert about["finished"]
    assert {Path(one["path"]).stem for one in about["figures"]} == {"local_errors"}
    (first, *_) = [finding.diagnosis for finding in findings if finding.diagnosis is not None]
    assert first["culprits"][0]["tap"] == "decoder.decode.0.conv1:conv1d"
    controls = [finding for finding in findings if finding.kind == "control"]
    assert {finding.verdict for finding in controls} == {"pass"}, "the planted faults are still found"


def test_a_delivery_that_cannot_be_exported_is_a_finding(shallow_weights, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "export_program", lambda module, inputs: REFUSED)
    with pytest.raises(ChecksError):
        _execute("06_two_stage_npu", SMALL | {"weights": str(shallow_weights)}, tmp_path, monkeypatch)
    (finding,), _ = read_findings(tmp_path / "findings.json")
    assert (finding.kind, finding.verdict) == ("delivered", "fail")


def test_what_a_client_says_of_another_length_stands_by_itself(shallow_weights, tmp_path, monkeypatch):
    def said(kokoro, client, folder, symbols, voice, speed):
        row = {"client": client, "durations": "equal", "between stages": "float32", "dB from the same har": 110.0}
        return clients.ClientVersion(client, np.ones(2400 if client == "kokoro.js" else 3000), row, "")

    monkeypatch.setattr(nb, "deliver", Mock(return_value=Mock(voices=["a"], files={"a": {"bytes": 1}})), raising=False)
    monkeypatch.setattr(clients, "spoken_by", said)
    monkeypatch.setattr(clients, "in_pytorch", lambda *given: ("a", np.ones(3000)))
    monkeypatch.setattr(clients, "probed", lambda *given, clients: [{"deviations": "none"}])
    _execute("20_clients", SMALL | {"weights": str(shallow_weights)}, tmp_path, monkeypatch)


REFUSED = Failure("onnxruntime-qnn", "serialised", "RuntimeError", "no such operator")
PLACED = Assignment(tuple(Node(place, "Conv", "", place) for place in ("npu", "cpu", "unknown")), {})
PLACES = [(PLACED, REFUSED, {"npu": 2}), (REFUSED, PLACED, {"compiled": None, "npu_control": 1})]


@pytest.mark.parametrize(("decoder", "whole", "failed"), PLACES)
def test_where_the_compiler_of_the_npu_is(decoder, whole, failed, shallow_weights, tmp_path, monkeypatch):
    monkeypatch.setattr(Qnn, "available", lambda self: None)
    monkeypatch.setattr(Qnn, "executes", lambda self: None)
    monkeypatch.setattr(delegation, "decoder_program", lambda *given, patches: Mock())  # no partitioner asks for it
    monkeypatch.setattr(delegation, "legacy_onnx", lambda module, inputs, path: Path(path))
    monkeypatch.setattr(delegation, "assignment", lambda path, npu: decoder if path.exists() else whole)
    with pytest.raises(ChecksError):
        _execute("11_delegation", SMALL | {"weights": str(shallow_weights), "delegates": []}, tmp_path, monkeypatch)
    findings, _ = read_findings(tmp_path / "findings.json")
    assert {one.kind: one.value for one in findings if one.verdict == "fail"} == failed
