"""The verb: a file in, a report out, with the first wrong node and who is to blame."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import onnx_model
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS


def _chain(save, node, constants=None, **more):
    """Conv, instance norm, exp, matmul: some of everything."""
    random = np.random.default_rng(0)
    given = {"w": random.standard_normal((6, 4, 3)) * 0.3, "m": random.standard_normal((20, 5))}
    given |= {"scale": np.ones(6), "bias": np.zeros(6), **(constants or {})}
    given = {name: one.astype(np.float32) for name, one in given.items()}
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="/conv", pads=[1, 1]),
        node("InstanceNormalization", ["c", "scale", "bias"], ["n"], name="/norm"),
        node("Exp", ["n"], ["e"], name="/exp"),
        node("MatMul", ["e", "m"], ["y"], name="/out"),
    ]
    return save(nodes, {"x": [1, 4, 20]}, ["y"], given, **more)


def test_a_healthy_file_passes_every_node_is_judged_and_the_page_says_so_first(save, node, tmp_path):
    report = nb.inspect(_chain(save, node))
    assert report.verdict == "pass"
    assert report.first is None
    assert [one.key for one in report.judgements] == ["/conv", "/norm", "/exp", "/out"]
    assert all(one.worst.ratio <= 1 and one.inherited < 1e-5 for one in report.judgements)
    assert "normal" in report.inputs["x"]
    assert report.outputs[0].snr > 100  # dB: float32
    assert report.outputs[0].again
    text = report.page(tmp_path / "report.html").read_text()
    assert text.index("nothing wrong was found") < text.index("/conv")
    assert "http" not in text
    assert {"/norm", "1x6x20", "float32", "100.00%"} <= {*report.table().text.split()}


def test_a_definition_on_which_the_reference_does_not_agree_is_no_proof(save, node, monkeypatch):
    monkeypatch.setitem(MEANINGS, "Split", lambda call, x, *_: (x[:2], x[2:] * 1.001))
    first = nb.inspect(save([node("Split", ["x"], ["a", "b"], name="/s", num_outputs=2)], {"x": [4]}, ["a", "b"])).first
    assert (first.operator, first.blame) == ("Split", "unknown")


def test_a_constant_that_is_not_finite_is_named(save, node):
    nodes = [node("Tanh", ["x"], ["t"]), node("Add", ["t", "k"], ["y"])]
    first = nb.inspect(save(nodes, {"x": [4]}, ["y"], {"k": np.array([0, np.nan, 0, 0], np.float32)})).first
    assert (first.operator, first.blame, first.kind) == ("Add", "file", "nonfinite")
    assert "the constant 'k', which is not finite" in first.statement


def test_a_mask_of_infinities_is_no_finding(save, node):
    nodes = [node("Where", ["m", "x", "low"], ["w"]), node("Softmax", ["w"], ["y"])]
    constants = {"m": np.array([True, True, False, True]), "low": np.float32(-np.inf)}
    assert nb.inspect(save(nodes, {"x": [2, 4]}, ["y"], constants)).first is None


def test_what_is_not_finite_ends_no_report_and_is_among_the_worst(save, node):
    nodes = [node(kind, ["x"], [kind], name=f"/{kind}") for kind in ("Exp", "Neg")] + [node("Log", ["Neg"], ["y"])]
    report = nb.inspect(save(nodes, {"x": [2]}, ["Exp", "y"]), {"x": np.array([1000, 1], np.float32)})
    assert [one.key for one in report.findings] == ["/Exp"]
    assert not [note for note in report.notes if "no output of the file shows it" in note]
    assert report.judgements[0].outputs[0].finite == 0.5
    assert {"/Exp", "/Neg"} < {one.key for one in report.worst()}


def test_values_of_bfloat16_are_judged_though_numpy_does_not_know_them(written):
    steps = [("Cast", "x", "short", {"to": TensorProto.BFLOAT16}), ("Cast", "short", "y", {"to": TensorProto.FLOAT})]
    x = np.array([1 / 3, 1.0, 1e30], np.float32)
    report = nb.inspect(written("both.onnx", steps, {}, {"x": [3]}), {"x": x})
    assert report.verdict == "pass"
    assert [one.worst.dtype for one in report.judgements] == ["bfloat16", "float32"]
    given = written("short.onnx", steps[:1], {}, {"x": [3]}, "short", short=TensorProto.BFLOAT16)
    assert nb.inspect(given, {"x": x}).outputs[0].dtype == "bfloat16"


def test_random_nodes_are_pinned_and_their_share_is_reported(written):
    steps = [("RandomNormalLike", "x", "r"), ("Mul", "r third", "q"), ("Add", "x q", "y")]
    path = written("drawn.onnx", steps, {"third": np.float32(1 / 3)}, {"x": [1, 2000]})
    report = nb.inspect(path, {"x": np.random.default_rng(1).standard_normal((1, 2000)).astype(np.float32)})
    assert report.findings == ()
    assert report.outputs[0].again


def _drawing(node):
    """Return a condition whose branches draw at random."""
    drawn = helper.make_tensor_value_info("drawn", TensorProto.FLOAT, [4])
    branch = helper.make_graph([node("RandomNormal", [], ["drawn"], shape=[4])], "branch", [], [drawn])
    return node("If", ["yes"], ["b"], name="/if", then_branch=branch, else_branch=branch)


def test_the_node_at_which_two_calls_begin_to_differ_is_named(save, node):
    """What a branch draws is not pinned, so that each call gives another output."""
    nodes = [node("Neg", ["x"], ["a"], name="/neg"), _drawing(node), node("Add", ["a", "b"], ["y"], name="/add")]
    report = nb.inspect(save(nodes, {"x": [4]}, ["y"], {"yes": np.bool_(True)}))
    (found,) = [one for one in report.findings if one.kind == "unstable"]
    assert (found.key, found.blame) == ("/if", "file")
    assert found.statement.endswith("; the first value that differs is that of /if (If).")
    assert found.proof[1] == "Its body draws at random."


def test_a_node_that_differs_from_call_to_call_is_noted_though_no_output_shows_it(save, node):
    nodes = [_drawing(node), node("Neg", ["b"], ["n"]), node("Mul", ["n", "zero"], ["m"])]
    nodes += [node("Abs", ["m"], ["k"]), node("Add", ["x", "k"], ["y"])]
    report = nb.inspect(save(nodes, {"x": [4]}, ["y"], {"yes": np.bool_(True), "zero": np.float32(0)}))
    assert report.outputs[0].again
    assert not [one for one in report.findings if one.kind == "unstable"]
    said = [note for note in report.notes if note.startswith("Given the same")]
    assert said == ["Given the same, these nodes give something else in a second call: /if (If)."]


def test_static_reads_and_runs_nothing(save, node):
    report = nb.inspect(_chain(save, node, {"bias": np.full(6, np.nan, np.float32)}), static=True)
    assert report.judgements == ()
    assert report.first.statement == "The constant 'bias' holds NaN."


def test_a_constant_at_the_limit_of_a_converter_is_noted(save, node):
    path = save([node("Mul", ["x", "k"], ["y"], name="/mul")], {"x": [2]}, ["y"], {"k": np.float16(1e4)}, "float16")
    report = nb.inspect(path, {"x": np.ones(2, np.float16)})
    assert any("10,000" in note for note in report.notes)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"x": np.zeros((1, 4, 20), np.float32), "q": 1}, "There is no input 'q'; the file has x."),
        ({}, "The input 'x' is missing; the file has x."),
        ({"x": np.zeros((1, 5, 20), np.float32)}, "The input 'x' has the shape .1, 5, 20.; the file wants .1, 4, 20.."),
        ({"x": np.zeros((1, 4, 20), np.int64)}, "The input 'x' has the type int64; the file wants float32."),
    ],
)
def test_inputs_that_do_not_fit_are_refused(save, node, inputs, sentence):
    with pytest.raises(InputError, match=sentence):
        nb.inspect(_chain(save, node), inputs)


def test_a_file_that_stops_only_when_it_is_optimised_is_a_finding(save, node, monkeypatch):
    """As a float16 source did, whose indices the optimised graph rounds to 65504."""
    path, plain = _chain(save, node), onnx_model.session_of

    def session_of(model, optimised=False, threads=1, **more):
        if optimised:
            raise InputError("ONNX Runtime stops: invalid index found.")
        return plain(model, optimised, threads, **more)

    monkeypatch.setattr(onnx_model, "session_of", session_of)
    report = nb.inspect(path)
    (finding,) = report.findings
    assert (finding.kind, finding.blame) == ("optimisation", "runtime")
    assert finding.statement == "The file runs plainly, and with graph optimisation it does not."
    assert finding.proof == ("ONNX Runtime stops: invalid index found.",)
    assert report.outputs[0].optimised is None
    assert report.outputs[0].threads is not None


def _windows(save, node, count, length="frames"):
    """Write a file that averages `count` windows of 8 frames, cut one by one, and reads a second input nowhere."""
    constants = {f"from{k}": np.array([8 * k]) for k in range(count)} | {"axis": np.array([1])}
    constants |= {f"to{k}": np.array([8 * k + 8]) for k in range(count)}
    nodes = [node("Slice", ["x", f"from{k}", f"to{k}", "axis"], [f"w{k}"], name=f"/window{k}") for k in range(count)]
    nodes += [node("Concat", [f"w{k}" for k in range(count)], ["all"], name="/windows", axis=1)]
    nodes += [node("ReduceMean", ["all", "axis"], ["y"], name="/mean", keepdims=0)]
    return save(nodes, {"x": [1, length, 4], "unused": [2]}, ["y"], constants)


def _frames(count):
    return {"x": np.arange(4.0 * count, dtype=np.float32).reshape(1, count, 4), "unused": np.ones(2, np.float32)}


def test_frames_and_inputs_that_reach_no_output_are_said(save, node):
    report = nb.inspect(_windows(save, node, 3), _frames(30))
    (found,) = report.findings
    assert (found.blame, found.key) == ("file", "/window0")
    assert "No output depends on 'x' from 24 on along axis 1" in found.statement
    assert any("No node reads the input 'unused'" in note for note in report.notes)
    exact = nb.inspect(_windows(save, node, 3), _frames(24))  # of which no frame is lost
    assert exact.findings == ()
    assert any("'x' from 24 on" in note for note in exact.notes)
    fixed = nb.inspect(_windows(save, node, 3, 40), _frames(40))
    assert not [note for note in fixed.notes if "from 24 on" in note]


def test_a_file_of_float16_is_judged_as_runtimes_with_such_kernels_run_it(save, node):
    phases = np.linspace(0, 900, 400, dtype=np.float16)

    def angles(name, step, **more):
        nodes = [node("Mul", ["x", "step"], ["phase"], name="/phase"), node("Cos", ["phase"], ["y"], name="/cos")]
        return save(nodes, {"x": [400]}, ["y"], {"step": np.float16(step)}, dtype="float16", name=name, **more)

    found = nb.inspect(angles("fast.onnx", 1.1), {"x": phases}).first
    assert (found.key, found.kind, found.blame) == ("/cos", "precision", "precision")
    assert "limit 40 dB" in found.statement
    assert "which /phase gives" in found.statement
    assert nb.inspect(angles("slow.onnx", 1e-3), {"x": phases}).findings == ()


def test_a_mean_whose_sum_float16_does_not_hold_is_named(save, node):
    def mean(name, size):
        nodes = [node("Abs", ["x"], ["a"], name="/abs"), node("GlobalAveragePool", ["a"], ["y"], name="/pool")]
        return save(nodes, {"x": [1, 2, size, 300]}, ["y"], dtype="float16", name=name)

    found = nb.inspect(mean("long.onnx", 900)).first
    assert (found.key, found.blame) == ("/pool", "precision")
    assert "beyond 65,504" in found.statement
    assert nb.inspect(mean("short.onnx", 300)).findings == ()


def test_what_is_never_negative_is_made_so(save, node):
    path = save([node("Log", ["mel_power"], ["y"], name="/log")], {"mel_power": [40]}, ["y"])
    report = nb.inspect(path)
    assert (report.verdict, report.findings) == ("pass", ())
    assert "sizes of normal ones" in report.inputs["mel_power"]
