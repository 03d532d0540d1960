import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.segment import output_of, result_nodes, with_outputs
from kokoro_nb.backends.specification import Specification, picks
from tests.backends.small import Layers, Of, taking


def _block():
    return Layers(nn.Conv1d(4, 4, 3, padding=1), nn.InstanceNorm1d(4, affine=True), nn.LeakyReLU(0.1))


class Network(nn.Module):
    """The same block twice, one of several results that is not the first, a write in place, a constant, an integer."""

    output_names = ("first", "second", "table", "place")

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([_block(), _block()])
        self.register_buffer("table", torch.arange(3.0))

    def forward(self, x):
        y = self.blocks[1](self.blocks[0](x))
        _, tail = torch.split(y, [1, 3], dim=1)
        left, right = torch.chunk(tail, 2, dim=2)
        z = left.clone()
        z[:, 0] = 0.25
        z += right
        peak, place = z.max(dim=2)
        return z * self.table[:, None], torch.sin(peak) + 0.1, self.table, place


X = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def exported():
    torch.manual_seed(0)
    return export_program(Network(), {"x": X})


@pytest.fixture(scope="module")
def specification(exported):
    return exported.specification


def _values(specification, double=False, inputs=None):
    """Run it and return outputs and every result as arrays."""
    found = {}
    outputs = specification.run(inputs or {"x": X.numpy()}, lambda name, one: found.update({name: one.clone()}), double)
    return outputs, {name: value.numpy() for name, value in found.items()}


def test_an_operator_says_what_it_is_computed_from(specification):
    known = {operator.name: operator for operator in specification.operators}
    conv = known["blocks.1.0:conv1d"]
    assert conv.op == "aten.conv1d.default"
    assert (conv.shape, conv.dtype) == ((1, 4, 6), "float32")
    constants = ("constant:blocks.1.0.weight", "constant:blocks.1.0.bias")
    assert conv.inputs == ("blocks.0.2:leaky_relu", *constants)
    assert known["blocks.0.0:conv1d"].inputs[0] == "input:x"
    for operator in specification.operators:  # what it names comes before it
        earlier = {one.name for one in specification.operators[: specification.operators.index(operator)]}
        assert {one for one in operator.inputs if not one.startswith(("input:", "constant:"))} <= earlier


def test_a_number_that_is_read_out_of_a_tensor_stands_for_what_it_is_read_from():
    operators = export_program(Of(lambda x: x * (x.abs().max() + 1).item()), {"x": X}).specification.operators
    assert [one.name for one in operators if one.name == ":item"] == []
    (product,) = [one for one in operators if one.name == ":mul"]
    assert product.inputs == ("input:x", ":add")


def test_the_run_equals_the_module_bit_for_bit(specification, exported):
    outputs, values = _values(specification)
    with torch.no_grad():
        expected = exported.module(X)
    assert tuple(outputs) == Network.output_names
    for value, right in zip(outputs.values(), expected, strict=True):
        np.testing.assert_array_equal(value, right.numpy())
    assert list(values) == [operator.name for operator in specification.operators]
    for operator in specification.operators:
        assert values[operator.name].shape == operator.shape
        assert str(values[operator.name].dtype) == operator.dtype


class Made(nn.Module):
    """Tensors that are made inside, by every way of saying float32 or not saying anything."""

    def forward(self, x):
        grid = torch.linspace(0, 1, 6) + torch.arange(6) / 3 + torch.full((6,), 0.1)
        grid = grid + torch.ones(6, dtype=torch.float32) / 7 + x.new_full((6,), 0.3) + torch.arange(6).float() * 0.7
        return (x * grid).to(torch.float32) / 3 + torch.zeros_like(x, dtype=torch.float32)


def test_in_float64_every_float_is_one():
    exported = export_program(Made(), {"x": X})
    outputs, values = _values(exported.specification, double=True)
    assert {str(value.dtype) for value in values.values() if value.dtype.kind == "f"} == {"float64"}
    n, x = np.arange(6), X.numpy().astype(np.float64)
    grid = n / 5 + n / 3 + 0.1 + 1 / 7 + 0.3 + n * 0.7
    np.testing.assert_allclose(outputs["output"], x * grid / 3, rtol=1e-14)
    assert torch.get_default_dtype() == torch.float32
    single, _ = _values(exported.specification)
    assert single["output"].dtype == np.float32
    assert np.abs(single["output"] - outputs["output"]).max() > 1e-9  # float32 would not have passed


def test_a_complex_result_is_widened_too():
    spectrum = Of(lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs())
    specification = export_program(spectrum, {"x": torch.randn(1, 64)}).specification
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 64)).astype(np.float32)}
    _, single = _values(specification, inputs=inputs)
    _, values = _values(specification, double=True, inputs=inputs)
    assert values[":stft"].dtype == np.complex128
    assert specification.recompute(":abs", inputs, single).dtype == torch.float64
    np.testing.assert_array_equal(specification.recompute(":abs", inputs, single, double=False), single[":abs"])


def test_what_was_not_captured_is_computed_first(specification, exported):
    known = {"blocks.0.0:conv1d": np.random.default_rng(0).standard_normal((1, 4, 6)).astype(np.float32)}
    result = specification.recompute("blocks.1.0:conv1d", {"x": X}, known)
    blocks = exported.module.blocks
    with torch.no_grad():
        between = torch.tensor(known["blocks.0.0:conv1d"]).double()
        expected = blocks[1].double()[0](F.leaky_relu(blocks[0].double()[1](between), 0.1))
        blocks.float()
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


def test_a_capture_in_half_precision_or_short_integers_is_read_as_it_is():
    lookup = taking(lambda x, ids: torch.gather(x * 3, 1, ids + 1))
    x, ids = torch.randn(2, 5), torch.tensor([[0, 1], [2, 3]])
    specification = export_program(lookup, {"x": x, "ids": ids}).specification
    captured = {":mul": (3 * x).numpy().astype(np.float16), ":add": (ids + 1).numpy().astype(np.int32)}
    for double, dtype in ((True, torch.float64), (False, torch.float32)):
        result = specification.recompute(":gather", {"x": x, "ids": ids}, captured, double)
        assert result.dtype == dtype
        expected = np.take_along_axis(captured[":mul"], captured[":add"], axis=1)
        np.testing.assert_array_equal(result.numpy(), expected)


def test_what_was_captured_is_viewed_in_the_order_of_the_program_s_memory():
    """As in whisper's encoder: attention, transpose, view."""

    def attention(x):
        heads = x.view(1, 6, 2, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).view(1, 6, 8)

    x = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(0))
    specification = export_program(Of(attention), {"x": x}).specification
    outputs, captured = _values(specification, inputs={"x": x})
    name = next(one for one in captured if "attention" in one)
    last = specification.operators[-1].name
    plain = {name: np.ascontiguousarray(captured[name])}
    for double in (False, True):
        found = specification.recompute(last, {"x": x}, plain, double).numpy()
        np.testing.assert_allclose(found, outputs["output"], rtol=1e-5)


class Everything(nn.Module):
    """Operators that PyTorch takes apart, each into several."""

    def __init__(self, channels=3, length=4):
        super().__init__()
        self.batch = nn.BatchNorm1d(channels)
        self.instance = nn.InstanceNorm1d(channels, affine=True)
        self.layer, self.group = nn.LayerNorm(length), nn.GroupNorm(1, channels)
        self.linear, self.up = nn.Linear(length, length), nn.ConvTranspose1d(channels, channels, 3, padding=1)
        self.attention = nn.MultiheadAttention(length, 1, batch_first=True)
        self.table = nn.Embedding(5, length)

    def forward(self, x, ids):
        y = self.up(self.linear(self.group(self.layer(self.instance(self.batch(x)))))) + self.table(ids).mean()
        y = y + self.attention(y, y, y)[0] + F.gelu(y, approximate="tanh") + F.silu(y) + F.hardtanh(y)
        y = F.softmax(y, -1) + y.std(-1, keepdim=True) + F.interpolate(y, scale_factor=2.0, mode="linear")[..., ::2]
        y = torch.atan2(y, y + 1) + torch.remainder(y, 1) + torch.logsumexp(y, -1, keepdim=True)
        y = y.clone()
        y[:, :1] *= 0.5
        first, second = torch.split(F.normalize(y, dim=1), [1, y.shape[1] - 1], dim=1)
        return F.glu(torch.cat([second, second], 1), 1) + torch.einsum("bcn,bdn->bcd", first, second).mean()


def test_results_are_found_again_in_the_core_operators():
    # Values and not names decide: the node that is said to hold a result must hold its very numbers.
    torch.manual_seed(0)
    inputs = {"x": torch.randn(2, 2, 2), "ids": torch.randint(0, 5, (2, 2))}
    exported = export_program(Everything(2, 2), inputs)
    specification, core = exported.specification, exported.program.run_decompositions()
    arrays = {name: value.numpy() for name, value in inputs.items()}
    _, values = _values(specification, inputs=arrays)
    results = specification.results(core.graph.nodes)
    changed = Specification(core, specification.inputs, specification.outputs, specification)
    _, found = _values(changed, inputs=arrays)
    assert set(found) == set(results)
    assert len(core.graph.nodes) > len(specification.program.graph.nodes) + 10
    assert {operator.name for operator in specification.operators} == set(results)  # each of a write in place, too
    for name, value in found.items():
        np.testing.assert_allclose(value, values[name], rtol=1e-4, atol=1e-5)


def test_of_a_write_to_a_part_each_operator_is_found_again_in_a_copy_of_the_graph():
    """Functionalisation makes several operators of one call: what is written, and the whole with it."""

    def writes(x):
        y = x.clone()
        y[:, 1:3].mul_(2.0)
        return y + 1

    exported = export_program(Of(writes), {"x": torch.ones(2, 5)})
    names = list(result_nodes(exported))
    assert {":mul", ":slice_scatter"} <= set(names)
    assert list(output_of(with_outputs(exported, names))) == names


def test_what_differs_in_the_last_bits_of_float64_is_ordered_as_it_comes():
    ordered = picks(torch.ops.aten.argsort.default, "float32")
    assert ordered(torch.tensor([1 + 2.0**-40, 1], dtype=torch.float64)).tolist() == [0, 1]
