"""Two files: the first node that parts is named with what is different about it, whatever its name is."""

import re

import numpy as np
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection.compared_values import ValueSketch
from tests.backends.small import Of
from tests.refusals import refused


@pytest.fixture
def write(written):
    """Write a file of a convolution, a division, a softmax and a clip with one thing changed, under other names."""

    def make(name, prefix="", rate=24000.0, axis=-1, gain=None, weight=None):
        constants = {"w": np.random.default_rng(0).standard_normal((6, 4, 3)), "rate": rate}
        constants |= {"low": -0.5, "high": 0.5, "gain": gain or 1.0}
        if weight is not None:
            constants["w"][weight] += 3
        steps = [("Conv", "x w", "a", {"pads": [1, 1]}), ("Mul", "a rate", "b"), ("Softmax", "a", "c", {"axis": axis})]
        steps += [("Add", "b c", "d"), *([("Mul", "d gain", "g")] if gain else [])]
        steps += [("Clip", "g low high" if gain else "d low high", "y")]
        for k, (kind, read, *more) in enumerate(steps):
            names = (re.sub(r"\b(?!x\b)(?=\w)", prefix, words) for words in (read, more[0]))
            steps[k] = (kind, *names, *more[1:])
        given = {f"{prefix}{key}": np.asarray(value, np.float32) for key, value in constants.items()}
        return written(name, steps, given, {"x": [1, 4, 10]}, f"{prefix}y")

    return make


def test_the_same_file_under_other_names_has_no_finding(write):
    report = nb.inspect(write("b.onnx", "other_"), against=write("a.onnx"))
    assert report.findings == ()
    assert any("values of b.onnx are in a.onnx too" in note for note in report.notes)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"rate": 10000.0}, "Mul n_b", "the constant 'n_rate' is 10,000 in place of 24,000"),
        ({"rate": 10000.0}, "Mul n_b", "exactly 0.4167 times"),
        ({"axis": 1}, "Softmax n_c", "the attribute axis is 1 in place of -1"),
        ({"weight": (2, 1, 0)}, "Conv n_a", "the constant 'n_w'"),
        ({"gain": 1.5}, "Mul n_g", "is the first divergence"),
    ],
)
def test_what_was_changed_is_named(write, change, key, words):
    report = nb.inspect(write("b.onnx", "n_", **change), against=write("a.onnx"))
    (found,) = report.findings
    assert (found.key, found.blame) == (key, "file")
    assert words in found.statement


def test_a_node_that_only_enlarges_the_rounding_before_it_is_no_change_of_structure(written):
    def sine(name, step):
        return written(name, [("Mul", "x k", "p"), ("Sin", "p", "y")], {"k": np.float32(step)}, {"x": [100]})

    x = {"x": np.linspace(1, 2, 100, dtype=np.float32)}
    report = nb.inspect(sine("b.onnx", 5000.0), x, against=sine("a.onnx", 5001.0))
    assert (report.first.key, report.first.blame) == ("Sin y", "precision")


def test_files_that_cannot_be_compared_say_so(write, save, node):
    two = save([node("Add", ["p", "q"], ["y"])], {"p": [1], "q": [1]}, ["y"], name="two.onnx")
    drawn = save([node("RandomNormalLike", ["x"], ["y"], name="/r")], {"x": [1, 4, 10]}, ["y"], name="r.onnx")
    wrong = [(two, "takes 2 inputs"), (torch.nn.Bilinear(2, 2, 2), "takes 2 inputs"), (3, "with a int")]
    wrong += [(drawn, "/r draws at random"), (Of(torch.nn.functional.dropout), "dropout draws at random")]
    for other, words in wrong:
        refused(words, nb.inspect, write("b.onnx"), against=other)


def test_the_order_of_elements_does_not_matter_and_one_channel_does():
    random = np.random.default_rng(0)
    points = np.sort(random.standard_normal(128))
    one = ValueSketch(128, points, points)
    assert one.distance(ValueSketch(128, points.copy(), points)) == 0
    assert one.distance(ValueSketch(128, points * 1.1, points)) > 0.05
    assert one.distance(ValueSketch(129, points, points)) == np.inf
    bad = np.where(np.arange(128) == 3, np.nan, points)
    assert one.distance(ValueSketch(128, bad, points)) == np.inf


class Voice(torch.nn.Module):
    """A convolution, a linear layer and a clip."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = torch.nn.Conv1d(4, 6, 3, padding=1), torch.nn.Linear(6, 5)

    def forward(self, x):
        return torch.sigmoid(self.linear(self.conv(x).transpose(1, 2) * 24000.0 / 12000.0))


@pytest.fixture
def exported_by_hand(written):
    """Write what another exporter might make of `Voice`: a product and a sum in place of the linear layer."""

    def make(rate=2.0, bias=0.0, gain=None, scale=1.0):
        state = {key: value.detach().numpy() for key, value in Voice().state_dict().items()}
        constants = {"cw": state["conv.weight"], "cb": state["conv.bias"], "rate": np.float32(rate)}
        constants |= {"lw": state["linear.weight"].T.copy() * scale, "lb": state["linear.bias"] + np.float32(bias)}
        steps = [("Transpose", "x", "t", {"perm": [0, 1, 2]}), ("Conv", "t cw cb", "c", {"pads": [1, 1]})]
        steps += [("Mul", "c rate", "r"), ("Transpose", "r", "s", {"perm": [0, 2, 1]})]
        steps += [("MatMul", "s lw", "m"), ("Add", "m lb", "l"), *([("Mul", "l gain", "g")] if gain else [])]
        steps += [("Sigmoid", "g" if gain else "l", "y")]
        return written("model.onnx", steps, constants | {"gain": np.float32(gain or 1)}, {"x": [1, 4, 10]})

    return make


def test_a_file_in_other_operators_than_its_module_has_no_finding(exported_by_hand):
    report = nb.inspect(exported_by_hand(), against=Voice())
    assert report.findings == ()
    assert any("values of model.onnx are in the module Voice too" in note for note in report.notes)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"rate": 2.4}, "Mul r", "exactly 1.2 times"),
        ({"bias": 0.3}, "Add l", "the constant 'lb'"),
        ({"gain": 1.5}, "Mul g", "1.5 times"),
        ({"scale": 1.5}, "MatMul m", "the constant 'lw' is -0.6109 in place of -0.4072"),
    ],
)
def test_where_a_file_parts_from_its_module_is_named(exported_by_hand, change, key, words):
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 4, 10)).astype(np.float32)}
    report = nb.inspect(exported_by_hand(**change), against=(Voice(), inputs))
    (found,) = report.findings
    assert (found.key, found.blame) == (key, "file")
    assert words in found.statement
    assert report.inputs["x"] == "of the module Voice"


def test_what_only_a_clip_hides_is_named(written):
    def file(name, gain, high=1e-3, kinds=("Mul", "Div")):
        steps = [(kinds[0], "x k", "p"), ("Clip", "p low high", "c"), (kinds[1], "c level", "y")]
        given = {"k": gain, "low": 0.0, "high": high, "level": high if kinds[1] == "Div" else 1 / high}
        return written(name, steps, {k: np.float32(v) for k, v in given.items()}, {"x": [50]})

    x = {"x": np.sign(np.random.default_rng(0).standard_normal(50)).astype(np.float32)}
    assert nb.inspect(file("b.onnx", 150), x, against=file("a.onnx", 100)).first.key == "Mul p"
    assert nb.inspect(file("c.onnx", 1 / 150, 1.5e-3, ("Div", "Mul")), x, against=file("a.onnx", 100)).findings == ()


def test_a_weight_that_meets_a_silent_channel_is_named_and_one_that_was_rounded_is_not(save, node):
    weights = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
    silent = np.array([0, 0, 0, 1, 0, 0, 0, 0], bool)

    def quiet(name, changed):
        nodes = [node("Mul", ["x", "g"], ["q"], name="/quiet"), node("MatMul", ["q", "w"], ["y"], name="/product")]
        level = np.where(silent, 0.003, 1).astype(np.float32)
        return save(nodes, {"x": [20, 8]}, ["y"], {"g": level, "w": changed}, name=name)

    right = quiet("a.onnx", weights)
    turned = nb.inspect(quiet("b.onnx", np.where(silent[:, None], -weights, weights)), against=right)
    assert (turned.first.key, turned.first.kind) == ("/product", "structure")
    assert "6 of 48 values differ" in turned.first.statement
    assert nb.inspect(quiet("c.onnx", np.round(weights * 50) / 50), against=right).findings == ()


@pytest.fixture
def normed(written):
    """Write a file of a product whose weight is divided by its norm over some axes, or of the same weight folded."""

    def make(name, axes=(1,), folded=False):
        weight = np.random.default_rng(0).standard_normal((6, 6)) * np.linspace(0.3, 2, 6)
        constants = {"v": weight, "w": weight / np.linalg.norm(weight, axis=1, keepdims=True)}
        made = [("ReduceL2", "v", "norm", {"axes": [*axes], "keepdims": 1}), ("Div", "v norm", "w")]
        constants.pop("v" if folded else "w")
        given = {key: value.astype(np.float32) for key, value in constants.items()}
        return written(name, [*([] if folded else made), ("MatMul", "x w", "y")], given, {"x": [1, 4, 6]}, opset=13)

    return make


def test_what_is_made_of_constants_alone_is_compared_with_what_is_folded(normed):
    folded = normed("folded.onnx", folded=True)
    assert nb.inspect(normed("right.onnx"), against=folded).findings == ()
    (found,) = nb.inspect(normed("wrong.onnx", axes=(0,)), against=folded).findings
    assert (found.key, found.blame) == ("ReduceL2 norm", "file")


def test_outputs_that_differ_are_never_a_pass(normed):
    (found,) = nb.inspect(normed("right.onnx"), against=normed("wrong.onnx", axes=(0,))).findings
    assert found.blame == "file"
    report = nb.inspect(normed("folded.onnx", folded=True), against=normed("wrong.onnx", axes=(0,)))
    assert report.verdict == "fail"
    assert "limit 0.05" in report.notes[-1]


def test_integers_that_are_computed_of_an_input_are_compared(written):
    constants = {"most": np.array(5), "table": np.random.default_rng(2).standard_normal((9, 3)).astype(np.float32)}

    def buckets(name, operator):
        steps = [(operator, "token most", "place"), ("Gather", "table place", "row"), ("Tanh", "row", "y")]
        return written(name, steps, constants, {"token": [1, 9]}, token=7)

    given = {"token": np.arange(9)[None]}
    right = buckets("right.onnx", "Min")
    (found,) = nb.inspect(buckets("wrong.onnx", "Mod"), given, against=right).findings
    assert (found.key, found.blame) == ("Mod place", "file")
    assert nb.inspect(buckets("same.onnx", "Min"), given, against=right).findings == ()


def test_a_file_of_one_length_is_compared_at_it(save, node):
    def joined(name, *lengths):
        nodes = [node("Tanh", ["x"], ["t"], name="/tanh"), node("Concat", ["t", "w"], ["y"], name="/join", axis=1)]
        return save(nodes, {"x": [1, *lengths, 3]}, ["y"], {"w": np.ones((1, 2, 3), np.float32)}, name=name)

    report = nb.inspect(joined("open.onnx", "n"), against=joined("fixed.onnx", 11))
    assert report.findings == ()
    assert "shape (1, 11, 3)" in str(report)


def test_what_has_no_definition_is_compared_by_its_attributes_and_by_what_the_runtime_gives(written):
    def heads(name, count):
        about = {"domain": "com.microsoft", "num_heads": count}
        return written(name, [("MultiHeadAttention", "x x x", "y", about)], {}, {"x": [1, 5, 8]})

    right = heads("right.onnx", 4)
    (found,) = nb.inspect(heads("wrong.onnx", 2), against=right).findings
    assert "the attribute num_heads is 2 in place of 4" in found.statement
    alike, module = (Of(lambda x, k=k: torch.nn.functional.scaled_dot_product_attention(x, x, x) * k) for k in (1, 3))
    inputs = {"x": torch.randn(1, 5, 8)}
    assert nb.inspect(heads("alike.onnx", 1), against=(alike, inputs)).findings == ()
    (found,) = nb.inspect(right, against=(module, inputs)).findings
    assert (found.kind, found.blame, found.key) == ("outputs", "unknown", "MultiHeadAttention y")
    found = nb.diagnose(module, inputs, "onnxruntime", artefact=right)
    assert (found.exit_status, found.first.tap.operator.kind) == (1, "scaled_dot_product_attention")


def test_outputs_that_are_infinite_in_the_same_places_do_not_differ(written):
    steps = [("Relu", "x", "r"), ("Log", "r", "y")]
    right, file = (written(name, steps, {}, {"x": [1, 40]}) for name in ("a.onnx", "b.onnx"))
    assert "no node explains it" not in str(nb.inspect(file, against=right))


@pytest.mark.parametrize(("size", "dynamic", "change"), [(5, 0, (2,)), (5, 0, (1, 3)), (6, 0, (1, 3)), (5, 1, (1, 3))])
def test_a_wrong_scale_of_rounded_weights_is_named_beside_the_float_file(save, node, size, dynamic, change):
    weight = np.random.default_rng(3).standard_normal((6, size)).astype(np.float32)
    scale = np.abs(weight).max() / 127
    made = [node("DequantizeLinear", ["q", "s", "z"], ["w"], name="/weights"), node("MatMul", ["x", "w"], ["y"])]
    if dynamic:
        made = [node("DynamicQuantizeLinear", ["x"], ["i", "t", "u"])]
        made += [node("MatMulInteger", ["i", "q", "u", "z"], ["sum"], name="/weights")]
        made += [node("Cast", ["sum"], ["f"], to=1), node("Mul", ["t", "s"], ["v"]), node("Mul", ["f", "v"], ["y"])]

    def rounded(factor=1, zero=0):
        given = {"q": np.round(weight / scale).astype(np.int8), "s": np.float32(scale * factor), "z": np.int8(zero)}
        return nb.inspect(save(made, {"x": [4, 6]}, ["y"], given, name="b.onnx"), against=whole).findings

    whole = save([node("Gemm", ["x", "w"], ["y"], transB=1)], {"x": [4, 6]}, ["y"], {"w": weight.T.copy()})
    (wrong,) = [one for one in rounded(*change) if one.blame == "file"]
    assert (wrong.key, "steps or more off 'w' (rounding: half a step)" in wrong.statement) == ("/weights", True)
    assert not [one for one in rounded() if one.blame != "runtime"]


@pytest.mark.parametrize(
    ("changed", "named"), [({}, None), ({"bias": 2.0}, "BiasGelu bent"), ({"weight": 2.0}, "MatMul product")]
)
def test_a_bias_that_the_next_operator_adds_is_no_divergence(written, changed, named):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    first, last = module[0], module[2]
    constants = {"w": first.weight.T, "b": first.bias, "v": last.weight.T, "c": last.bias}
    constants = {name: one.detach().numpy().copy() for name, one in constants.items()}
    constants["w"][:, 3] *= changed.get("weight", 1.0)
    constants["b"][3] *= changed.get("bias", 1.0)
    steps = [("MatMul", "x w", "product"), ("BiasGelu", "product b", "bent", {"domain": "com.microsoft"})]
    steps += [("MatMul", "bent v", "last"), ("Add", "last c", "y")]
    file = written("model.onnx", steps, constants, {"x": [3, 12]})
    found = nb.inspect(file, against=(module, {"input": torch.randn(3, 12)}))
    assert (found.first and found.first.key) == named, found
