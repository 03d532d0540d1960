import json

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.decoder_search import localise_decoder

FAULT = "sign_flip@decoder.decode.1.norm1:add"


@pytest.fixture(scope="module")
def planted():
    return localise_decoder("eager", frames=4, faults=[FAULT])


def test_a_planted_fault_is_named(planted):
    told = planted.as_dict()
    assert planted.verdict == told["verdict"] == "fail"
    assert told["finding"]["tap"] == "decoder.decode.1.norm1:add"
    assert told["planted"] == [FAULT]
    assert len(told["faults"]) == 1
    assert "narrow" in told["weights"]
    assert "decoder.decode.1.norm1:add is the first operator that is wrong" in planted.describe()
    json.dumps(told, allow_nan=False)


def test_the_healthy_decoder_has_no_fault():
    found = localise_decoder("eager", frames=4, reference="eager-float64")
    assert (found.verdict, found.found.faults, found.found.candidate.missing) == ("pass", (), ())
    assert found.found.probe.difference == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "eagre"}, "There is no backend 'eagre'"),
        ({"name": "tvm-metal"}, "tvm-metal cannot run here"),
        ({"name": "eager", "faults": ["sign_flip"]}, "is no fault"),
        ({"name": "eager", "faults": ["bent@:cat"]}, "no kind of fault"),
        ({"name": "eager", "weights": "nowhere"}, "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        localise_decoder(**arguments)


@pytest.mark.slow
def test_a_finding_is_written_as_a_bundle(tmp_path):
    found = localise_decoder("onnxruntime", frames=4, faults=[FAULT], bundle=tmp_path / "bundle")
    assert found.verdict == "fail"
    assert {"repro.py", "case.py", "runner.py", "REPORT.md"} <= {path.name for path in (tmp_path / "bundle").iterdir()}


@pytest.mark.slow
def test_a_delegate_is_cut():
    found = localise_decoder("executorch-xnnpack", frames=4, faults=[FAULT]).as_dict()
    assert (found["method"], found["verdict"], found["tap"]) == ("bisection", "fail", ["decoder.decode.1.norm1:add"])
    assert found["searches"][0]["compilations"] <= found["searches"][0]["at most"]
