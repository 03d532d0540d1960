"""The schema that a program tells is the client's own, to each constraint; every other one is named."""

import copy
import json

import pytest

from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER, contract
from kokoro_nb.delivery.clients.model_schema import model_schema, schema_faults

RULES = contract("react-native-executorch")


def _in(tensor, axis):
    return {"paramSide": "input", "tensorIdx": tensor, "dimIdx": axis}


def _out(tensor, axis):
    return {"paramSide": "output", "tensorIdx": tensor, "dimIdx": axis}


def _schema(name, rules=RULES):
    return json.loads(json.dumps(model_schema(rules.programs[name], rules.ranges)))


def test_the_constraints_are_exactly_those_of_the_client():
    (equal,) = _schema(PREDICTOR)["forward"]["runtimeConstraints"]
    assert equal == {"kind": "equality", "dims": [_in(0, 1), _in(1, 1), _out(0, 0), _out(1, 1)]}
    equal, linear = _schema(SYNTHESIZER)["forward"]["runtimeConstraints"]
    assert equal == {"kind": "equality", "dims": [_in(0, 1), _in(1, 1), _in(3, 1)]}
    assert linear == {"kind": "linear", "dimLhs": _out(0, 2), "dimRhs": _in(2, 0), "coefficients": [600, 0]}


def test_sizes_are_reported_as_ranges_where_the_text_decides_and_as_constants_elsewhere():
    shape = _schema(SYNTHESIZER)["forward"]["inputs"][3]["shape"]
    assert shape[0] == {"kind": "constant", "value": 1}
    assert shape[1] == {"kind": "range", "range": {"min": 8, "max": 128, "step": 1}}
    assert shape[2] == {"kind": "constant", "value": 640}
    assert _schema(PREDICTOR)["forward"]["inputs"][1]["dtype"] == "bool"


def test_of_the_padded_form_the_frames_alone_vary():
    padded = contract("react-native-executorch-padded")
    assert _schema(PREDICTOR, padded)["forward"]["runtimeConstraints"] == []
    (linear,) = _schema(SYNTHESIZER, padded)["forward"]["runtimeConstraints"]
    assert linear["kind"] == "linear"
    assert _schema(PREDICTOR, padded)["forward"]["inputs"][0]["shape"][1] == {"kind": "constant", "value": 128}


@pytest.mark.parametrize("name", [PREDICTOR, SYNTHESIZER])
@pytest.mark.parametrize("client", ["react-native-executorch", "react-native-executorch-padded"])
def test_our_own_has_no_fault_in_whatever_order_an_equality_is(name, client):
    rules = contract(client)
    told = _schema(name, rules)
    assert list(schema_faults(told, rules.programs[name], rules)) == []
    for one in told["forward"]["runtimeConstraints"]:
        one.get("dims", []).reverse()
    assert list(schema_faults(told, rules.programs[name], rules)) == []


def _change(*path, to):
    def change(schema):
        place = schema["forward"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


FAULTS = {
    "no forward": (lambda schema: schema.pop("forward"), "schema form"),
    "no constraints": (_change("runtimeConstraints", to=[]), "schema constraints"),
    "another factor": (_change("runtimeConstraints", 1, "coefficients", to=[300, 0]), "schema constraints"),
    "no mask": (lambda schema: schema["forward"]["inputs"].pop(1), "schema form"),
    "a mask of int64": (_change("inputs", 1, "dtype", to="int64"), "schema dtype"),
    "fixed frames": (_change("inputs", 2, "shape", 0, to={"kind": "constant", "value": 296}), "schema size"),
    "512 features": (_change("inputs", 3, "shape", 2, "value", to=512), "schema size"),
    "two ranges of tokens": (_change("inputs", 3, "shape", 1, "range", "max", to=64), "schema range"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named(fault):
    change, rule = FAULTS[fault]
    told = copy.deepcopy(_schema(SYNTHESIZER))
    change(told)
    assert rule in [kind for kind, _, _ in schema_faults(told, RULES.programs[SYNTHESIZER], RULES)]
