"""One door: whatever the runtime shows, one diagnosis comes of it, with the reason for its method."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.module_diagnosis import traced_diagnosis
from tests.backends.small import Of, taking
from tests.refusals import refused

NET = Of(lambda x: (x.sin() * 2).exp() + 1)
X = {"x": torch.linspace(0.5, 2, 12).reshape(1, 3, 4)}


@dataclass(frozen=True)
class Delegated(Eager):
    """Eager PyTorch, under the name of a delegate that shows no operator."""

    delegate: str = "opaque"


@pytest.fixture(scope="module")
def healthy():
    return export_program(NET, X)


@pytest.fixture(scope="module")
def faulty(healthy):
    return plant(healthy, Fault("sign_flip", ":exp"))


def test_a_runtime_that_shows_its_operators_is_traced_and_written_as_json_and_as_a_page(healthy, faulty, tmp_path):
    found = diagnose(faulty, X, "eager", reference=healthy)
    assert (found.verdict, found.method, found.first.tap.name) == ("fail", "tracing", ":exp")
    assert found.why.startswith("eager shows ")
    assert found.first.local_error == pytest.approx(2)  # of the peak: what is given is -1 times the right value
    assert ":exp is the first operator that is wrong" in found.statement
    assert [row["operator"] for row in found.table()] == [":exp"]
    assert json.loads(json.dumps(found.row(), allow_nan=False))["culprits"][0]["tap"] == ":exp"
    page = found.save_html(tmp_path / "found.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert ":exp is the first operator that is wrong" in page
    assert "http" not in page.replace("http-equiv", "")
    assert ":exp" in str(found)


def test_a_delegate_that_hides_its_operators_is_bisected_and_makes_no_bundle(healthy, faulty, tmp_path):
    found = diagnose(faulty, X, Delegated("delegated"), reference=healthy)
    assert (found.verdict, found.method, found.first.tap.name) == ("fail", "bisection", ":exp")
    assert found.why == "the operators that opaque computes are inside its delegate, which shows no results"
    assert found.first.local_error == pytest.approx(2)
    assert found.bisection.compilations <= found.bisection.limit
    assert found.without_tensors() is found
    refused("delegated shows no operator, so that the inputs", found.save_bundle, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_an_element_that_is_not_finite_leaves_no_number_as_the_local_error(healthy):
    found = diagnose(plant(healthy, Fault("nan_channel", ":exp")), X, "eager", healthy, "bisection")
    assert found.first.tap.name == ":exp"
    assert np.isnan(found.first.local_error)
    assert "local error not finite" in str(found)


@pytest.mark.parametrize("runtime", ["eager", Delegated("delegated")])
def test_a_healthy_program_passes(runtime):
    found = diagnose(NET, X, runtime)
    assert (found.verdict, found.first, found.table()) == ("pass", None, [])
    refused("There is no operator to reproduce", found.save_bundle, "nowhere")


def test_bisection_compares_with_the_reference_that_was_given(healthy):
    other = export_program(NET, X)
    faulty = replace(plant(healthy, Fault("sign_flip", ":exp")), named_by=None)
    found = diagnose(faulty, X, Delegated("delegated"))
    assert found.verdict == "pass"  # the program computes on the runtime what it computes in eager
    with pytest.raises(InputError, match="The reference has other operators than the program"):
        diagnose(faulty, X, Delegated("delegated"), reference=other)


def test_the_reference_may_be_a_trace(healthy, faulty):
    known = reference_trace(healthy, X, "eager-float64")
    assert diagnose(faulty, X, "eager", reference=known).first.tap.name == ":exp"


def test_an_export_that_fails_is_a_diagnosis():
    found = diagnose(Of(lambda x: x if x.sum() > 0 else -x), X, "onnxruntime")
    assert (found.verdict, found.method, found.first) == ("fail", "export", None)
    assert found.failure.rung == "exported"
    assert ", in <lambda>: found = diagnose(Of(lambda x: x if x.sum()" in found.statement
    assert (found.exit_status, f"culprit: {found.failure.source}" in str(found)) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "guessing"}, "'guessing' is not one of auto, tracing, bisection."),
        ({"precision": "float16"}, "'float16' is not one of float32, float64."),
        ({"inputs": {}}, "Input 'x' is missing"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence):
    refused(sentence, diagnose, **{"program": NET, "inputs": X, "backend": "eager", **arguments})


@pytest.mark.parametrize(("limit", "verdict"), [(None, "pass"), (0.0, "unknown")])
def test_what_was_not_captured_is_in_doubt_where_the_outputs_are(healthy, limit, verdict):
    found = diagnose(healthy, X, "eager", limit=limit)
    seen = found.investigation.candidate
    seen = replace(seen, taps=tuple(tap for tap in seen.taps if tap.op != "aten.sin.default"))
    off = {name: value + np.float32(1e-7) for name, value in found.investigation.history.first.items()}
    history = replace(found.investigation.history, first=off)
    judged = traced_diagnosis(found.subject, replace(found.investigation, candidate=seen, history=history))
    assert (judged.verdict, judged.culprits) == (verdict, ())
    if verdict == "pass":
        assert judged.statement.endswith("; 1 was not captured, from :sin on, and the outputs are within their limit.")


def test_without_tensors_it_has_every_figure(healthy, faulty):
    found = diagnose(faulty, X, "eager", reference=healthy)
    light = found.without_tensors()
    assert found.investigation.candidate.values
    assert light.investigation.candidate.values == light.investigation.reference.values == {}
    assert [error.given.size for error in light.investigation.errors] == [0] * len(found.investigation.errors)
    assert light.row() == found.row()
    assert light.try_remedies().table() == found.table()


@pytest.mark.parametrize("runtime", ["onnxruntime", "executorch-portable", "tvm-unfused"])
def test_a_program_with_branches_is_diagnosed(runtime, tmp_path):
    branches = Of(lambda x: torch.cond(x.sum() > 0, lambda y: y.sin() + 1, lambda y: y.cos(), (x * 2,)))
    found = diagnose(branches, X, runtime, folder=tmp_path)
    assert (found.verdict, found.output.verdict) == ("pass", "pass")


def test_an_input_that_nothing_reads_is_said():
    inputs = {"x": torch.ones(3), "speaker": torch.tensor([1])}
    assert "No operator reads speaker." in str(diagnose(taking(lambda x, speaker: torch.sin(x)), inputs, "eager"))
    assert "No operator reads" not in str(diagnose(torch.nn.Sigmoid(), {"input": torch.ones(3)}, "eager"))
