"""A program decomposed call by call is the one that PyTorch makes of the whole, and made of a fraction of its calls."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import default_decompositions
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.called_operators import arguments_by_name, calling_module, is_element, origin
from kokoro_nb.backends.distinct_calls import EDITED, decomposed
from kokoro_nb.backends.late_code import late_code

X = torch.linspace(-2, 2, 4 * 24).reshape(1, 4, 24)
DECOMPOSE = torch.export.ExportedProgram.run_decompositions


class Layers(nn.Module):
    """What models call over and over: norms, chunks, dropout, views and casts, on two shapes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norms = nn.ModuleList(nn.InstanceNorm1d(4, affine=True) for _ in range(6))
        self.layers = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(6))
        self.wide, self.drop, self.tall = nn.Linear(24, 24), nn.Dropout(0.3), nn.GroupNorm(2, 4)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = self.drop(nn.functional.silu(norm(layer(x))))
            first, second = x.chunk(2, dim=1)
            x = torch.cat((first * 2, second), dim=1)
        scale = torch.tensor([0.5, 2.0]).repeat(2)[:, None]
        half = nn.functional.silu(x[..., ::2] * scale).to(torch.float64).float()
        spread = self.tall(half).transpose(1, 2).flatten(1).unflatten(1, (12, 4)).reshape(1, -1)
        values, places = self.wide(x).max(dim=-1)
        return spread, values, places


class Writing(nn.Module):
    """Sums that are written to what is new, and seen by nobody else."""

    def forward(self, x):
        total = torch.sin(x)
        for step in range(3):
            total += torch.cos(x * step)
            total.mul_(0.5)
        return total / 3, total


class Renamed(nn.Module):
    """The first result takes the name that the second had."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.drop(torch.sin(x)), torch.cos(x).clone()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(24, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 2)

    def forward(self, x):
        return nn.functional.softmax(self.last(self.lstm(x)[0]), dim=-1)


class InputWritten(nn.Module):
    def forward(self, x):
        x.add_(1)
        return torch.sin(x)


class PartWritten(nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        y[:, 0] = 0.0
        return y


class SeenElsewhere(nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        part = y[:, 1:]
        y += 1
        return part * 2


class SameGiven(nn.Module):
    """Dropout gives what it is given, and the schema does not say so."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        y = torch.sin(x)
        same = self.drop(y)
        y += 1
        return same * 2


class Narrowed(nn.Module):
    """A sum of float64 that is written to float32."""

    def forward(self, x):
        y = torch.sin(x)
        y += x.double()
        return y * 2


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


class Counted(nn.Module):
    def forward(self, x):
        return nn.functional.silu(x) * x.abs().max().item()


def exported(module, **options):
    with quietly(), torch.no_grad():
        return torch.export.export(module.eval(), (X.clone(),), strict=False, **options)


def tables():
    from torch.onnx._internal.exporter import _decomp, _registration

    registered = set(_decomp.get_onnx_implemented_overloads(_registration.ONNXRegistry.from_torchlib()))
    onnx = _decomp.create_onnx_friendly_decomposition_table(registered)
    return {"none": {}, "core": default_decompositions(), "ONNX": onnx}


@pytest.fixture(scope="module")
def table(request):
    with quietly():
        return tables()[request.param]


def both(program, table):
    """Return what PyTorch makes of the program, and what is made call by call."""
    with quietly(), late_code():
        return DECOMPOSE(program, table), decomposed(program, table, DECOMPOSE)


def written(program):
    """Return all that a program says, node by node; constants in the order of their names."""
    first = sorted((node for node in program.graph.nodes if node.op == "placeholder"), key=lambda node: node.name)
    nodes = [*first, *(node for node in program.graph.nodes if node.op != "placeholder")]
    places = {node: f"%{place}" for place, node in enumerate(nodes)}
    rows = []
    for node in nodes:
        known = isinstance(node.target, torch._ops.OpOverload)
        given = map_arg(arguments_by_name(node) if known else node.args, places.get)
        values = [(one.shape, one.stride(), one.dtype) for one in tree_leaves(node.meta.get("val")) if one is not None]
        called = (calling_module(node), origin(node), bool(node.stack_trace)) if node.op == "call_function" else ()
        # elements are counted in their names, and in a trace of the whole those too that nobody reads
        rows.append((node.op, "" if is_element(node) else node.name, str(node.target), given, values, *called))
    return rows


@pytest.mark.parametrize("table", ["none", "core", "ONNX"], indirect=True)
@pytest.mark.parametrize("module", [Layers, Writing, Renamed, Recurrent])
def test_the_program_is_the_same_node_by_node(module, table):
    program = exported(module())
    whole, made = both(program, table)
    assert made is not None
    assert written(made) == written(whole)
    assert made.graph_signature.input_specs == whole.graph_signature.input_specs
    assert [one.arg.name for one in made.graph_signature.output_specs] == list(made.graph_signature.user_outputs)
    assert made.dialect == whole.dialect != program.dialect
    assert [entry.fqn for entry in made.module_call_graph] == [entry.fqn for entry in whole.module_call_graph]
    with torch.no_grad():
        for one, right in zip(made.module()(X), whole.module()(X), strict=True):
            np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize("table", ["none", "core", "ONNX"], indirect=True)
@pytest.mark.parametrize("part", ["DecoderStage", "FromHarStage"])
def test_the_decoder_is_the_same_node_by_node(part, table, shallow, shallow_case):
    from kokoro_nb.backends.exported import export_program
    from kokoro_nb.models import stages
    from kokoro_nb.models.patches import EXPORT_PATCHES, patched

    decoder, inputs = shallow.model.decoder, shallow_case.decoder_inputs(8)
    with patched(shallow.model, EXPORT_PATCHES):
        given = stages.from_har_inputs(decoder, inputs) if part == "FromHarStage" else inputs
        program = export_program(getattr(stages, part)(decoder), given).program
    whole, made = both(program, table)
    assert written(made) == written(whole)


@pytest.mark.parametrize("module", [InputWritten, PartWritten, SeenElsewhere, SameGiven, Narrowed, Branch, Counted])
def test_what_cannot_be_seen_call_by_call_is_left_to_pytorch(module):
    assert decomposed(exported(module()), {}, DECOMPOSE) is None


def test_an_input_called_as_a_builtin_keeps_its_name_in_a_copy_of_the_graph():
    class Named(nn.Module):
        def forward(self, input):
            return nn.functional.silu(input)

    first = decomposed(exported(Named()), {}, DECOMPOSE)
    first._graph_module = copy.deepcopy(first.graph_module)  # as exporters do
    assert [node.name for node in first.graph.nodes if node.op == "placeholder"] == ["input_1"]
    second = decomposed(first, default_decompositions(), DECOMPOSE)
    assert [node.name for node in second.graph.nodes if node.op == "placeholder"] == ["input"]
    np.testing.assert_allclose(second.module()(X), nn.functional.silu(X), rtol=1e-6)


def test_sizes_that_are_not_known_and_edited_programs_are_left_to_pytorch():
    time = torch.export.Dim("time", min=4, max=64)
    assert decomposed(exported(Writing(), dynamic_shapes=({2: time},)), {}, DECOMPOSE) is None
    program = exported(Writing())
    assert decomposed(program, {}, DECOMPOSE) is not None
    program.graph_module.meta[EDITED] = True
    assert decomposed(program, {}, DECOMPOSE) is None


def test_only_distinct_calls_are_traced():
    program, traced = exported(Layers()), []

    def decompose(one, table):
        traced.append(one)
        return DECOMPOSE(one, table)

    assert decomposed(program, default_decompositions(), decompose) is not None
    (one,) = traced
    calls = [node for node in one.graph.nodes if node.op == "call_function" and not is_element(node)]
    assert len({node.name for node in calls}) < 0.4 * len(program.graph.nodes)
    assert sum("instance_norm" in str(node.target) for node in calls) == 1, "one for six layers of one shape"


def test_an_operator_that_cannot_be_decomposed_is_named_by_the_whole_program():
    def refuse(*_):
        raise NotImplementedError("silu is not for sale")

    program, table = exported(Layers()), {torch.ops.aten.silu.default: refuse}
    assert decomposed(program, table, DECOMPOSE) is None
    with pytest.raises(NotImplementedError, match="silu is not for sale"), quietly():
        DECOMPOSE(program, table)
