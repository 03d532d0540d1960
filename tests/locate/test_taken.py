"""What vendors take is taken: state, nested outputs, open sizes, bfloat16, small integers; what they lose is named."""

import pytest
import torch
from torch import nn

from kokoro_nb.inspection import diagnose, inspect
from kokoro_nb.locate.investigation import EXTRA_OUTPUTS
from kokoro_nb.studies.diagnose import own_module
from tests.backends.small import Of, Past, here, taking

X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))
NAMES = ("onnxruntime", "executorch-portable", "tvm-unfused")


def _net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).eval()


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path_factory.mktemp("cache")))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


@pytest.mark.parametrize(
    ("name", "keeps"), [("onnxruntime", False), ("executorch-portable", True), ("tvm-unfused", False), ("eager", True)]
)
def test_state_is_kept_or_its_loss_is_named(name, keeps):
    found = diagnose(Counting(), {"x": X}, here(name))
    if keeps:
        assert found.verdict == "pass"
    else:
        assert (found.exit_status, found.first.tap.name, found.first.mechanism.name) == (1, ":add", "lost state")
        assert "'count' is not kept" in found.statement


def counting():
    return Counting(), {"x": X}


def test_a_module_is_tried_on_a_copy_and_a_newer_target_is_a_remedy_where_the_error_names_one():
    target = own_module(f"{__name__}:counting", [])
    assert not target.candidate.program.state_dict["count"].any()
    found = diagnose(target.candidate, target.inputs, here("coreml-reference"), remedies=True)
    assert (found.remedies[0].name, found.remedies[0].verdict) == ("target iOS18", "pass")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_may_be_nested(name):
    found = diagnose(Of(lambda x: (x + 1, (x * 2, {"y": x - 1}))), {"x": X}, here(name))
    assert found.verdict == "pass"
    assert list(found.investigation.history.first) == ["output_0", "output_1_0", "output_1_1_y"]


@pytest.mark.parametrize("name", NAMES)
def test_small_integers_go_in(name):
    total = taking(lambda a, b, c: a.float() * 0.5 + b.float() - c.float())
    dtypes = {"a": torch.int8, "b": torch.uint8, "c": torch.int16}
    inputs = {key: torch.arange(6, dtype=dtype) for key, dtype in dtypes.items()}
    assert diagnose(total, inputs, here(name)).verdict == "pass"


@pytest.mark.parametrize("name", ["eager", "executorch-portable"])
def test_bfloat16_is_judged_by_its_own_rounding(name):
    found = diagnose(_net().bfloat16(), {"input": X.bfloat16()}, here(name))
    assert found.verdict == "pass"
    assert found.output.of_peak > 1e-4  # what float32's rounding would not explain
    inside = Of(lambda x: x.bfloat16().sum(1, dtype=torch.bfloat16).float())
    assert diagnose(inside, {"x": X}, here(name)).verdict == "pass"


def test_a_file_in_bfloat16_is_that_of_its_module(tmp_path):
    module, inputs = _net().bfloat16(), {"input": X.bfloat16()}
    torch.export.save(torch.export.export(module, (inputs["input"],)), tmp_path / "net.pt2")
    assert inspect(tmp_path / "net.pt2", against=(module, inputs)).findings == ()


def test_complex_numbers_that_a_runtime_holds_as_their_parts_are_computed_on_as_such():
    found = diagnose(Of(lambda x: torch.view_as_real(torch.fft.fft(x))), {"x": X}, here("onnxruntime"))
    kinds = [tap.statistics.dtype for tap in found.investigation.candidate.taps]
    assert (found.verdict, kinds) == ("pass", ["complex64", "float32"])


@pytest.mark.parametrize("name", NAMES)
def test_an_open_size_is_diagnosed_at_another_length_too(name):
    frames = {"input": {1: torch.export.Dim("frames", min=2, max=64)}}
    longer = torch.randn(2, 9, 8, generator=torch.Generator().manual_seed(2))
    found = diagnose(_net(), {"input": X}, here(name), dynamic_shapes=frames, at={"input": longer})
    assert found.verdict == "pass"
    assert found.statement.startswith("At input (2, 9, 8): ")
    assert found.investigation.history.first["output"].shape == (2, 9, 4)


def test_what_rounds_too_much_at_another_length_is_named(tmp_path):
    phase = taking(lambda f: torch.sin(2 * torch.pi * 9 * torch.cumsum(f, -1)))
    short, long = (0.03 + 0.05 * torch.rand(1, n, generator=torch.Generator().manual_seed(0)) for n in (40, 60_000))
    shapes = {"f": {1: torch.export.Dim("n", min=2, max=100_000)}}
    found = diagnose(phase, {"f": short}, here("onnxruntime"), folder=tmp_path, dynamic_shapes=shapes, at={"f": long})
    assert (found.verdict, [one.name for one in found.culprits]) == ("fail", [":cumsum"])
    assert "accumulated phase" in [one.name for one in found.first.mechanisms]


def test_a_program_that_somebody_exported_is_taken_as_it_is():
    program = torch.export.export(_net(), (X,))
    assert diagnose(program, {"input": X}, "onnxruntime").verdict == "pass"


@pytest.mark.parametrize(
    ("function", "x", "operator", "form"),
    [
        (lambda x: x.sin()[torch.tensor([1, 0]), :, torch.tensor([2, 5])], X, ":index", "shape (2, 6, 2) in place of"),
        (lambda x: 3 - x * 0.25, torch.arange(6), ":mul", "int64 in place of float32; 5 of 6 elements"),
        (lambda x: x @ x.transpose(1, 2), X.double(), ":matmul", "float32 in place of float64"),
    ],
)
def test_a_wrong_shape_or_dtype_is_a_finding(function, x, operator, form):
    found = diagnose(Of(function), {"x": x}, here("tvm-unfused"))
    assert (found.exit_status, found.first.tap.name) == (1, operator)
    assert form in found.first.channels


@pytest.mark.parametrize(("start", "persistent"), [(1.5, True), (1.5, False), (0.0, True)])
def test_a_buffer_that_does_not_start_with_its_values_is_named(start, persistent, tmp_path):
    module = Past((2, 6, 1), start, persistent=persistent).eval()
    found = diagnose(module, {"x": X}, here("executorch-portable"), folder=tmp_path)
    if start == 0:
        assert found.verdict == "pass"
    else:
        assert found.ranked[0].tap.name == ":cat"
        assert found.ranked[0].mechanism.name == "lost state"
        assert "the buffer 'past' starts at 0" in found.statement


def test_a_view_of_what_float64_lays_out_in_another_way_is_computed(tmp_path):
    def attention(x, mask):
        q = x.view(2, 6, 2, 4).transpose(1, 2)
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return y.transpose(1, 2).reshape(2, 6, 8)

    mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    mask[..., 4:, :] = False  # rows that see nothing: 0 in PyTorch, NaN in a file of ONNX
    found = diagnose(taking(attention), {"x": X, "mask": mask}, here("onnxruntime"), folder=tmp_path)
    assert (found.verdict, found.ranked[0].tap.name) == ("fail", ":scaled_dot_product_attention")


def test_a_buffer_that_starts_at_0_behind_a_delegate_is_named_and_its_values_are_saved(tmp_path):
    """What each part computes alone is right: the parts are fed with the values that the buffer should have."""
    found = diagnose(Past((2, 6, 1), 0.5).eval(), {"x": X}, here("executorch-xnnpack"), folder=tmp_path, remedies=True)
    assert (found.verdict, found.first.mechanism.name) == ("fail", "lost state")
    assert "the buffer 'past' starts at 0" in found.statement
    assert [(one.kind, one.name, one.verdict) for one in found.remedies] == [("setting", "saved state", "pass")]


def test_what_a_write_to_a_part_is_read_for_is_its_shape_alone(tmp_path):
    """TVM's importer puts what is written in the place of what it is written to, which nothing reads any more."""

    def padded(x):
        y = torch.ones(*x.shape[:2], 2 * x.shape[2])
        y[:, :, 1 : 1 + x.shape[2]] = x
        y[:, 0].fill_(2.0)
        return torch.tanh(y)

    found = diagnose(taking(padded), {"x": X}, here("tvm"), folder=tmp_path)
    assert (found.verdict, found.investigation.candidate.how) == ("pass", EXTRA_OUTPUTS), str(found)
