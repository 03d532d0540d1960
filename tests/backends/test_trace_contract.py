"""One suite over every backend in the registry: what a trace must be, whatever runs the program."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.exported import export_program
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import CONSTANT, Trace
from tests.backends.small import here
from tests.refusals import refused


class Norm(nn.Module):
    """Instance normalisation, written out."""

    def forward(self, x):
        x = x - x.mean(dim=2, keepdim=True)
        return x * torch.rsqrt(x.pow(2).mean(dim=2, keepdim=True) + 1e-5)


class Network(nn.Module):
    """What a vocoder is made of, small; two of its inputs go by names that compilers like to use themselves."""

    output_names = ("audio", "phase")

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.norm = Norm()
        self.linear = nn.Linear(6, 6)
        self.up = nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)

    def forward(self, lv, kokoro_nb_1):
        x = F.leaky_relu(self.norm(self.conv(lv)), 0.1)
        left, right = torch.chunk(x, 2, dim=1)
        x = torch.cat([torch.sin(left), self.linear(right) * kokoro_nb_1], dim=1)
        return torch.exp(self.up(x)), torch.tanh(x).transpose(1, 2)


def _inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {"lv": torch.randn(1, 4, 6, generator=generator), "kokoro_nb_1": torch.randn(1, 4, 6, generator=generator)}


# Those whose traces must hold the result of every operator that computes, and how far it may be from what PyTorch
# computes in float64 on the captured inputs, of its peak: some units in the last place.
TRANSPARENT = {
    "eager": 1e-6,
    "eager-float64": 1e-14,
    "onnxruntime": 1e-6,
    "tvm-unfused": 1e-6,
    "coreml-reference-float32": 1e-6,
    "coreml-reference": 4e-3,
}


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(0)
    return export_program(Network(), _inputs())


@pytest.fixture(scope="module")
def loaded(exported, tmp_path_factory):
    """Export to a backend, once, and load."""
    kept, folder = {}, tmp_path_factory.mktemp("artefacts")

    def get(backend):
        if backend.name not in kept:
            kept[backend.name] = backend.export(exported, _inputs(), folder)
        assert isinstance(kept[backend.name], Artifact), str(kept[backend.name])
        return backend.load(kept[backend.name])

    return get


@pytest.fixture(params=[pytest.param(n, marks=[pytest.mark.slow] * (n == "aot-inductor")) for n in BACKENDS])
def backend(request):
    return here(request.param)


# ExecuTorch traces in a process of its own, which takes 8 s to start: one trace is enough for every day. AOTInductor
# takes half a minute to compile.
OWN_PROCESS = ("executorch-portable", "executorch-xnnpack", "aot-inductor")


@pytest.fixture(params=[pytest.param(n, marks=[pytest.mark.slow] * (n in OWN_PROCESS)) for n in BACKENDS])
def traceable(request):
    return here(request.param)


@pytest.fixture(scope="module")
def traced(loaded):
    """Trace everything on a backend, once."""
    return cache(lambda backend: loaded(backend).trace(_inputs(), keep="full"))


def _names(trace):
    return [tap.name for tap in trace.taps]


def test_every_operator_is_captured_or_missing_and_the_answer_is_the_same(backend, loaded, traced, exported):
    program, operators = loaded(backend), exported.specification.operators
    before, trace = program.run(_inputs()), traced(backend)
    assert isinstance(trace, Trace)
    assert (trace.backend, trace.requested) == (backend.name, operators)
    assert trace.how
    assert {*_names(trace)} | {*trace.missing} == {operator.name for operator in operators}
    assert len(trace.taps) + len(trace.missing) == len(operators)
    order = [operator.name for operator in operators]
    assert _names(trace) == [name for name in order if name in _names(trace)]
    for name, value in _inputs().items():
        np.testing.assert_array_equal(trace.inputs[name], value)
    for outputs in (trace.outputs, program.run(_inputs())):  # the tapped run, and an untapped one after it
        assert tuple(outputs) == exported.outputs
        for name, value in outputs.items():
            np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("name", [pytest.param("aot-inductor", marks=pytest.mark.slow), "onnxruntime-qnn", "tvm"])
def test_a_runtime_that_shows_nothing_inside_has_no_taps(name, traced):
    assert traced(here(name)).taps == ()


def test_statistics_are_those_of_the_values(backend, traced):
    trace = traced(backend)
    assert list(trace.values) == _names(trace)
    for tap in trace.taps:
        assert repr(tap.statistics) == repr(describe(tap.value))
        assert tap.value.shape == tap.operator.shape


def test_a_predicate_chooses_and_statistics_do_without_the_values(traceable, loaded, traced):
    full = traced(traceable)
    light = loaded(traceable).trace(_inputs(), lambda operator: operator.module_path == "norm")
    assert {*_names(light), *light.missing} == {one.name for one in full.requested if one.module_path == "norm"}
    assert [one.kind for one in light.requested] == ["mean", "sub", "pow", "mean", "add", "rsqrt", "mul"]
    assert light.values == {}
    for tap in light.taps:
        assert repr(tap.statistics) == repr(full[tap.name].statistics)


def test_other_inputs_give_other_values(traceable, loaded, traced):
    first, second = traced(traceable), loaded(traceable).trace(_inputs(1), ["norm:sub", ":cat"], "full")
    assert {*_names(second), *second.missing} == {"norm:sub", ":cat"}
    for name, value in second.values.items():
        assert np.abs(value - first.values[name]).max() > 0.01


def test_refuses_what_does_not_fit(backend, loaded):
    program = loaded(backend)
    refused("no operator 'norm:sab'; did you mean norm:sub", program.trace, _inputs(), ["norm:sab"])
    refused("'some' is not a way to record a tap", program.trace, _inputs(), keep="some")
    refused("Input 'lv' is missing", program.trace, {"kokoro_nb_1": _inputs()["kokoro_nb_1"]})


def _far(exported, trace):
    """Return how far each result is from what its operator gives in float64 on the captured inputs, of the peak."""
    found = {}
    for name, value in trace.values.items():
        right = exported.specification.recompute(name, trace.inputs, trace.values).numpy()
        found[name] = float(np.abs(value - right).max() / np.abs(right).max())
    return found


@pytest.mark.parametrize("name", TRANSPARENT)
def test_what_is_captured_is_what_the_operator_computes(name, traced, exported):
    trace = traced(here(name))
    views = ("split", "chunk", "transpose", "permute", "view", "unsqueeze")
    computing = [
        operator.name
        for operator in exported.specification.operators
        if not all(one.startswith(CONSTANT) for one in operator.inputs) and operator.kind not in views
    ]
    assert len(computing) >= 15
    assert set(computing) <= set(trace.values)
    far = _far(exported, trace)
    assert max(far.values()) <= TRANSPARENT[name], far
    dtype = {"eager-float64": "float64", "coreml-reference": "float16"}.get(name, "float32")
    assert {str(value.dtype) for value in trace.values.values()} == {dtype}


def test_a_linear_layer_and_a_convolution_keep_apart_in_tvm(tmp_path):
    # TVM prepares the weights of both beforehand, and gave what it prepares names that others had.
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.lv, self.lv1, self.lv2 = nn.Linear(6, 6), nn.Conv1d(6, 6, 1), nn.Linear(6, 6)

        def forward(self, x):
            return self.lv2(self.lv1(self.lv(x))) + self.lv(self.lv1(x))

    backend, inputs = here("tvm-unfused"), {"x": torch.randn(1, 6, 6)}
    pair = export_program(Pair(), inputs)
    trace = backend.load(backend.export(pair, inputs, tmp_path)).trace(inputs, keep="full")
    assert {"lv:linear", "lv:linear#2", "lv1:conv1d", "lv1:conv1d#2", "lv2:linear"} <= {*trace.values}
    assert max(_far(pair, trace).values()) < 1e-6
