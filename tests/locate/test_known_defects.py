"""A known defect is named where operator, backend and mechanism are its own, and nowhere else."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import export_program
from kokoro_nb.defects import DEFECTS
from kokoro_nb.faults import Fault, plant
from kokoro_nb.locate.culprit import NAMES, Culprit, Mechanism, with_known_defect
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap
from tests.backends.small import Of
from tests.locate.function_modules import first_divergence

X = {"x": torch.linspace(-2, 2, 24).reshape(1, 4, 6)}


@pytest.fixture(scope="module")
def exported():
    return export_program(Of(lambda x: F.gelu(F.instance_norm(x), approximate="tanh") + 1), X)


def _named(exported, name, backend, *mechanisms):
    operator = next(one for one in exported.specification.operators if one.name == name)
    tap = Tap(operator, describe(np.zeros(operator.shape, operator.dtype)))
    found = with_known_defect(Culprit("divergence", "fail", backend, tap, mechanisms=mechanisms), exported)
    return found.mechanism.defect, found.mechanism.threads


VARIANCE = Mechanism("one-pass variance", "E[x2] - E[x]2")


def test_operator_backend_and_mechanism_have_to_be_those_of_the_defect(exported):
    known = ("tvm_instance_norm", ("apache/tvm#14410",))
    assert _named(exported, ":instance_norm", "tvm-unfused", VARIANCE) == known
    assert _named(exported, ":instance_norm", "onnxruntime", VARIANCE) == (None, ())
    assert _named(exported, ":instance_norm", "tvm-unfused", Mechanism("changed scale", "x")) == (None, ())
    assert _named(exported, ":instance_norm", "tvm-unfused") == (None, ())
    other = Mechanism("operator lowered as another", "gelu computed as GELU by erf")
    assert _named(exported, ":gelu", "executorch-xnnpack", other)[0] == "xnnpack_tanh_gelu"
    assert _named(exported, ":add", "executorch-xnnpack", other) == (None, ())


def test_the_arguments_count(exported):
    other = Mechanism("operator lowered as another", "gelu computed as GELU by tanh")
    by_erf = export_program(Of(lambda x: F.gelu(x) + 1), X)
    assert _named(by_erf, ":gelu", "executorch-xnnpack", other) == (None, ())
    for divided, defect in ((lambda x: x / 3, None), (lambda x: x // 3, "onnx_floor_division")):
        program = export_program(Of(divided), X)
        assert _named(program, program.specification.operators[-1].name, "onnxruntime")[0] == defect


def test_what_was_planted_is_no_known_defect(exported):
    planted = plant(exported, Fault("nan_channel", ":instance_norm"))
    assert _named(planted, ":instance_norm", "tvm-unfused", VARIANCE) == (None, ())


def test_what_the_defects_say_is_of_the_catalogues():
    linked = [defect for defect in DEFECTS if defect.operators]
    assert len(linked) >= 15
    for defect in linked:
        assert defect.mechanism in ("", *NAMES)
        assert any(name.startswith(defect.backends) for name in BACKENDS)
        assert isinstance(defect.concerns(SimpleNamespace(get=lambda *_: None)), bool)


def _wrong_channel(array):
    array = array.copy()
    array[:, 1] += np.float32(0.5)
    return array


def test_the_sentence_names_operator_backend_place_and_pattern(toy):
    program = toy()
    found = first_divergence(program.trace(), program.trace({":sin": _wrong_channel}, backend="tvm"))
    assert found.statement == (
        "On tvm :sin is the first operator that is wrong: 1 of 4 channels wholly, by the same amount along time: "
        "a per-channel scalar."
    )
    lost = first_divergence(program.trace(), program.trace({":sin": _wrong_channel}, missing=[":sin"], backend="tvm"))
    assert lost.statement.startswith(
        "On tvm :add, or one of 2 of which it is the last that was captured, is the first operator that is wrong: "
    )


def test_plain_values(toy):
    program = toy()
    found = first_divergence(program.trace(), program.trace({":sin": lambda x: -x})).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert (found["tap"], found["op"], found["module path"]) == (":sin", "aten.sin.default", "")
    assert found["mechanism"]["statement"] == "a turned sign"
