"""Two programs: what is paired and what is not, where a value is alike by chance, folded, turned, rounded or whole."""

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection.input_maker import varied


@pytest.fixture
def branched(save, node):
    """Write a file of a comparison and what one of two numbers adds to an exponential of an input."""

    def make(name, comparison="Less", reads="large", gate="tanh", last="gated", draws=False):
        nodes = [
            node(comparison, ["x", "half"], ["below"], name="/below"),
            node("Where", ["below", "low", "high"], ["chosen"], name="/chosen"),
            node("Exp", ["x"], ["large"], name="/large"),
            node("Tanh", ["x"], ["tanh"], name="/tanh"),
            node("Sub", ["large", gate], ["apart"], name="/apart"),
            node("Mul", ["chosen", reads], ["part"], name="/part"),
            node("Mul", ["part", "apart"], ["gated"], name="/gated"),
            node("Add", ["x", last], ["y"], name="/sum"),
        ]
        if last != "gated":
            del nodes[6]
        if draws:
            nodes[3] = node("RandomUniformLike", ["x"], ["tanh"], name="/noise")
        given = {"half": np.float32(0.3), "low": np.float32(-1), "high": np.float32(2)}
        return save(nodes, {"x": [1, 90]}, ["y"], given, name=name)

    return make


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"comparison": "Greater"}, "/below", "computes something else than /below (Less)"),
        ({"gate": "large"}, "/apart", "it does not read 'tanh', as /apart there does"),
        ({"reads": "tanh"}, "/part", "it does not read 'large', as /part there does"),
        ({"last": "part"}, "/sum", "there does; the first operator there that the file lacks is /gated"),
        ({"draws": True}, "/noise", "draws at random, and nothing in a.onnx does"),
    ],
)
def test_flags_inputs_and_draws_are_compared(branched, change, key, words):
    report = nb.inspect(branched("b.onnx", **change), against=branched("a.onnx"))
    assert (report.first.key, report.first.blame) == (key, "file")
    assert words in report.first.statement


def test_attributes_of_what_is_made_of_constants_are_compared(save, node):
    weight = np.random.default_rng(4).standard_normal((5, 5)).astype(np.float32)

    def turned(name, **order):
        nodes = [
            node("Transpose", ["w"], ["t"], name="/turn", **order),
            node("MatMul", ["x", "t"], ["y"], name="/product"),
        ]
        return save(nodes, {"x": [1, 4, 5]}, ["y"], {"w": weight}, name=name)

    right = turned("a.onnx", perm=[1, 0])
    (found,) = nb.inspect(turned("b.onnx", perm=[0, 1]), against=right).findings
    assert (found.key, found.blame) == ("/turn", "file")
    assert found.statement.endswith("the attribute perm is [0, 1] in place of [1, 0].")  # not "exactly 1 times"
    assert nb.inspect(turned("c.onnx"), against=right).findings == ()  # the default says the same


def test_files_of_the_same_constants_are_compared_more_closely_than_those_of_rounded_ones(save, node):
    weight = np.random.default_rng(5).standard_normal((6, 6)).astype(np.float32)

    def elu(name, to=np.float32, **alpha):
        nodes = [node("MatMul", ["x", "w"], ["m"], name="/m"), node("Elu", ["m"], ["y"], name="/elu", **alpha)]
        return save(nodes, {"x": [9, 6]}, ["y"], {"w": weight.astype(to).astype(np.float32)}, name=name)

    right = elu("a.onnx")
    (found,) = nb.inspect(elu("b.onnx", alpha=1 + 2**-9), against=right).findings
    assert (found.key, found.blame) == ("/elu", "file")
    assert found.statement.endswith(": the attribute alpha is 1.001953125 in place of 1.0.")
    assert nb.inspect(elu("c.onnx", np.float16, alpha=1 + 2**-9), against=right).findings == ()
    assert nb.inspect(elu("d.onnx", np.float16), against=right).findings == ()


def test_outputs_of_integers_are_compared(save, node):
    def places(name, *kinds):
        names = ["p", *kinds]
        made = [node(kind, [one], [kind], name=f"/{kind}") for one, kind in zip(names, kinds, strict=False)]
        nodes = [
            node("Mul", ["x", "k"], ["p"], name="/scale"),
            *made,
            node("Cast", [names[-1]], ["y"], name="/y", to=7),
        ]
        return save(nodes, {"x": [40]}, ["y"], {"k": np.float32(300)}, name=name, y=7)

    right = places("a.onnx", "Floor")
    (found,) = nb.inspect(places("b.onnx"), against=right).findings
    assert (found.key, found.operator) == ("/y", "Cast")
    assert nb.inspect(places("c.onnx", "Floor"), against=right).findings == ()


def test_integers_that_are_all_the_same_are_varied():
    ones = varied({"mask": np.ones((2, 3), np.int64), "length": np.full(1, 7), "ids": np.arange(5)}, 1)
    assert sorted(ones["mask"].reshape(-1)) == [0, 0, 0, 1, 1, 1]
    assert ones["mask"].dtype == np.int64
    assert ones["length"] == [7]
    assert sorted(ones["ids"]) == list(range(5))


def test_two_inputs_that_are_exchanged_are_no_other_weights(save, node):
    random = np.random.default_rng(6)
    weights = {key: random.standard_normal((5, 5)).astype(np.float32) for key in "pq"}

    def joined(name, *reads):
        nodes = [
            node("Tanh", ["x"], ["t"], name="/tanh"),
            node("Sin", ["x"], ["s"], name="/sin"),
            node("MatMul", [reads[0], "p"], ["a"], name="/p"),
            node("MatMul", [reads[1], "q"], ["b"], name="/q"),
            node("Sum", ["a", "b", "t", "s"], ["y"], name="/y"),
        ]
        return save(nodes, {"x": [6, 5]}, ["y"], weights, name=name)

    (found,) = nb.inspect(joined("b.onnx", "s", "t"), against=joined("a.onnx", "t", "s")).findings
    assert (found.key, found.counterpart) == ("/p", "/p")
    assert "it reads another value, what is s there for t" in found.statement
    assert "constant" not in found.statement


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"reads": "ts"}, "/apart", "inputs are exchanged, what is t, s there for s, t"),
        ({"floor": 1e-5}, "/floor", "/log is the first"),
    ],
)
def test_exchanged_inputs_and_a_constant_that_a_later_node_shows_are_named(save, node, change, key, words):
    def levels(name, reads="st", floor=1e-6):
        nodes = [
            *(node("Tanh", ["x"], ["t"]), node("Abs", ["x"], ["s"]), node("Sub", [*reads], ["d"], name="/apart")),
            node("Clip", ["d", "floor"], ["c"], name="/floor"),
            *(node("Log", ["c"], ["l"], name="/log"), node("Add", ["l", "d"], ["y"], name="/y")),
        ]
        return save(nodes, {"x": [9]}, ["y"], {"floor": np.float32(floor)}, name=name)

    x = {"x": np.array([*np.linspace(-200, -1, 8), 0], np.float32)}
    (found,) = nb.inspect(levels("b.onnx", **change), x, against=levels("a.onnx")).findings
    assert (found.key, found.blame) == (key, "file"), found.statement
    assert words in found.statement


TANH, GAIN = ("Tanh", "x", "t"), ("Mul", "t k", "g")
AXES = ("Unsqueeze", "x one", "u"), ("Unsqueeze", "x two", "v")
BACK = ("Gather", "t back", "b", {"axis": 1})


@pytest.mark.parametrize(
    ("right", "wrong", "key"),
    [
        ([TANH, ("MatMul", "t w", "y")], [TANH, GAIN, ("MatMul", "g w", "y")], "Mul g"),
        ([TANH, ("Exp", "t", "y")], [TANH, ("Add", "t k", "g"), ("Exp", "g", "y")], "Add g"),
        ([TANH, BACK, ("Exp", "b", "y")], [TANH, GAIN, ("Gather", "g back", "b", BACK[3]), ("Exp", "b", "y")], "Mul g"),
        ([*AXES, ("Add", "u v", "y")], [*AXES, ("Sub", "u v", "y")], "Sub y"),
    ],
    ids=["gain", "offset", "before a flip", "axes"],
)
def test_an_operator_is_named_and_not_what_is_right_beside_it(save, node, right, wrong, key):
    constants = {"w": np.random.default_rng(9).standard_normal((6, 6)).astype(np.float32), "k": np.float32(1.5)}
    constants |= {"one": np.array([1]), "two": np.array([2]), "back": np.arange(6)[::-1].copy()}

    def written(name, steps):
        nodes = [
            node(kind, read.split(), [made], name=f"{kind} {made}", **dict(*more)) for kind, read, made, *more in steps
        ]
        used = {one for step in steps for one in step[1].split()}
        held = {one: array for one, array in constants.items() if one in used}
        return save(nodes, {"x": [6, 6]}, ["y"], held, name=name)

    found = nb.inspect(written("wrong.onnx", wrong), against=written("right.onnx", right)).first
    assert (found.key, found.blame) == (key, "file"), found.statement


def test_a_weight_in_another_order_is_said_to_be_so(save, node):
    weight = np.random.default_rng(7).standard_normal((6, 6)).astype(np.float32)

    def product(name, given):
        return save([node("MatMul", ["x", "w"], ["y"], name="/p")], {"x": [3, 6]}, ["y"], {"w": given}, name=name)

    (found,) = nb.inspect(product("b.onnx", weight[::-1].copy()), against=product("a.onnx", weight)).findings
    assert found.statement.endswith("the constant 'w' has its values in another order.")
    assert found.mechanism.name == "changed layout or shift"


def test_a_condition_that_is_written_otherwise_and_exchanged_factors_are_no_divergence(save, node):
    def signed(name, condition, chosen, factors):
        nodes = [
            *(node("Neg", ["x"], ["n"]), node(condition, ["x", "zero"], ["c"], name="/c")),
            node("Where", ["c", *chosen], ["w"], name="/where"),
            *(node("Mul", ["w", "p"], ["a"], name="/p"), node("Mul", ["a", "q"], ["y"], name="/q")),
        ]
        given = dict(zip(("zero", "p", "q"), map(np.float32, (0, *factors)), strict=True))
        return save(nodes, {"x": [1, 40]}, ["y"], given, name=name)

    right = signed("a.onnx", "Less", "nx", (2, 3))
    assert nb.inspect(signed("b.onnx", "GreaterOrEqual", "xn", (3, 2)), against=right).findings == ()
    wrong = nb.inspect(signed("c.onnx", "Less", "nx", (2, 4)), against=right)
    assert (wrong.first.key, wrong.first.mechanism.name) == ("/q", "changed constant")


def test_weights_rounded_to_8_bits_and_stored_as_floats_are_no_other_weights(save, node):
    weight = np.random.default_rng(8).standard_normal((32, 32)).astype(np.float32)
    step = np.abs(weight).max() / 127

    def product(name, given):
        nodes = [node("MatMul", ["x", "w"], ["m"], name="/m"), node("Tanh", ["m"], ["y"])]
        return save(nodes, {"x": [2, 32]}, ["y"], {"w": given.astype(np.float32)}, name=name)

    right, rounded = product("a.onnx", weight), np.round(weight / step) * step
    assert nb.inspect(product("b.onnx", rounded), against=right).findings == ()
    rounded[:, 3] *= 1.5
    assert nb.inspect(product("c.onnx", rounded), against=right).first.key == "/m"


class Gained(torch.nn.Module):
    """The channels of an input in another order, a convolution, and a gain of each channel."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv1d(4, 6, 3)
        self.gain = torch.nn.Parameter(torch.linspace(0.5, 2, 6)[:, None])

    def forward(self, x):
        return self.conv(x[:, [3, 1, 0, 2]]) * self.gain


@pytest.mark.parametrize(
    ("parts", "factor", "key", "words"),
    [
        ("dbac", 1, "", ""),
        ("bdac", 1, "/concat", "in another order"),
        ("dbac", 3, "/conv", "each channel of its result is that of :mul"),
    ],
)
def test_folded_weights_are_no_other_weights_and_an_order_is_found_in_other_operators(
    save, node, parts, factor, key, words
):
    module = Gained()
    gain, weight, bias = (one.detach().numpy() for one in (module.gain, module.conv.weight, module.conv.bias))
    nodes = [
        node("Split", ["x"], list("abcd"), name="/split", axis=1),
        node("Concat", list(parts), ["e"], name="/concat", axis=1),
        node("Conv", ["e", "w", "bias"], ["y"], name="/conv"),
    ]
    constants = {"w": weight * gain[:, :, None], "bias": bias * gain[:, 0] * np.float32(factor)}
    findings = nb.inspect(save(nodes, {"x": [1, 4, 9]}, ["y"], constants, opset=13), against=module).findings
    assert [one.key for one in findings] == [key] * bool(key)
    assert all(words in one.statement and "the constant" not in one.statement for one in findings), findings


def test_rounded_activations_that_are_clipped_are_named_beside_the_float_file(save, node):
    def tanh(name, step=None):
        rounds = [
            node("QuantizeLinear", ["t", "s", "z"], ["q"], name="/rounded"),
            node("DequantizeLinear", ["q", "s", "z"], ["d"], name="/again"),
        ]
        middle = rounds if step else [node("Identity", ["t"], ["d"], name="/same")]
        nodes = [node("Tanh", ["x"], ["t"], name="/tanh"), *middle, node("Exp", ["d"], ["y"], name="/exp")]
        given = {"s": np.float32(step), "z": np.int8(0)} if step else {}
        return save(nodes, {"x": [1, 60]}, ["y"], given, name=name)

    whole = tanh("float.onnx")
    (found,) = [one for one in nb.inspect(tanh("b.onnx", 1e-3), against=whole).findings if one.kind == "structure"]
    assert found.key == "/again"
    assert not [one for one in nb.inspect(tanh("c.onnx", 8e-3), against=whole).findings if one.kind == "structure"]
