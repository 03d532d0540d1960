"""The noise of quantised layers, against the float model that the budget does not have, and ONNX Runtime's debugger."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

import kokoro_nb as nb
from kokoro_nb.inspection.file_run import examined
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_model import run_once
from tests.inspection import quantised_files as files


@pytest.fixture(scope="module")
def inputs():
    return {"x": files.drawn_inputs(7)["x"] * np.float32(1.1)}  # some beyond what was calibrated


def _true_noise(path, inputs, budget):
    """Return the power of each layer's noise against float weights on what goes in before it is rounded, float64."""
    file = read_onnx(path)
    graph = file.model.graph
    names = [name for node in graph.node for name in node.output]
    values = {**inputs, **file.constants, **run_once(file.model, inputs, names)}
    made = {name: node for node in graph.node for name in node.output}
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    layers = [graph.node[one.index] for one in budget.layers]
    results = {node.output[0] for node in layers}
    found = {}
    first = len(files.weights()) - len(layers)
    for k, node in enumerate(layers, first):
        source, result = node.input[0], node.output[0]
        x, y = np.asarray(values[source], np.float64), np.asarray(values[result], np.float64)
        if node.op_type.startswith("QLinear"):
            x = (x - values[node.input[2]].astype(float)) * values[node.input[1]]
            y = (y - values[node.input[7]].astype(float)) * values[node.input[6]]
        while source in made and made[source].op_type in (
            "DequantizeLinear",
            "QuantizeLinear",
            "DynamicQuantizeLinear",
        ):
            source = made[source].input[0]
        if source not in results:
            x = np.asarray(values[source], np.float64)
        if node.op_type in ("ConvInteger", "MatMulInteger"):
            cast = readers[result][0]
            y = np.asarray(values[readers[cast.output[0]][0].output[0]], np.float64)
        for reader in readers.get(result, ()):
            if reader.op_type == "QuantizeLinear":
                y = np.asarray(values[readers[reader.output[0]][0].output[0]], np.float64)
        w = files.weights()[f"w{k}"].astype(np.float64)
        padding = w.shape[-1] // 2 if w.ndim == 3 else 0
        right = torch.conv1d(*map(torch.from_numpy, (x, w)), padding=padding).numpy() if w.ndim == 3 else x @ w
        found[node.name] = float(np.square(y - right).mean())
    return found


@pytest.mark.parametrize("form", files.FORMS)
def test_the_total_is_the_noise_against_the_float_model(quantised, inputs, form):
    path = quantised / f"{form}.onnx"
    budget = _budget(path, inputs)
    assert len(budget.layers) == (1 if form == "bits" else 4)
    true = _true_noise(path, inputs, budget)
    apart = {one.key: 10 * np.log10(one.total / true[one.key]) for one in budget.layers}
    assert all(abs(one) <= 1 for one in apart.values()), apart  # dB


@pytest.mark.parametrize("form", ["qdq", "qoperator", "dynamic"])
def test_values_beyond_the_range_are_noted_and_heard(quantised, inputs, form):
    loud = {"x": inputs["x"] * 4}
    budget = _budget(quantised / f"{form}.onnx", loud)
    healthy = _budget(quantised / f"{form}.onnx", inputs).layers[0]
    cut = max(one.clipped for one in budget.values)
    louder = budget.layers[0].activations / healthy.activations
    if form == "dynamic":
        assert cut == 0  # its range follows the values
        assert louder == pytest.approx(16, rel=0.1)
    else:
        assert cut > 0.01
        assert louder > 160


def test_activations_have_the_level_of_the_debugger_of_onnx_runtime(quantised, inputs, tmp_path):
    from onnxruntime.quantization import qdq_loss_debug as debugger

    path = quantised / "qdq.onnx"
    debugger.modify_model_output_intermediate_tensors(path, tmp_path / "tapped.onnx")
    collected = debugger.collect_activations(str(tmp_path / "tapped.onnx"), [inputs])
    matched = debugger.create_activation_matching(collected)
    assert len(matched) == 8
    ours = {one.name.removesuffix("_QuantizeLinear_Input"): one.level for one in _budget(path, inputs).values}
    for name, pair in matched.items():
        theirs = debugger.compute_signal_to_quantization_noice_ratio(pair["pre_qdq"], pair["post_qdq"])
        assert ours[name] == pytest.approx(theirs, abs=0.1), name


def test_values_under_other_names_have_the_same_budget(quantised, inputs, tmp_path):
    model = onnx.load(quantised / "qdq.onnx")
    for names in (names for one in model.graph.node for names in (one.input, one.output)):
        names[:] = [f"v{name}v" if name not in ("", "x", "y") else name for name in names]
    for one in model.graph.initializer:
        one.name = f"v{one.name}v"
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "renamed.onnx")
    before, after = (_budget(one, inputs) for one in (quantised / "qdq.onnx", tmp_path / "renamed.onnx"))
    assert after.layers == before.layers
    assert [one.level for one in after.values] == [one.level for one in before.values]


def test_a_fused_layer_has_the_budget_of_what_it_is_fused_from(quantised, inputs, tmp_path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    ort.InferenceSession(quantised / "dynamic.onnx", options, providers=["CPUExecutionProvider"])
    fused, plain = (_budget(one, inputs) for one in (tmp_path / "fused.onnx", quantised / "dynamic.onnx"))
    (layer,) = [one for one in fused.layers if one.operator == "com.microsoft.DynamicQuantizeMatMul"]
    (same,) = [one for one in plain.layers if one.operator == "MatMulInteger"]
    assert (layer.weights, layer.activations) == pytest.approx((same.weights, same.activations), rel=0.01)
    assert layer.signal == pytest.approx(same.signal, rel=1e-3)


def test_what_a_layer_on_integers_cuts_is_said_of_the_integers(quantised, inputs):
    values = {one.name: one for one in _budget(quantised / "qoperator.onnx", {"x": inputs["x"] * 4}).values}
    (cut,) = [one for one in values.values() if one.after == "conv0_quant"]
    assert cut.clipped > 0.01
    assert cut.name in {name for node in onnx.load(quantised / "qoperator.onnx").graph.node for name in node.output}


def _budget(path, inputs):
    return examined(read_onnx(path), inputs).budget


def test_the_report_says_where_most_noise_enters(quantised, inputs, tmp_path):
    report = nb.inspect(quantised / "qdq.onnx", inputs)
    assert any("4 layers are quantised (QDQ); the noisiest is" in note for note in report.notes)
    text = report.page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "signal over activations (dB)" in text
    levels = [one.level for one in report.budget.noisiest]
    assert levels == sorted(levels)


def test_a_float_file_has_no_budget(quantised, inputs):
    budget = _budget(quantised / "float.onnx", inputs)
    assert (budget.layers, budget.values, budget.stated()) == ((), (), ())
