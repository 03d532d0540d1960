"""One suite over every backend in the registry: what a trace must be, whatever runs the program."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.numerics.faults import edit_mlpackage_weight, edit_onnx_weight, mlpackage_weights, onnx_weights
from kokoro_nb.traces.operators import CONSTANT
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Trace


class Norm(nn.Module):
    """Instance normalisation, written out."""

    def forward(self, x):
        mean = x.mean(dim=2, keepdim=True)
        return (x - mean) * torch.rsqrt((x - mean).pow(2).mean(dim=2, keepdim=True) + 1e-5)


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
        return torch.exp(-self.up(x)), torch.tanh(x).transpose(1, 2)


def _inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {"lv": torch.randn(1, 4, 6, generator=generator), "kokoro_nb_1": torch.randn(1, 4, 6, generator=generator)}


# Share of the operators that compute of which a trace must hold the result, and how far a result may be from what
# PyTorch computes in float64 on the captured inputs, of its peak: some units in the last place. What is not here shows
# nothing, or what it pleases.
TRANSPARENT = {
    "eager": (1.0, 1e-6),
    "eager-float64": (1.0, 1e-14),
    "onnxruntime": (0.9, 1e-6),
    "tvm-unfused": (0.9, 1e-6),
    "coreml-reference": (0.9, 1e-6),
    "coreml-reference-float16": (0.9, 4e-3),
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


def _here(backend):
    reason = backend.available() or backend.executes()
    return backend if reason is None else pytest.skip(reason)


@pytest.fixture(params=BACKENDS.values(), ids=lambda one: one.name)
def backend(request):
    return _here(request.param)


@pytest.fixture(params=TRANSPARENT)
def transparent(request):
    return _here(BACKENDS[request.param])


def _names(trace):
    return [tap.name for tap in trace.taps]


def test_every_operator_is_captured_or_missing_and_the_answer_is_the_same(backend, loaded, exported):
    program, operators = loaded(backend), exported.specification.operators
    before = program.run(_inputs())
    trace = program.trace(_inputs(), keep="full")
    assert isinstance(trace, Trace)
    assert (trace.backend, trace.asked) == (backend.name, operators)
    assert trace.how
    assert {*_names(trace)} | {*trace.missing} == {operator.name for operator in operators}
    assert len(trace.taps) + len(trace.missing) == len(operators)
    order = [operator.name for operator in operators]
    assert _names(trace) == [name for name in order if name in _names(trace)]
    assert {name: value.tolist() for name, value in trace.inputs.items()} == {
        name: value.tolist() for name, value in _inputs().items()
    }
    for outputs in (trace.outputs, program.run(_inputs())):  # the tapped run, and an untapped one after it
        assert tuple(outputs) == exported.outputs
        for name, value in outputs.items():
            np.testing.assert_array_equal(value, before[name])


def test_statistics_are_those_of_the_values(backend, loaded):
    program = loaded(backend)
    full, light = program.trace(_inputs(), keep="full"), program.trace(_inputs())
    assert _names(full) == _names(light)
    assert light.values == {}
    assert list(full.values) == _names(full)
    for tap in full.taps:
        assert repr(tap.statistics) == repr(describe(tap.value)) == repr(light[tap.name].statistics)
        assert tap.value.shape == tap.operator.shape


def test_other_inputs_give_other_values(backend, loaded):
    program = loaded(backend)
    first, second = program.trace(_inputs(), keep="full"), program.trace(_inputs(1), keep="full")
    again = program.trace(_inputs(), keep="full")
    fixed = {name for name in first.values if np.array_equal(first.values[name], second.values[name])}
    assert not fixed
    for name, value in again.values.items():
        np.testing.assert_array_equal(value, first.values[name])


def test_names_and_predicates_choose(backend, loaded):
    program = loaded(backend)

    def asked(taps):
        trace = program.trace(_inputs(), taps)
        return {*_names(trace), *trace.missing}

    assert asked(["norm:sub", ":cat"]) == {"norm:sub", ":cat"}
    assert asked(":cat") == {":cat"}
    assert asked(lambda operator: operator.module_path == "norm" and operator.op.startswith("aten.mean")) == {
        "norm:mean",
        "norm:mean#2",
    }
    assert asked([]) == set()
    with pytest.raises(InputError, match="no operator 'norm:sab'; did you mean norm:sub"):
        program.trace(_inputs(), ["norm:sab"])
    with pytest.raises(InputError, match="'some' is no way to keep a tap"):
        program.trace(_inputs(), keep="some")
    with pytest.raises(InputError, match="Input 'lv' is missing"):
        program.trace({"kokoro_nb_1": _inputs()["kokoro_nb_1"]})


def _far(exported, trace):
    """Return how far each result is from what its operator gives in float64 on the captured inputs, of the peak."""
    found = {}
    for name, value in trace.values.items():
        right = exported.specification.recompute(name, trace.inputs, trace.values).numpy()
        found[name] = float(np.abs(value - right).max() / np.abs(right).max())
    return found


def test_what_is_captured_is_what_the_operator_computes(transparent, loaded, exported):
    share, limit = TRANSPARENT[transparent.name]
    trace = loaded(transparent).trace(_inputs(), keep="full")
    views = ("split", "chunk", "transpose", "permute", "view", "unsqueeze")
    computing = [
        operator.name
        for operator in exported.specification.operators
        if not all(one.startswith(CONSTANT) for one in operator.inputs) and operator.op.split(".")[1] not in views
    ]
    assert len(computing) >= 15
    assert len([name for name in computing if name in trace.values]) >= share * len(computing), trace.missing
    far = _far(exported, trace)
    assert max(far.values()) <= limit, far
    dtype = {"eager-float64": "float64", "coreml-reference-float16": "float16"}.get(transparent.name, "float32")
    assert {str(value.dtype) for value in trace.values.values()} == {dtype}


def test_a_wrong_value_under_a_name_would_be_seen(loaded, exported):
    # the control of the test above: two results of one shape, exchanged
    trace = loaded(BACKENDS["eager"]).trace(_inputs(), keep="full")
    values = dict(trace.values)
    values[":tanh"], values[":cat"] = values[":cat"], values[":tanh"]
    from types import SimpleNamespace

    far = _far(exported, SimpleNamespace(values=values, inputs=trace.inputs))
    assert far[":tanh"] > 1e-2
    assert far[":cat"] > 1e-2


def test_a_linear_layer_and_a_convolution_keep_apart_in_tvm(tmp_path):
    # TVM prepares the weights of both beforehand, and gave what it prepares names that others had.
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.lv, self.lv1, self.lv2 = nn.Linear(6, 6), nn.Conv1d(6, 6, 1), nn.Linear(6, 6)

        def forward(self, x):
            return self.lv2(self.lv1(self.lv(x))) + self.lv(self.lv1(x))

    backend = _here(BACKENDS["tvm-unfused"])
    inputs = {"x": torch.randn(1, 6, 6)}
    pair = export_program(Pair(), inputs)
    trace = backend.load(backend.export(pair, inputs, tmp_path)).trace(inputs, keep="full")
    assert isinstance(pair, Exported)
    assert {"lv:linear", "lv:linear#2", "lv1:conv1d", "lv1:conv1d#2", "lv2:linear"} <= {*trace.values}
    assert max(_far(pair, trace).values()) < 1e-6


@pytest.mark.parametrize(
    ("name", "weights", "edit"),
    [
        ("onnxruntime", onnx_weights, edit_onnx_weight),
        ("coreml-reference", mlpackage_weights, edit_mlpackage_weight),
    ],
)
def test_a_weight_edited_in_the_file_shows_where_it_is_read(name, weights, edit, tmp_path):
    torch.manual_seed(0)

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv1d(16, 16, 3, padding=1), nn.Conv1d(16, 16, 5, padding=2)

        def forward(self, x):
            return torch.sin(self.two(torch.sin(self.one(x))))

    backend, inputs = _here(BACKENDS[name]), {"x": torch.randn(1, 16, 8)}
    layers = export_program(Layers(), inputs)
    artifact = backend.export(layers, inputs, tmp_path)
    healthy = backend.load(artifact).trace(inputs, keep="full")
    (weight,) = (one for one, shape in weights(artifact.path).items() if shape == (16, 16, 5))
    edit(artifact.path, weight, lambda value: value * np.float32(1.5))
    trace = backend.load(artifact).trace(inputs, keep="full")
    np.testing.assert_array_equal(trace.values["one:conv1d"], healthy.values["one:conv1d"])
    far = _far(layers, trace)
    assert far["two:conv1d"] > 0.1
    assert max(value for operator, value in far.items() if operator != "two:conv1d") < 1e-6
