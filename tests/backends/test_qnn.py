import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from kokoro_nb.backends import qnn
from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.qnn import Qnn, process
from kokoro_nb.backends.qnn.process import QnnError
from kokoro_nb.backends.qnn.target import RECORD, compile_checked, compile_onnx
from kokoro_nb.errors import InputError
from tests.backends.small import Layers, Of

QNN = Qnn("onnxruntime-qnn")
CHIP = {"soc_model": "57", "htp_arch": "75"}
X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}
CONV = Layers(nn.Conv1d(3, 4, 3))


def _probe(folder):
    """Write a convolution with the one weight 1."""
    node = helper.make_node("Conv", ["x", "weight"], ["y"], "conv")
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2])] for name in "xy"]
    graph = helper.make_graph(
        [node], "probe", *ends, [numpy_helper.from_array(np.ones((1, 1, 1), "float32"), "weight")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "probe.onnx")
    return folder / "probe.onnx"


def test_without_the_wheel_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime_qnn", None)
    reason = "Qualcomm's provider is not installed; install it with pip install 'kokoro_nb[qnn]'."
    assert QNN.available() == reason


def test_without_onnx_runtime_it_gives_that_reason(monkeypatch):
    monkeypatch.setattr(qnn, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "ONNX Runtime cannot be used here" in QNN.available()


@pytest.mark.parametrize(
    ("system", "machine", "runs"), [("linux", "x86_64", True), ("linux", "aarch64", False), ("win32", "AMD64", False)]
)
def test_it_executes_where_the_wheel_has_the_simulator(system, machine, runs, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    reason = QNN.executes()
    assert reason is None if runs else "Linux on x86-64 only" in reason


def test_a_worker_without_the_wheel_makes_the_export_a_record(tmp_path, monkeypatch):
    script = tmp_path / "worker.py"
    text = process.WORKER.read_text(encoding="utf-8")
    script.write_text(f"import sys\nsys.modules['onnxruntime_qnn'] = None\n{text}", encoding="utf-8")
    monkeypatch.setattr("kokoro_nb.backends.qnn.process.WORKER", script)
    failure = QNN.export(CONV, X, tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.rung, failure.error) == ("serialised", "QnnError")
    assert "onnxruntime_qnn" in failure.message
    assert not list(tmp_path.glob("onnxruntime-qnn-*"))


def test_a_wrong_target_is_refused_before_anything_is_exported(tmp_path):
    with pytest.raises(InputError, match="no provider option 'nonsense'"):
        replace(QNN, provider_options={"nonsense": "1"}).export(CONV, X, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("wheel")
class TestInstalled:
    def test_the_artefact_is_a_context_for_the_chip_asked_for(self, tmp_path):
        made = replace(QNN, soc_model="43").export(CONV, X, tmp_path)
        assert isinstance(made, Artifact), str(made)
        files = ["meta.json", "model_ctx.onnx", "model_ctx_qnn.bin"]
        assert sorted(p.name for p in made.path.parent.iterdir()) == files
        model = onnx.load(made.path)
        assert [node.op_type for node in model.graph.node] == ["EPContext"]
        assert {e.key: e.value for e in model.metadata_props}[RECORD].split(":")[4:7] == ["73", "43", "0"]
        options = json.loads((made.path.parent / "meta.json").read_text())["options"]
        assert options == {"provider": {"soc_model": "43", "htp_arch": "73"}}
        assert set(made.seconds) == {"exported", "lowered", "serialised"}

    def test_an_artefact_whose_binary_is_gone_does_not_load(self, tmp_path):
        made = QNN.export(CONV, X, tmp_path)
        made.path.with_name("model_ctx_qnn.bin").unlink()
        with pytest.raises(QnnError, match="file path in ep_cache_context does not exist"):
            QNN.load(made)

    def test_what_the_npu_takes_nothing_of_is_a_failure_with_the_reasons(self, tmp_path):
        failure = QNN.export(Of(lambda x: torch.acosh(x)), X, tmp_path)
        assert (failure.rung, failure.error) == ("serialised", "QnnError")
        assert "takes none of the 1 nodes" in failure.message
        assert "`Acosh` are not supported" in failure.log
        made = QNN.export(Of(lambda x: torch.acosh(x + 3)), X, tmp_path)  # the sum on the NPU, the rest on the CPU
        assert [node.op_type for node in onnx.load(made.path).graph.node] == ["EPContext", "Acosh"]
        expected = np.arccosh(X["x"].numpy() + 3)
        # The sum is up to 4 with steps of 2^-8 in float16, of which half can be lost; the slope there is 1 / sqrt(15).
        np.testing.assert_allclose(QNN.load(made).run(X)["output"], expected, atol=2.0**-9)

    def test_a_run_that_fails_is_an_error_and_is_not_repeated_on_the_cpu(self, tmp_path):
        module, inputs = Layers(nn.Embedding(10, 4), nn.LeakyReLU()), {"x": torch.tensor([[1, 2]])}
        program = QNN.load(QNN.export(module, inputs, tmp_path))
        with pytest.raises(QnnError, match="QNN graph execute error") as caught:
            program.run({"x": torch.tensor([[1, 200]])})
        assert "Gather index: 200 is larger than input dim: 2 size: 10" in caught.value.__notes__[0]
        assert program.run(inputs)["output"].shape == (1, 2, 4)  # it lives on

    def test_an_option_that_the_provider_misreads_is_an_error(self, tmp_path):
        with pytest.raises(QnnError, match="given enable_htp_fp16_precision=yes, but its log says 0"):
            compile_checked(_probe(tmp_path), tmp_path / "c.onnx", {**CHIP, "enable_htp_fp16_precision": "yes"})

    def test_an_unknown_chip_takes_no_node_and_the_log_says_why(self, tmp_path):
        with pytest.raises(QnnError, match="takes none of the 1 nodes") as caught:
            compile_checked(_probe(tmp_path), tmp_path / "c.onnx", {"soc_model": "9999"})
        assert "QNN_DEVICE_ERROR_INVALID_CONFIG" in caught.value.__notes__[0]
        placed = compile_onnx(_probe(tmp_path), tmp_path / "d.onnx", {"soc_model": "9999"})[0]
        assert {provider for provider, *_ in placed} == {"CPUExecutionProvider"}
