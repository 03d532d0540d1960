"""Modules of which an earlier diagnosis crashed, or said less than it knew."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import kokoro_nb as nb
from tests.backends.small import Of, present

FRAMES = torch.tensor([2, 0, 3, 1])


class Repeated(torch.nn.Module):
    """Features, each as often as its duration says: the number of frames depends on values."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.out = torch.nn.Linear(6, 3)

    def forward(self, x, frames):
        return self.out(torch.repeat_interleave(x, frames, dim=0))


@pytest.mark.parametrize(("name", "refused"), [("onnxruntime", False), ("executorch-portable", True)])
def test_sizes_that_depend_on_values_are_diagnosed(name, refused):
    present(name)
    found = nb.diagnose(Repeated(), {"x": torch.randn(4, 6), "frames": FRAMES}, name)
    assert (found.verdict, found.exit_status) == (("fail", 1) if refused else ("pass", 0)), found.statement
    assert not refused or found.first.tap.op == "aten.repeat_interleave.self_Tensor"


def test_a_file_of_such_a_module_is_compared_with_it(tmp_path):
    module, inputs = Repeated().eval(), {"x": torch.randn(4, 6), "frames": FRAMES}
    torch.onnx.export(module, tuple(inputs.values()), tmp_path / "m.onnx", input_names=[*inputs], verbose=False)
    assert nb.inspect(tmp_path / "m.onnx", against=(module, inputs)).findings == ()


def test_what_is_nan_in_pytorch_too_is_not_called_finite():
    x = torch.linspace(-1, 1, 32)[None]
    found = nb.diagnose(Of(lambda x: x.sqrt().clamp(max=0.5)), {"x": x}, "onnxruntime")
    assert found.verdict == "pass"
    assert found.statement.endswith("are right to rounding, 2 of them as little finite as in PyTorch.")


def test_a_phase_inside_of_a_delegate_is_named_by_what_rounding_may_do_to_it():
    present("executorch-xnnpack")
    steps = ((200 + 50 * torch.sin(torch.arange(24_000) / 2_000)) / 24_000)[None, :, None] * torch.arange(1, 8)

    def wave(x):
        turns = (x - x.floor()).cumsum(1)
        return (6.2831853 * (turns - turns.floor())).sin().sum(2).tanh()

    found = nb.diagnose(Of(wave), {"x": steps}, "executorch-xnnpack")
    assert (found.output.verdict, found.exit_status) == ("fail", 1), found
    assert {one.mechanism.name for one in found.culprits} == {"accumulated phase"}


def test_a_number_that_float16_does_not_have_is_said():
    present("coreml-reference")
    x = torch.cat([torch.rand(1, 32), torch.zeros(1, 8)], 1)
    found = nb.diagnose(Of(lambda x: x.clamp(min=1e-10).log().clamp(min=-20)), {"x": x}, "coreml-reference")
    assert any("its number 1e-10 is 0 in float16" in str(one.mechanism) for one in found.culprits), found


@pytest.mark.parametrize(("name", "status"), [("onnxruntime", 0), ("coreml-reference", 1)])
def test_a_complex_output_is_right_as_its_parts_and_named_where_it_is_refused(name, status):
    present(name)
    found = nb.diagnose(Of(torch.fft.rfft), {"x": torch.randn(1, 8)}, name)
    assert (found.exit_status, found.first and found.first.tap.name) == (status, ":fft_rfft" if status else None)


def test_a_runtime_that_rounds_small_values_away_is_to_blame_and_not_the_dtype():
    x = {"x": torch.linspace(-40, 4, 64)[None]}
    found = nb.diagnose(Of(lambda x: torch.sigmoid(2 * x).log().clamp(min=-200)), x, "onnxruntime")
    first = found.ranked[0]
    assert (first.tap.op, first.mechanism.name) == ("aten.sigmoid.default", "operator lowered as another")
    assert "onnxruntime computes sigmoid less exactly than PyTorch does in float32" in str(first.mechanism)
    assert ":sigmoid" in found.statement
    assert "holds too few bits" not in first.mechanism.statement


def test_a_tie_that_float64_decides_otherwise_is_no_fault_of_the_runtime():
    x = {"x": torch.randn(1, 4, 24, generator=torch.Generator().manual_seed(0))}
    module = Of(lambda x: torch.nn.functional.interpolate(x.tanh(), size=37, mode="nearest-exact"))
    found = nb.diagnose(module, x, "onnxruntime")
    assert (found.verdict, found.culprits) == ("pass", ()), found.statement


@pytest.mark.parametrize("name", ["executorch-portable", "onnxruntime"])
def test_a_dropout_that_is_left_on_is_named_whether_or_not_the_runtime_draws_anew(name):
    present(name)
    module = Of(lambda x: torch.nn.functional.dropout(x.tanh(), 0.3, training=True))
    found = nb.diagnose(module, {"x": torch.linspace(-2, 2, 32)[None]}, name)
    assert found.exit_status == 1, found.statement
    assert "dropout" in found.first.tap.operator.kind
    assert found.first.mechanism.name == "baked-in random numbers"


def _halving(x):
    return x.mul_(0.5).cos()


def _quantised(x):
    decomposed = pytest.importorskip("torchao.quantization.pt2e") and torch.ops.quantized_decomposed
    about = 0.02, 3, -128, 127, torch.int8
    return decomposed.dequantize_per_tensor(decomposed.quantize_per_tensor(x.tanh(), *about), *about)


@pytest.mark.parametrize(("function", "name"), [(_halving, "executorch-portable"), (_quantised, "onnxruntime")])
def test_an_input_that_is_written_to_and_quantised_operators_are_judged(function, name):
    present(name)
    found = nb.diagnose(Of(function), {"x": torch.randn(2, 8)}, name)
    assert (found.verdict, found.output and found.output.verdict) == ("pass", "pass"), found.statement


class _Cache(torch.nn.Module):
    """Attention over the frames up to a position, whose features a buffer keeps."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.full((6, 4), 0.5))

    def forward(self, x, place):
        self.kept.index_copy_(0, place, x)
        return ((self.kept @ x.T)[:, 0].masked_fill(torch.arange(6) > place, 0) @ self.kept).tanh()


def test_a_cache_that_is_not_kept_shows_at_the_next_position():
    found = nb.diagnose(_Cache(), {"x": torch.randn(1, 4), "place": torch.tensor([2])}, "onnxruntime")
    assert (found.verdict, found.culprits[0].mechanism.name) == ("fail", "lost state"), found.statement
    assert "on a later call" in found.statement


class _Attending(nn.Module):
    """Attends to the frames of past calls as well (`read`), or counts them only."""

    def __init__(self, read):
        super().__init__()
        self.cache, self.read = SimpleNamespace(keys=[]), read

    def forward(self, x):
        self.cache.keys.append(x.tanh())
        keys = torch.cat(self.cache.keys if self.read else self.cache.keys[-1:])
        return (x @ keys.T).softmax(-1) @ keys


@pytest.mark.parametrize(("read", "status"), [(False, 0), (True, 1)])
def test_state_in_a_plain_attribute_is_named_where_a_later_call_reads_it(read, status):
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), _Attending(read)).train()
    found = nb.diagnose(module, {"input": torch.randn(2, 4)}, "onnxruntime", remedies=True)
    assert found.exit_status == status, found.statement
    assert "Training mode was on in 1; the export was made in evaluation mode" in str(found)
    if status:
        assert (found.first.name, found.first.mechanism.name) == ("2:cat", "lost state")
        assert found.statement.startswith("The module keeps state in plain attributes (2.cache), which")


def test_a_tensor_that_is_no_buffer_and_written_to_is_a_failed_export_that_names_it():
    module = Of(lambda x: module.total.add_(x) * 2)
    module.total = torch.zeros(2, 4)
    found = nb.diagnose(module, {"x": torch.randn(2, 4)}, "onnxruntime")
    assert (found.verdict, "is mutated in the forward" in found.statement) == ("fail", True), found.statement


@pytest.mark.parametrize(
    ("layer", "words"), [(nn.BatchNorm1d(4), "by the statistics of the batch"), (nn.Dropout(0.4), "draws at random")]
)
def test_a_program_exported_in_training_mode_is_said_to_be(layer, words, tmp_path):
    module, given = nn.Sequential(nn.Conv1d(3, 4, 3), layer, nn.Tanh()).train(), {"input": torch.randn(2, 3, 9)}
    program = torch.export.export(module, tuple(given.values()))
    torch.export.save(program, tmp_path / "net.pt2")
    alone, beside = (nb.inspect(tmp_path / "net.pt2", against=one) for one in (None, (module, given)))
    assert alone.findings == ()
    assert any(words in one for one in alone.notes)
    assert words in beside.first.statement
    assert "exported in training mode" in beside.first.statement
    if isinstance(layer, nn.BatchNorm1d):
        assert words in str(nb.diagnose(program, given, "onnxruntime", (module, given)).first.mechanism)
