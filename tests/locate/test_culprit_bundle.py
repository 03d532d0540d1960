import json
import re
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.diagnosis import write_finding_bundle
from kokoro_nb.locate.investigation import investigate, reference_trace
from kokoro_nb.run_apart import run_apart
from tests.backends.small import Layers, Of

torch.manual_seed(0)
MODEL = Layers(nn.Conv1d(3, 4, 3), nn.Tanh(), nn.Conv1d(4, 2, 3), Of(torch.sin)).eval()
INPUTS = {"x": torch.randn(1, 3, 40, generator=torch.Generator().manual_seed(1))}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    healthy = export_program(MODEL, INPUTS)
    broken = plant(healthy, Fault("sign_flip", "2:conv1d"))
    reference = reference_trace(healthy, INPUTS)
    culprit = investigate(broken, INPUTS, "onnxruntime", reference, folder / "artefacts").culprit
    given = (culprit, broken, healthy, reference)
    return *given, write_finding_bundle(*given, folder / "made")


def run(bundle, *arguments):
    return run_apart(["-I", bundle / "repro.py", *arguments], folder=bundle)


def test_the_script_fails_while_the_fault_is_there_and_passes_when_mended(found):
    *_, bundle = found
    done = run(bundle)
    assert done.status == 1, done.stdout + done.stderr
    assert done.stdout.endswith("The defect is there.\n")
    assert "100 % wrong" in done.stdout
    assert run(bundle, "--mended").status == 0


def test_it_holds_the_one_operator_and_what_went_into_it(found):
    *_, reference, bundle = found
    about = json.loads((bundle / "finding.json").read_text())
    (name,) = about["inputs"]
    assert torch.equal(load_file(bundle / "values.safetensors")[name], torch.from_numpy(reference.values["1:tanh"]))
    calls = [n for n in torch.export.load(bundle / "right.pt2").graph.nodes if n.op == "call_function"]
    assert [str(node.target) for node in calls] == ["aten.conv1d.default"]
    assert about["finding"]["tap"] == "2:conv1d"
    assert 0 < about["limit"] < 1e-5
    assert "2:conv1d" in (bundle / "REPORT.md").read_text()


def test_no_file_in_it_needs_this_package(found):
    *_, bundle = found
    for path in bundle.glob("*.py"):
        assert not re.search(r"^\s*(import|from) kokoro", path.read_text(), re.MULTILINE)


def test_what_cannot_be_bundled(found, tmp_path):
    culprit, broken, healthy, reference, _ = found
    with pytest.raises(InputError, match="No script runs eager"):
        write_finding_bundle(replace(culprit, backend="eager"), broken, healthy, reference, tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_a_fault_that_is_not_finite_is_reproduced_both_ways(found, tmp_path):
    _, _, healthy, reference, _ = found
    broken = plant(healthy, Fault("nan_channel", "2:conv1d"))
    culprit = investigate(broken, INPUTS, "onnxruntime", reference, tmp_path / "artefacts").culprit
    bundle = write_finding_bundle(culprit, broken, healthy, reference, tmp_path / "made")
    assert (run(bundle).status, run(bundle, "--mended").status) == (1, 0)
    report = (bundle / "REPORT.md").read_text()
    assert "Seen in the whole model: local error not finite, " in report
    assert "None" not in report
    assert 0 < json.loads((bundle / "finding.json").read_text())["limit"] < 1e-4


def test_an_operator_that_pytorch_gets_as_wrong_makes_no_bundle(tmp_path):
    healthy = export_program(Of(lambda x: (100 * x).exp().log()), INPUTS)
    reference = reference_trace(healthy, INPUTS)
    tap = next(one for one in reference.taps if one.name == ":exp")
    culprit = Culprit("divergence", "fail", "onnxruntime", tap, upstream=(":mul",))
    with pytest.raises(InputError, match=r":exp alone is as wrong in PyTorch: its result is beyond its dtype"):
        write_finding_bundle(culprit, healthy, healthy, reference, tmp_path / "made")
    assert not list(tmp_path.iterdir())


def test_an_operator_that_is_right_alone_makes_no_bundle(found, tmp_path):
    culprit, _, healthy, reference, _ = found
    with pytest.raises(InputError, match="2:conv1d alone, on PyTorch's inputs, is right on onnxruntime"):
        write_finding_bundle(culprit, healthy, healthy, reference, tmp_path / "made")
    assert not list(tmp_path.iterdir())
