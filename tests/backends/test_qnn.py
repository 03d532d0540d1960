import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Artifact, Failure, absence
from kokoro_nb.backends.qnn import Qnn, compilation, qnn_backend
from kokoro_nb.backends.qnn.compilation import Effect, arithmetic, compile_checked, compile_onnx, option_effects
from kokoro_nb.backends.qnn.process import QnnError
from kokoro_nb.backends.qnn.target import RECORD
from kokoro_nb.errors import InputError

QNN = Qnn("onnxruntime-qnn")
CHIP = {"soc_model": "57", "htp_arch": "75"}
X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 4, 3)

    def forward(self, x):
        return self.conv(x)


@pytest.fixture
def wheel():
    reason = absence(QNN)
    if reason is not None:
        pytest.skip(reason)


def test_without_the_wheel_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime_qnn", None)
    reason = "Qualcomm's provider is not installed; install it with pip install 'kokoro_nb[qnn]'."
    assert QNN.available() == reason


def test_without_onnx_runtime_it_gives_that_reason(monkeypatch):
    monkeypatch.setattr(qnn_backend, "find_spec", lambda name: object())
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
    text = compilation.Worker.__init__.__globals__["WORKER"].read_text(encoding="utf-8")
    script.write_text(f"import sys\nsys.modules['onnxruntime_qnn'] = None\n{text}", encoding="utf-8")
    monkeypatch.setattr("kokoro_nb.backends.qnn.process.WORKER", script)
    failure = QNN.export(Conv(), X, tmp_path)
    assert isinstance(failure, Failure)
    assert (failure.rung, failure.error) == ("serialised", "QnnError")
    assert "onnxruntime_qnn" in failure.message
    assert not list(tmp_path.glob("onnxruntime-qnn-*"))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"soc_model": "9999"}, "no chip with soc_model '9999'"),
        ({"htp_arch": "73"}, "version 75, not 73"),
        ({"provider_options": {"nonsense": "1"}}, "no provider option 'nonsense'"),
    ],
)
def test_a_wrong_target_is_refused_before_anything_is_exported(fields, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        replace(QNN, **fields).export(Conv(), X, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("wheel")
class TestInstalled:
    def test_the_artefact_is_a_context_for_the_chip_asked_for(self, tmp_path):
        made = replace(QNN, soc_model="43").export(Conv(), X, tmp_path)
        assert isinstance(made, Artifact), str(made)
        assert sorted(p.name for p in made.path.parent.iterdir()) == [
            "meta.json",
            "model_ctx.onnx",
            "model_ctx_qnn.bin",
        ]
        model = onnx.load(made.path)
        assert [node.op_type for node in model.graph.node] == ["EPContext"]
        assert {e.key: e.value for e in model.metadata_props}[RECORD].split(":")[4:7] == ["73", "43", "0"]
        assert json.loads((made.path.parent / "meta.json").read_text())["options"] == {
            "provider": {"soc_model": "43", "htp_arch": "73"}
        }
        assert set(made.seconds) == {"exported", "lowered", "serialised"}

    def test_another_chip_is_another_artefact(self, tmp_path):
        module = Conv()
        one, two = QNN.export(module, X, tmp_path), replace(QNN, soc_model="69").export(module, X, tmp_path)
        assert one.path != two.path
        assert (
            one.path.with_name("model_ctx_qnn.bin").read_bytes() != two.path.with_name("model_ctx_qnn.bin").read_bytes()
        )

    def test_it_computes_on_float16_numbers(self, tmp_path):
        class Times(nn.Module):
            def forward(self, x):
                return x * 3

        x = torch.tensor([[1 + 2.0**-12, 1 + 2.0**-10, 0.1]])
        made = QNN.export(Times(), {"x": x}, tmp_path)
        result = QNN.load(made).run({"x": x})["output"]
        # What comes in is rounded to float16; the product, measured, is not; a last bit of float32 comes on top.
        np.testing.assert_allclose(result, x.half().float() * 3, rtol=2.0**-22)
        assert abs(result - x.numpy() * 3).max() > 1e-4

    def test_an_artefact_whose_binary_is_gone_does_not_load(self, tmp_path):
        made = QNN.export(Conv(), X, tmp_path)
        made.path.with_name("model_ctx_qnn.bin").unlink()
        with pytest.raises(QnnError, match="file path in ep_cache_context does not exist"):
            QNN.load(made)

    def test_what_the_npu_takes_nothing_of_is_a_failure_with_the_reasons(self, tmp_path):
        class Acosh(nn.Module):
            def forward(self, x):
                return torch.acosh(x + 3)

        class Only(nn.Module):
            def forward(self, x):
                return torch.acosh(x)

        failure = QNN.export(Only(), X, tmp_path)
        assert (failure.rung, failure.error) == ("serialised", "QnnError")
        assert "takes none of the 1 nodes" in failure.message
        assert "`Acosh` are not supported" in failure.log
        made = QNN.export(Acosh(), X, tmp_path)  # the sum on the NPU, the rest on the CPU
        assert [node.op_type for node in onnx.load(made.path).graph.node] == ["EPContext", "Acosh"]
        expected = np.arccosh(X["x"].numpy() + 3)
        # The sum is up to 4 with steps of 2^-8 in float16, of which half can be lost; the slope there is 1 / sqrt(15).
        np.testing.assert_allclose(QNN.load(made).run(X)["output"], expected, atol=2.0**-9)

    def test_a_run_that_fails_is_an_error_and_is_not_repeated_on_the_cpu(self, tmp_path):
        class Lookup(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(10, 4)

            def forward(self, ids):
                return self.table(ids) * 2

        program = QNN.load(QNN.export(Lookup(), {"ids": torch.tensor([[1, 2]])}, tmp_path))
        with pytest.raises(QnnError, match="QNN graph execute error") as caught:
            program.run({"ids": torch.tensor([[1, 200]])})
        assert "Gather index: 200 is larger than input dim: 2 size: 10" in caught.value.__notes__[0]
        assert program.run({"ids": torch.tensor([[1, 2]])})["output"].shape == (1, 2, 4)  # it lives on

    @pytest.mark.parametrize(("reach", "low", "high"), [(1, 5e-4, 3e-3), (10, 5e-3, 2e-2), (100, 5e-2, 2e-1)])
    def test_the_sine_is_coarser_than_float16(self, reach, low, high, tmp_path):
        # Measured: 0.0011, 0.0125 and 0.10; rounding the argument to float16 alone gives 0.0003, 0.004 and 0.03.
        class Sine(nn.Module):
            def forward(self, x):
                return torch.sin(x)

        x = torch.linspace(-reach, reach, 4001)[None]
        program = QNN.load(QNN.export(Sine(), {"x": x}, tmp_path))
        assert low < abs(program.run({"x": x})["output"] - torch.sin(x.double()).numpy()).max() < high

    def test_options_have_the_effect_that_they_should(self):
        options = {**CHIP, "enable_htp_fp16_precision": "1", "vtcm_mb": "4", "nonsense": "1"}
        assert option_effects(options) == (
            Effect("soc_model", "57", True),
            Effect("htp_arch", "75", False),  # the chip decides
            Effect("enable_htp_fp16_precision", "1", False),
            Effect("vtcm_mb", "4", True),
            Effect("nonsense", "1", False),
        )

    def test_an_effect_cannot_be_measured_where_nothing_compiles(self):
        with pytest.raises(QnnError, match="nothing can be compiled"):
            option_effects({"soc_model": "9999"})

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (CHIP, "float16"),
            ({"htp_arch": "75"}, "float32"),  # without the chip the simulator computes as no device would
            ({"soc_model": "88", "htp_bf16_enable": "1"}, "coarser"),
        ],
    )
    def test_the_arithmetic_is_measured(self, options, expected):
        assert arithmetic(options) == expected

    def test_the_provider_itself_says_nothing_of_a_contradiction(self, tmp_path):
        # Known-bad control: this is why the pair is refused beforehand, and why the record alone proves nothing.
        contexts = {arch: tmp_path / f"{arch}.onnx" for arch in ("73", "75")}
        model = compilation._probe(tmp_path)
        for arch, context in contexts.items():
            compile_checked(model, context, {"soc_model": "57", "htp_arch": arch})
        binaries = [context.with_name(f"{context.stem}_qnn.bin").read_bytes() for context in contexts.values()]
        assert binaries[0] == binaries[1]
        records = [onnx.load(context).metadata_props[0].value.split(":")[4] for context in contexts.values()]
        assert records == ["73", "75"]

    def test_an_option_that_the_provider_misreads_is_an_error(self, tmp_path):
        with pytest.raises(QnnError, match="told enable_htp_fp16_precision=yes, but its log says 0"):
            compile_checked(
                compilation._probe(tmp_path), tmp_path / "c.onnx", {**CHIP, "enable_htp_fp16_precision": "yes"}
            )

    def test_an_option_that_the_provider_does_not_know_is_an_error(self, tmp_path):
        with pytest.raises(QnnError, match="nonsense=1, and nothing shows that it read it"):
            compile_checked(compilation._probe(tmp_path), tmp_path / "c.onnx", {**CHIP, "nonsense": "1"})

    def test_an_unknown_chip_takes_no_node_and_the_log_says_why(self, tmp_path):
        with pytest.raises(QnnError, match="takes none of the 1 nodes") as caught:
            compile_checked(compilation._probe(tmp_path), tmp_path / "c.onnx", {"soc_model": "9999"})
        assert "QNN_DEVICE_ERROR_INVALID_CONFIG" in caught.value.__notes__[0]
        assert compile_onnx(compilation._probe(tmp_path), tmp_path / "d.onnx", {"soc_model": "9999"}).on_npu == 0
