"""What a file does otherwise than the module that it is of, with the reason."""

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from tests.backends.small import Of

SHAPES = {"apart": np.array([1, 6, 2, 4]), "joined": np.array([1, 6, 8]), "left": np.array([0, 1, 0, 0, 0, 0])}


def heads(x, weight, *_):
    return (x.reshape(1, 6, 2, 4).transpose(1, 2).tanh().transpose(1, 2).reshape(1, 6, 8)) @ weight


def turned(x, weight, *_):
    a, b = x.chunk(2, -1)
    return (torch.cat([-b, a], -1) * weight[0]) @ weight


def shifted(x, weight, *_):
    return torch.nn.functional.pad(x, (0, 0, 1, 0)) @ weight


def dilated(x, weight, kernel, bias):
    return torch.nn.functional.conv1d(x, kernel, bias, padding=2, dilation=2)


def padded(x, weight, kernel, bias):
    return torch.nn.functional.elu(torch.nn.functional.conv1d(torch.nn.functional.pad(x, (2, 0)), kernel, bias))


def floored(x, *_):
    return (x.square() + 1e-6).log()


def clamped(x, *_):
    return x.relu().clamp(min=1e-8).log()


def summed(x, *_):
    return (x.cumsum(1) - x).tanh()


def delayed(x, *_):
    return summed(x).square()


def recurrent(x, weight, *_):
    zeros, held = x.new_zeros(1, 1, 2), (weight, weight[:, :2], weight[0], weight[1])
    return torch.lstm(x, (zeros, zeros), held, True, 1, 0.0, False, False, True)[0]


def raised(x, *_):
    return (1 + x.sigmoid()) * x


def masked(x, *_):
    return torch.where(torch.arange(8) < 6, x.tanh(), -3e38).softmax(-1)


def normed(x, weight, kernel, bias):
    found = torch.nn.functional.conv1d(torch.nn.functional.pad(x, (1, 1)), kernel)
    return torch.nn.functional.batch_norm(found, bias, bias.abs())


def gated(x, weight, *_):
    return torch.nn.functional.glu(x, 1) @ weight


def ranked(x, weight, *_):
    return torch.cat([x @ weight, x @ weight], -1).topk(2)[1]


def taken(x, weight, *_):
    return torch.cat([x @ weight, x @ weight], -1).argmax(-1)


def crossed(x, *_):
    a, b = x.chunk(2, -1)
    return a.tanh() * b.sin()


def centred(x, weight, *_):
    part = x[:, 1:5]
    return (part - part.mean(1, keepdim=True)) @ weight


def lstm(weights):
    layer = "LSTM", f"t {weights} added", "l", {"hidden_size": 2}
    return ("Transpose", "x", "t", {"perm": [1, 0, 2]}), layer, ("Reshape", "l pairs", "y")


APART = (("Reshape", "x apart", "h"), ("Transpose", "h", "t"), ("Tanh", "t", "u"), ("Transpose", "u", "v"))
SPLIT = (("Split", "x", "a b"), ("Neg", "b", "n"))
LAST, JOINED = (("Mul", "c first", "m"), ("MatMul", "m w", "y")), ("MatMul", "j w", "y")
SQUARE, LOG, RELU, LOGGED = ("Mul", "x x", "q"), ("Log", "a", "y"), ("Relu", "x", "r"), ("Log", "c", "y")
DILATED, NARROW = {"dilations": [2], "pads": [2, 2]}, {"dilations": [1], "pads": [1, 1]}
HALVES = ("Split", "x", "a b", {"axis": 1, "num_outputs": 2})
GATES = HALVES, ("Sigmoid", "b", "g"), ("Mul", "a g", "m")
MASK = ("Where", "mask t low", "m"), ("Softmax", "m", "y")
EXCLUSIVE = "CumSum", "x axis", "c", {"exclusive": 1}
SUMS, RAISES = ("CumSum", "x axis", "c"), ("Sigmoid", "x", "g")
LESS, END, SQUARED = ("Sub", "c x", "s"), ("Tanh", "s", "y"), (("Tanh", "s", "t"), ("Mul", "t t", "y"))
TWICE = ("Mul", "x three", "t"), ("MatMul", "t w", "a"), ("Div", "a three", "b"), ("MatMul", "x w", "c")
TIED = *TWICE, ("Concat", "b c", "s")  # equals up to the last bit of float64
FIRST = "ArgMax", "s", "y", {"axis": 2, "keepdims": 0}
LATER, LEFT = FIRST[3] | {"select_last_index": 1}, (("Conv", "x folded shift", "y", {"pads": [2, 0]}),)
ORDER = "as 4 blocks of axis 0 in the order 0, 2, 3, 1"
STATES = ("Transpose", "h", "t", {"perm": [1, 0, 2]}), *lstm("gates states")[1:]
HALF, ENDS = ("Split", "x", "a b"), ("Mul", "t s", "y")
PART, NEXT = ("Slice", "x axis to axis", "s"), ("Slice", "x two past axis", "s")
MEAN, OTHER, CENTRED = ("ReduceMean", "s axis", "m"), ("ReduceMean", "s last", "m"), (("Sub", "s m", "j"), JOINED)
CUT = ("Cast", "x", "i", {"to": 7}), ("Cast", "i", "f", {"to": 1}), ("Sigmoid", "f", "g")
INSERTED = RAISES, ("Sqrt", "g", "r"), ("Add", "r one", "p"), ("Mul", "p x", "y")
RIGHT = {
    padded: (("Conv", "x k bias", "c", {"pads": [2, 0]}), ("Elu", "c", "y")),
    heads: (*APART, ("Reshape", "v joined", "j"), JOINED),
    turned: (*SPLIT, ("Concat", "n a", "c"), *LAST),
    shifted: (("Pad", "x left", "p"), ("MatMul", "p w", "y")),
    dilated: (("Conv", "x k bias", "y", DILATED),),
    floored: (SQUARE, ("Add", "q tiny", "a"), LOG),
    clamped: (RELU, ("Clip", "r lowest", "c"), LOGGED),
    summed: (SUMS, LESS, END),
    recurrent: lstm("gates states"),
    delayed: (EXCLUSIVE, ("Tanh", "c", "t"), ("Mul", "t t", "y")),
    raised: (RAISES, ("Add", "g one", "p"), ("Mul", "p x", "y")),
    masked: (("Tanh", "x", "t"), *MASK),
    normed: (("Conv", "x folded shift", "y", {"pads": [1, 1]}),),
    ranked: (*TIED, ("TopK", "s two", "v y")),
    taken: (*TIED, FIRST),
    gated: (*GATES, ("MatMul", "m w", "y")),
    crossed: (HALF, ("Tanh", "a", "t"), ("Sin", "b", "s"), ENDS),
    centred: (PART, MEAN, *CENTRED),
}
GLU = "not that of :glu (aten.glu.default) in the reference: glu computed as GLU with its halves exchanged"
TURNED = HALVES, ("Sigmoid", "a", "g"), ("Mul", "b g", "m"), ("MatMul", "m w", "y")
WRONG = {
    "heads": (heads, (*APART[:3], ("Reshape", "u joined", "j"), JOINED), "Reshape j", "in another order"),
    "turned": (turned, (*SPLIT, ("Concat", "b a", "c"), *LAST), "Concat c", "in another order"),
    "shifted": (shifted, (("Pad", "x right", "p"), ("MatMul", "p w", "y")), "Pad p", "in another order"),
    "dilated": (dilated, (("Conv", "x k bias", "y", NARROW),), "Conv y", "dilation is [1] in place of [2]"),
    "sided": (padded, (("Conv", "x k bias", "c", {"pads": [0, 2]}), ("Elu", "c", "y")), "Conv c", "place of [2, 0] of"),
    "bias": (dilated, (("Conv", "x k", "y", DILATED),), "Conv y", "computed as one without its bias"),
    "negated": (dilated, (("Conv", "x minus bias", "y", DILATED),), "Conv y", "negated"),
    "blocks": (dilated, (("Conv", "x rolled bias", "y", DILATED),), "Conv y", "blocks of axis 0 in the order 2, 0, 1"),
    "transposed": (gated, (*GATES, ("MatMul", "m columns", "y")), "MatMul y", "transposed"),
    "exchanged": (gated, (*GATES, ("MatMul", "m halves", "y")), "MatMul y", "2 blocks of axis 0 in the order 1, 0"),
    "floored": (floored, (SQUARE, ("Add", "q small", "a"), LOG), "Add a", "0.01 in place of 1e-6"),
    "clamped": (clamped, (RELU, ("Clip", "r rounded", "c"), LOGGED), "Clip c", "6e-8 in place of 1e-8"),
    "summed": (summed, (SUMS, ("Tanh", "c", "y")), "Tanh y", "the file has no :sub"),
    "exclusive": (delayed, (EXCLUSIVE, LESS, *SQUARED), "CumSum c", "the attribute exclusive is 1 in place of 0"),
    "input gates": (recurrent, lstm("w3 states"), "LSTM l", f"it gives what :lstm there gives with tensors.0 {ORDER}"),
    "gates": (recurrent, lstm("w3 r3"), "LSTM l", f"it gives what :lstm there gives with tensors.0, :slice {ORDER}"),
    "ended": (summed, (SUMS, ("Sub", "c x", "y")), "Sub y", "the file ends here, and has no :tanh"),
    "raised": (raised, (RAISES, ("Add", "g nothing", "p"), ("Mul", "p x", "y")), "Add p", "0 in place of 1"),
    "dim": (summed, (("CumSum", "x last", "c"), LESS, END), "CumSum c", "cumsum computed as one whose dim is 2, not 1"),
    "inserted": (raised, INSERTED, "Sqrt r", "it stands before Add p, and no Sqrt stands before :add"),
    "masked": (masked, (("Sin", "x", "t"), *MASK), "Sin t", "its result is not that of :tanh"),
    "folded": (normed, (("Conv", "x other moved", "y", {"pads": [1, 1]}),), "Conv y", "times a number"),
    "padded": (normed, LEFT, "Conv y", "its pads are [2, 0] in place of [1, 1] of :pad"),
    "ranked": (ranked, (*TIED, ("TopK", "s two", "v y", {"largest": 0})), "TopK v y", "largest is 0 in place of 1"),
    "taken": (taken, (*TIED, (*FIRST[:3], LATER)), "ArgMax y", "attribute select_last_index is 1 in place of 0"),
    "gated": (gated, TURNED, "Split a b", GLU),
    "order": (gated, (*GATES, ("MatMul", "m mixed", "y")), "MatMul y", "gives with tensors.0 in another order"),
    "crossed": (crossed, (HALF, ("Tanh", "b", "t"), ("Sin", "a", "s"), ENDS), "Tanh t", "there: they are exchanged"),
    "sliced": (centred, (NEXT, MEAN, *CENTRED), "Slice s", "with start 2 in place of 1, end 6 in place of 5"),
    "averaged": (centred, (PART, OTHER, *CENTRED), "ReduceMean m", "gives with dim [2] in place of [1]"),
    "stateful": (recurrent, (("Tanh", "x", "h"), *STATES), "Tanh h", "not that of :lstm (aten.lstm.input[0]) in"),
    "cut": (raised, (*CUT, ("Add", "g one", "p"), ("Mul", "p x", "y")), "Cast i", "its input's, truncated to whole"),
}


@pytest.mark.parametrize(("function", "wrong", "key", "words"), WRONG.values(), ids=WRONG)
def test_what_a_file_does_otherwise_than_its_module_is_named_with_the_reason(written, function, wrong, key, words):
    weight = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
    kernel = np.repeat(weight[:6, :6, None], 3, 2)
    constants = {"w": weight, "first": weight[0], "k": kernel, "bias": weight[0, :6], **SHAPES}
    constants |= {"right": np.roll(SHAPES["left"], 3), "axis": np.array([1]), "minus": -kernel}
    constants |= {"rolled": np.roll(kernel, 2, 0), "columns": weight.T, "halves": np.roll(weight, 4, 0)}
    constants |= {"w3": weight[None], "r3": weight[None, :, :2], "pairs": np.array([1, 6, 2])}
    rows = np.r_[0:2, 6:8, 2:6]  # ONNX has the gates in another order
    constants |= {"gates": weight[None, rows], "states": weight[None, rows, :2]}
    constants |= {"added": weight[:2, rows].reshape(1, 16), "mixed": weight[[4, 0, 5, 1, 6, 2, 3, 7]]}
    constants |= {"to": np.array([5]), "past": np.array([6])}
    numbers = {"three": 3, "tiny": 1e-6, "small": 1e-2, "one": 1, "nothing": 0, "lowest": 1e-8, "rounded": 6e-8}
    constants |= {name: np.float32(one) for name, one in numbers.items()}
    for scale, offset, eps in (("folded", "shift", 1e-5), ("other", "moved", 1e-1)):
        factor = (np.abs(constants["bias"]) + eps) ** -0.5
        constants |= {scale: kernel * factor[:, None, None], offset: -constants["bias"] * factor}
    constants |= {"last": np.array([2]), "two": np.array([2]), "mask": np.arange(8) < 6, "low": np.float32(-3e38)}
    about = {"Transpose": {"perm": [0, 2, 1, 3]}, "Split": {"axis": 2, "num_outputs": 2}, "Concat": {"axis": 2}}

    def made(name, steps):
        full = [(*step[:3], step[3] if step[3:] else about.get(step[0], {})) for step in steps]
        return written(name, full, constants, {"x": [1, 6, 8]}, **({"y": 7} if function in (ranked, taken) else {}))

    module = Of(function, *(torch.from_numpy(constants[name].copy()) for name in ("w", "k", "bias")))
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 6, 8)).astype(np.float32)}
    assert nb.inspect(made("right.onnx", RIGHT[function]), against=(module, inputs)).findings == ()
    found = nb.inspect(made("wrong.onnx", wrong), against=(module, inputs)).first
    assert (found.key, found.blame) == (key, "file"), found
    assert words in found.statement


class Masked(torch.nn.Module):
    def forward(self, x, pad):
        return x.tanh().masked_fill(pad, -9.0).softmax(-1)


def test_a_file_that_lost_an_input_is_compared_and_lacks_what_read_it(written):
    steps = ("Tanh", "x", "t", {}), ("Softmax", "t", "y", {})
    file = written("lost.onnx", steps, {}, {"x": [1, 6, 8]})
    inputs = {"x": torch.randn(1, 6, 8), "pad": torch.arange(8) > 4}
    found = nb.inspect(file, against=(Masked(), inputs))
    assert "the file has no :masked_fill" in found.first.statement
    assert any("It lacks the inputs pad, which the reference has as given." in one for one in found.notes)
    named = nb.diagnose(Masked(), inputs, "onnxruntime", artefact=file, remedies=False)
    assert [one.name for one in named.culprits] == [":masked_fill"]


def test_a_healthy_file_of_8_bit_activations_is_no_other_program(written):
    draw = np.random.default_rng(5)
    shapes = {"w": (16, 32), "v": (32, 8), "b": (8,)}
    constants = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    constants |= {"zero": np.uint8(0), "scale": np.float32(0.08)}
    first, last = torch.nn.Linear(16, 32, bias=False), torch.nn.Linear(32, 8)
    for layer, name in ((first, "w"), (last, "v")):
        layer.weight.data = torch.from_numpy(constants[name].T.copy())
    last.bias.data = torch.from_numpy(constants["b"].copy())
    steps = ("MatMul", "x w", "m", {}), ("Relu", "m", "r", {}), ("QuantizeLinear", "r scale zero", "q", {})
    steps += ("DequantizeLinear", "q scale zero", "d", {}), ("MatMul", "d v", "n", {}), ("Add", "n b", "y", {})
    module = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    file = written("eight.onnx", steps, constants, {"x": [1, 12, 16]})
    found = nb.inspect(file, against=(module, {"input": torch.randn(1, 12, 16)}))
    assert found.findings == (), found.first
