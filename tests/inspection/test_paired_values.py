"""Two programs: what is paired and what is not, where a value is alike by chance, folded, turned, rounded or whole."""

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection.input_maker import varied
from tests.backends.small import Of


@pytest.fixture
def branched(written):
    """Write a file of a comparison and what one of two numbers adds to an exponential of an input."""

    def make(name, comparison="Less", reads="large", gate="tanh", last="gated", draws=False):
        steps = [(comparison, "x half", "below"), ("Where", "below low high", "chosen"), ("Exp", "x", "large")]
        steps += [("RandomUniformLike" if draws else "Tanh", "x", "tanh"), ("Sub", f"large {gate}", "apart")]
        steps += [("Mul", f"chosen {reads}", "part"), *([("Mul", "part apart", "gated")] if last == "gated" else [])]
        given = {"half": np.float32(0.3), "low": np.float32(-1), "high": np.float32(2)}
        return written(name, [*steps, ("Add", f"x {last}", "y")], given, {"x": [1, 90]})

    return make


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"comparison": "Greater"}, "Greater below", "its result is not that of Less below (Less)"),
        ({"gate": "large"}, "Sub apart", "it does not read 'tanh', as Sub apart there does"),
        ({"reads": "tanh"}, "Mul part", "it does not read 'large', as Mul part there does"),
        ({"last": "part"}, "Add y", "there does; the first operator there that the file lacks is Mul gated"),
        ({"draws": True}, "RandomUniformLike tanh", "draws at random, and nothing in a.onnx does"),
    ],
)
def test_flags_inputs_and_draws_are_compared(branched, change, key, words):
    report = nb.inspect(branched("b.onnx", **change), against=branched("a.onnx"))
    assert (report.first.key, report.first.blame) == (key, "file")
    assert words in report.first.statement


def test_attributes_of_what_is_made_of_constants_are_compared(written):
    weight = np.random.default_rng(4).standard_normal((5, 5)).astype(np.float32)

    def turned(name, **order):
        return written(name, [("Transpose", "w", "t", order), ("MatMul", "x t", "y")], {"w": weight}, {"x": [1, 4, 5]})

    right = turned("a.onnx", perm=[1, 0])
    (found,) = nb.inspect(turned("b.onnx", perm=[0, 1]), against=right).findings
    assert (found.key, found.blame) == ("Transpose t", "file")
    assert found.statement.endswith("the attribute perm is [0, 1] in place of [1, 0].")  # not "exactly 1 times"
    assert nb.inspect(turned("c.onnx"), against=right).findings == ()  # the default says the same


def test_files_of_the_same_constants_are_compared_more_closely_than_those_of_rounded_ones(written):
    weight = np.random.default_rng(5).standard_normal((6, 6)).astype(np.float32)

    def elu(name, to=np.float32, **alpha):
        given = {"w": weight.astype(to).astype(np.float32)}
        return written(name, [("MatMul", "x w", "m"), ("Elu", "m", "y", alpha)], given, {"x": [9, 6]})

    right = elu("a.onnx")
    (found,) = nb.inspect(elu("b.onnx", alpha=1 + 2**-9), against=right).findings
    assert (found.key, found.blame) == ("Elu y", "file")
    assert found.statement.endswith(": the attribute alpha is 1.00195 in place of 1.")
    assert nb.inspect(elu("c.onnx", np.float16, alpha=1 + 2**-9), against=right).findings == ()
    assert nb.inspect(elu("d.onnx", np.float16), against=right).findings == ()


def test_outputs_of_integers_are_compared(written):
    def places(name, *kinds):
        names = ["p", *kinds]
        made = [(kind, one, kind) for one, kind in zip(names, kinds, strict=False)]
        steps = [("Mul", "x k", "p"), *made, ("Cast", names[-1], "y", {"to": 7})]
        return written(name, steps, {"k": np.float32(300)}, {"x": [40]}, y=7)

    right = places("a.onnx", "Floor")
    (found,) = nb.inspect(places("b.onnx"), against=right).findings
    assert (found.key, found.operator) == ("Cast y", "Cast")
    assert nb.inspect(places("c.onnx", "Floor"), against=right).findings == ()


def test_integers_that_are_all_the_same_are_varied():
    ones = varied({"mask": np.ones((2, 3), np.int64), "length": np.full(1, 7), "ids": np.arange(5)}, 1)
    assert sorted(ones["mask"].reshape(-1)) == [0, 0, 0, 1, 1, 1]
    assert ones["mask"].dtype == np.int64
    assert ones["length"] == [7]
    assert sorted(ones["ids"]) == list(range(5))
    masks = {"some": np.arange(8) < 6, "all": np.ones(8, bool)}
    assert {name: int(one.sum()) for name, one in varied(masks, 1).items()} == {"some": 6, "all": 6}


def test_variations_that_a_module_refuses_are_left_out(written):
    table = np.float32([[1, 2], [3, 5], [8, 13]])
    file = written("a.onnx", [("Cast", "x", "i", {"to": 7}), ("Gather", "t i", "y")], {"t": table}, {"x": [40]})
    places = np.arange(40, dtype=np.float32) % 3  # at the level of these some are out of range
    module = Of(lambda x: torch.from_numpy(table).index_select(0, x.long()))
    assert nb.inspect(file, {"x": places}, against=module).findings == ()


def test_two_inputs_that_are_exchanged_are_no_other_weights(written):
    random = np.random.default_rng(6)
    weights = {key: random.standard_normal((5, 5)).astype(np.float32) for key in "pq"}

    def joined(name, *reads):
        products = [("MatMul", f"{reads[0]} p", "a"), ("MatMul", f"{reads[1]} q", "b")]
        steps = [("Tanh", "x", "t"), ("Sin", "x", "s"), *products, ("Sum", "a b t s", "y")]
        return written(name, steps, weights, {"x": [6, 5]})

    (found,) = nb.inspect(joined("b.onnx", "s", "t"), against=joined("a.onnx", "t", "s")).findings
    assert (found.key, found.counterpart) == ("MatMul a", "MatMul a")
    assert "it reads another value, what is s there for t" in found.statement
    assert "constant" not in found.statement


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"reads": "t s"}, "Sub d", "inputs are exchanged, what is t, s there for s, t"),
        ({"floor": 1e-5}, "Clip c", "Log l is the first"),
    ],
)
def test_exchanged_inputs_and_a_constant_that_a_later_node_shows_are_named(written, change, key, words):
    def levels(name, reads="s t", floor=1e-6):
        steps = [("Tanh", "x", "t"), ("Abs", "x", "s"), ("Sub", reads, "d"), ("Clip", "d floor", "c")]
        steps += [("Log", "c", "l"), ("Add", "l d", "y")]
        return written(name, steps, {"floor": np.float32(floor)}, {"x": [9]})

    x = {"x": np.array([*np.linspace(-200, -1, 8), 0], np.float32)}
    (found,) = nb.inspect(levels("b.onnx", **change), x, against=levels("a.onnx")).findings
    assert (found.key, found.blame) == (key, "file"), found.statement
    assert words in found.statement


TANH, GAIN = ("Tanh", "x", "t"), ("Mul", "t k", "g")
AXES = ("Unsqueeze", "x one", "u"), ("Unsqueeze", "x two", "v")
BACK, LAST = ("Gather", "t back", "b", {"axis": 1}), ("MatMul", "b w", "y")


@pytest.mark.parametrize(
    ("right", "wrong", "key"),
    [
        ([TANH, ("MatMul", "t w", "y")], [TANH, GAIN, ("MatMul", "g w", "y")], "Mul g"),
        ([TANH, ("Exp", "t", "y")], [TANH, ("Add", "t k", "g"), ("Exp", "g", "y")], "Add g"),
        ([TANH, BACK, ("Exp", "b", "y")], [TANH, GAIN, ("Gather", "g back", "b", BACK[3]), ("Exp", "b", "y")], "Mul g"),
        ([*AXES, ("Add", "u v", "y")], [*AXES, ("Sub", "u v", "y")], "Sub y"),
        ([TANH, BACK, LAST], [TANH, ("Gather", "t near", "b", BACK[3]), LAST], "Gather b"),
    ],
    ids=["gain", "offset", "before a flip", "axes", "order"],
)
def test_an_operator_is_named_and_not_what_is_right_beside_it(written, right, wrong, key):
    constants = {"w": np.random.default_rng(9).standard_normal((6, 6)).astype(np.float32), "k": np.float32(1.5)}
    places = {"one": [1], "two": [2], "back": [5, 4, 3, 2, 1, 0], "near": [5, 4, 3, 2, 0, 1]}
    constants |= {name: np.array(one) for name, one in places.items()}
    files = [written(f"{k}.onnx", one, constants, {"x": [6, 6]}) for k, one in enumerate((wrong, right))]
    found = nb.inspect(files[0], against=files[1]).first
    assert (found.key, found.blame) == (key, "file"), found.statement


def test_a_weight_in_another_order_is_said_to_be_so(written):
    weight = np.random.default_rng(7).standard_normal((6, 6)).astype(np.float32)
    files = {"a.onnx": weight, "b.onnx": weight[::-1].copy()}
    right, file = (written(name, [("MatMul", "x w", "y")], {"w": one}, {"x": [3, 6]}) for name, one in files.items())
    (found,) = nb.inspect(file, against=right).findings
    assert found.statement.endswith("the constant 'w' has its values in another order.")
    assert found.mechanism.name == "changed layout or shift"


def test_a_condition_that_is_written_otherwise_and_exchanged_factors_are_no_divergence(written):
    def signed(name, condition, chosen, factors):
        steps = [("Neg", "x", "n"), (condition, "x zero", "c"), ("Where", f"c {chosen}", "w")]
        given = dict(zip(("zero", "p", "q"), map(np.float32, (0, *factors)), strict=True))
        return written(name, [*steps, ("Mul", "w p", "a"), ("Mul", "a q", "y")], given, {"x": [1, 40]})

    right = signed("a.onnx", "Less", "n x", (2, 3))
    assert nb.inspect(signed("b.onnx", "GreaterOrEqual", "x n", (3, 2)), against=right).findings == ()
    wrong = nb.inspect(signed("c.onnx", "Less", "n x", (2, 4)), against=right)
    assert (wrong.first.key, wrong.first.mechanism.name) == ("Mul y", "changed constant")


def test_weights_rounded_to_8_bits_and_stored_as_floats_are_no_other_weights(written):
    weight = np.random.default_rng(8).standard_normal((32, 32)).astype(np.float32)
    rounded = np.round(weight * 127 / np.abs(weight).max()) * np.abs(weight).max() / 127
    louder = rounded * np.where(np.arange(32) == 3, 1.5, 1)
    edited = weight + 0.05 * (np.arange(1024) == 99).reshape(32, 32)  # one number, which no output shows much
    steps = [("MatMul", "x w", "m"), ("Tanh", "m", "y")]
    for given, named in ((rounded, ""), (louder, "MatMul m"), (edited, "MatMul m"), (np.float16(weight), "")):
        right, file = (
            written(f"{k}.onnx", steps, {"w": np.float32(one)}, {"x": [2, 32]}) for k, one in enumerate((weight, given))
        )
        found = nb.inspect(file, against=right)
        assert (found.first.key if found.first else "") == named
        assert ("that 16 bits hold exactly: 1, as 'w'; there 0" in found.notes[-1]) == (given.dtype == np.float16)


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
        ("d b a c", 1, "", ""),
        ("b d a c", 1, "Concat e", "in another order"),
        ("d b a c", 3, "Conv y", "each channel of its result is that of :mul"),
    ],
)
def test_folded_weights_are_no_other_weights_and_an_order_is_found_in_other_operators(
    written, parts, factor, key, words
):
    module = Gained()
    gain, weight, bias = (one.detach().numpy() for one in (module.gain, module.conv.weight, module.conv.bias))
    steps = [("Split", "x", "a b c d", {"axis": 1}), ("Concat", parts, "e", {"axis": 1}), ("Conv", "e w bias", "y")]
    constants = {"w": weight * gain[:, :, None], "bias": bias * gain[:, 0] * np.float32(factor)}
    findings = nb.inspect(written("m.onnx", steps, constants, {"x": [1, 4, 9]}, opset=13), against=module).findings
    assert [one.key for one in findings] == [key] * bool(key)
    assert all(words in one.statement and "the constant" not in one.statement for one in findings), findings


def test_rounded_activations_that_are_clipped_are_named_beside_the_float_file(written):
    def tanh(name, step=None):
        rounds = [("QuantizeLinear", "t s z", "q"), ("DequantizeLinear", "q s z", "d")]
        steps = [("Tanh", "x", "t"), *(rounds if step else [("Identity", "t", "d")]), ("Exp", "d", "y")]
        return written(name, steps, {"s": np.float32(step or 0), "z": np.int8(0)}, {"x": [1, 60]})

    whole = tanh("float.onnx")
    (found,) = [one for one in nb.inspect(tanh("b.onnx", 1e-3), against=whole).findings if one.kind == "structure"]
    assert found.key == "DequantizeLinear d"
    assert not [one for one in nb.inspect(tanh("c.onnx", 8e-3), against=whole).findings if one.kind == "structure"]
