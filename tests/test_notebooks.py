"""Every notebook, executed on small weights and one runtime: the run is the test."""

import subprocess
import sys
from pathlib import Path

import pytest

from kokoro_nb.findings import read_findings
from kokoro_nb.reporting.execute import run_notebooks
from kokoro_nb.reporting.report_files import Report
from kokoro_nb.reporting.selection import declared_parameters, find_notebooks, read_notebook

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SMALL = {
    "weights": "narrow",
    "frames": 8,
    "backends": ["onnxruntime"],
    "trace_backends": ["onnxruntime"],
    "part_backends": ["onnxruntime"],
    "fault_backends": ["eager"],
    "defects": ["coremltools_remainder", "onnx_atan2_nan", "tvm_argmax_nan", "xnnpack_tanh_gelu"],
    "main_backends": ["onnxruntime"],
    "staged_clients": [],
    "delegates": ["executorch-xnnpack"],
    "shrink": False,
    "text": "A short one.",
    "fault_count": 1,
    "fault_phrases": 1,
    "padded_buckets": [16],
    "audit_buckets": [12],
    "tokens_buckets": [32],
    "padding_backends": [],
    "voices": ["seeded:1", "seeded:2"],
    "accelerators": [],
    "text_count": 1,
    "bucket_seconds": [6.0],
    "long_count": 6,
    "bench_backends": ["onnxruntime"],
    "bench_rounds": 5,
    "bench_tokens": 32,
    "seed": 3,
}

LONG = (
    "00_diagnose",
    "07_coreml_complete",
    "10_upstream_defects",
    "11_delegation",
    "21_inspect_file",
)  # minutes each, however small
SPECTRAL = ("04_waveform_spectrum",)  # its limits are those of speech; a decoder of fewer layers is further from that


@pytest.fixture(scope="module", params=["short", pytest.param("long", marks=pytest.mark.slow)])
def executed(request, shallow_weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    declared = {path.stem: declared_parameters(read_notebook(path)) for path in find_notebooks(folder=NOTEBOOKS)}
    names = [name for name in declared if (name in LONG) == (request.param == "long")]
    shallow = {"weights": str(shallow_weights)}
    spectral = [name for name in names if name in SPECTRAL]
    outcomes = []
    for some, small in (spectral, SMALL), ([name for name in names if name not in SPECTRAL], SMALL | shallow):
        given = {key: value for key, value in small.items() if any(key in declared[name] for name in some)}
        outcomes += run_notebooks(some, given, 2, folder) if some else []
    outcomes.sort(key=lambda outcome: outcome.run.notebook)
    assert [outcome.run.notebook for outcome in outcomes] == names
    return folder, outcomes


def test_every_notebook_passes_with_other_parameters(executed):
    _, outcomes = executed
    assert {outcome.run.notebook: outcome.run.error for outcome in outcomes if outcome.run.status != "passed"} == {}


def test_findings_pass_or_say_why_not(executed):
    folder, outcomes = executed
    for outcome in outcomes:
        findings, about = read_findings(folder / outcome.run.notebook / "findings.json")
        checks = [finding for finding in findings if finding.diagnosis is None]
        assert {finding.verdict for finding in checks if finding.kind != "timing"} <= {"pass", "skip"}
        # what a busy machine spoils is unknown, and no test
        assert {finding.verdict for finding in checks if finding.kind == "timing"} <= {"pass", "unknown"}
        assert about["finished"]
        # a folder of Kokoro's weights is nothing to PocketTTS, nor to records
        label = "narrow" if outcome.run.notebook in (*SPECTRAL, "08_pockettts", "12_executorch_0_7") else "shallow"
        assert all(label in finding.weights for finding in findings)


def test_the_report_shows_every_notebook(executed, tmp_path):
    folder, outcomes = executed
    index = Report(folder, tmp_path / "report").close().read_text(encoding="utf-8")
    for outcome in outcomes:
        assert f"{outcome.run.notebook}.html" in index


def test_nothing_is_written_beside_the_sources(executed):
    others = {path.name for path in NOTEBOOKS.iterdir() if path.is_file() and path.suffix != ".ipynb"}
    assert others == set()
    assert all(read_notebook(path).cells for path in find_notebooks(folder=NOTEBOOKS))


def test_every_notebook_is_executed_and_every_small_parameter_is_one_that_a_notebook_has():
    assert set(LONG) < {path.stem for path in find_notebooks(folder=NOTEBOOKS)}
    declared = {name for path in find_notebooks(folder=NOTEBOOKS) for name in declared_parameters(read_notebook(path))}
    assert set(SMALL) <= declared


def test_plain_papermill_in_the_folder_of_the_notebooks(tmp_path):
    command = [sys.executable, "-m", "papermill", "01_patching.ipynb", str(tmp_path / "out.ipynb"), "--no-progress-bar"]
    command += ["-p", "weights", "narrow", "-p", "out_dir", str(tmp_path)]
    command += ["-y", "{frames: 8, seed: 3, text: A short one.}"]
    done = subprocess.run(command, cwd=NOTEBOOKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "findings.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sick", [{"planted": ["nan_channel/3@decoder.decode.0.conv1:conv1d"]}, {"patches": "none"}], ids=["nan", "patches"]
)
def test_a_notebook_never_dies_of_what_it_investigates(sick, tmp_path):
    keys = ("weights", "frames", "text", "trace_backends", "part_backends", "fault_backends")
    (ended,) = run_notebooks(["03_decoder_nan"], {key: SMALL[key] for key in keys} | sick, 1, tmp_path / "run")
    assert ended.run.status == "checks failed", ended.run.error
    findings, about = read_findings(tmp_path / "run" / "03_decoder_nan" / "findings.json")
    assert about["finished"]
    assert {Path(one["path"]).stem for one in about["figures"]} == {"local_errors", "slices", "parts"}
    (first, *_) = [finding.diagnosis for finding in findings if finding.diagnosis is not None]
    named = (first["failure"] or {}).get("operator") or first["culprits"][0]["tap"]
    assert named in ("decoder.decode.0.conv1:conv1d", "aten.mul")
    controls = [finding for finding in findings if finding.kind == "control"]
    assert {finding.verdict for finding in controls} == {"pass"}, "the planted faults are still found"
    index = Report(tmp_path / "run", tmp_path / "report").close().read_text(encoding="utf-8")
    assert named.partition(":")[0] in index
    page = (tmp_path / "report" / "03_decoder_nan.html").read_text(encoding="utf-8")
    assert "knb-explorer" in page
    assert "What this does not show" in page
