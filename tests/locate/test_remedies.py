"""Remedies: other forms compute the same, and what cures an export is measured on the runtime."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import plant
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.diagnosis import card
from kokoro_nb.locate.remedies import float32_region, mixed_precision, with_noise_as_input
from kokoro_nb.locate.tensor_forms import FORMS, IN_FLOAT32, forms_of, in_other_form
from kokoro_nb.models.patches import curing
from tests.backends.small import Here, Of, here, taking
from tests.corpus.forms import legacy_onnx
from tests.corpus.programs import phase_of_silence, running_phase
from tests.refusals import refused

X = torch.randn(2, 8, 12, generator=torch.Generator().manual_seed(0))


STEPS = torch.arange(8).reshape(1, 8, 1).expand(2, 8, 12) % 3


class Applied(Of):
    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("instance_norm", nn.InstanceNorm1d(8, affine=True)),
        ("instance_norm", F.instance_norm),
        ("group_norm", nn.GroupNorm(2, 8)),
        ("layer_norm", nn.LayerNorm([8, 12])),
        ("layer_norm", nn.LayerNorm(12, elementwise_affine=False)),
        ("var", lambda x: torch.var(x, dim=-1, correction=0, keepdim=True)),
        ("atan2", lambda x: torch.atan2(x, x.flip(-1))),
        ("atan2", lambda x: torch.atan2(1e-30 * x, torch.zeros_like(x))),
        ("atan2", lambda x: torch.atan2(0 * x.abs(), x)),
        ("remainder", lambda x: x % 1),
        ("remainder", lambda x: x % 0.3),
        ("gelu", F.gelu),
        ("gelu", lambda x: F.gelu(x, approximate="tanh")),
        ("reciprocal", torch.reciprocal),
        ("rsqrt", lambda x: torch.rsqrt(x.abs() + 1)),
        ("log_sigmoid", F.logsigmoid),
        ("cumsum", lambda x: torch.cumsum(x, -1)),
        ("cumsum", lambda x: torch.cumsum(x, 1)),
        ("pad", lambda x: F.pad(x, (-2, 3, 1, -4), value=0.5)),
        ("pad", lambda x: F.pad(x, (0, -5))),
        ("scatter_reduce", lambda x: x.scatter_reduce(2, torch.arange(12).expand(2, 8, 12) % 5, x + 1, "mean")),
        ("scatter_reduce", lambda x: x.scatter_reduce(1, STEPS, x + 1, "mean", include_self=False)),
        ("scatter_reduce", lambda x: x.scatter_reduce(1, STEPS, x + 1, "sum", include_self=False)),
    ],
)
def test_another_form_computes_the_same_without_the_operator(kind, module):
    exported = export_program(Applied(module).eval(), {"x": X})
    names = [one.name for one in exported.specification.operators if one.kind.startswith(kind)]
    assert names
    (form, *_) = (one for one in forms_of(kind) if one.name != "one dtype first")
    changed = in_other_form(exported, names[:1], form)
    expected = exported.specification.run({"x": X}, double=True)["output"]
    found = changed.specification.run({"x": X}, double=True)["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    before, after = ([one.name for one in made.specification.operators] for made in (exported, changed))
    assert after == before
    calls = [str(node.target) for node in changed.program.graph.nodes if node.op == "call_function"]
    assert kind == "atan2" or kind == "cumsum" or not any(f"aten.{kind}." in call for call in calls)


@pytest.mark.parametrize(
    ("kind", "function", "known"),
    [
        ("addcmul", lambda x: torch.addcmul(x, x, x + 1, value=0.3), True),
        ("upsample_nearest1d", lambda x: F.interpolate(x, scale_factor=1.7), True),
        ("tril", lambda x: torch.tril(x, -1), True),
        ("cummax", lambda x: torch.cummax(x, 2).values, False),
    ],
)
def test_what_pytorch_takes_an_operator_apart_into_is_a_form_of_it(kind, function, known):
    exported = export_program(Applied(function), {"x": X})
    names = [one.name for one in exported.specification.operators if one.kind == kind]
    assert names
    changed = in_other_form(exported, names, forms_of(kind)[-1])
    assert (changed is not None) == known
    if known:
        before, after = (one.specification.run({"x": X}, double=True)["output"] for one in (exported, changed))
        np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-12)


def test_a_remainder_of_whole_numbers_is_no_difference_of_floats():
    whole = {"x": torch.arange(-6, 6).reshape(1, 12)}
    exported = export_program(Applied(lambda x: x % 5), whole)
    first, second = (in_other_form(exported, [":remainder"], form) for form in FORMS["remainder"])
    assert first is None
    np.testing.assert_array_equal(second.specification.run(whole)["output"], (np.arange(-6, 6) % 5 * 2)[None])


def test_a_plain_quotient_is_not_floored():
    exported = export_program(Applied(lambda x: x / 0.3), {"x": X})
    first, second = (in_other_form(exported, [":div"], form) for form in FORMS["div"][:2])
    assert (first, second) == (None, None)


def test_operators_in_float32_are_read_in_float32():
    def phase(x):
        return torch.sin(torch.cumsum(x, -1).transpose(1, 2) * 100)

    exported = export_program(Applied(phase), {"x": X.half()})
    operators = exported.specification.operators
    kept = float32_region(operators, [":cumsum"])
    assert kept == (":cumsum", ":transpose", ":mul")
    with_sine = float32_region(operators, kept)
    wide = in_other_form(exported, with_sine, IN_FLOAT32[False])
    right = exported.specification.run({"x": X.half()}, double=True)["output"]
    before, after = (one.specification.run({"x": X.half()})["output"] for one in (exported, wide))
    assert np.abs(before - right).max() > 0.1
    assert np.abs(after - right).max() < 4e-3  # two roundings of the result to float16, of 2
    assert in_other_form(export_program(Applied(phase), {"x": X}), kept, IN_FLOAT32[False]) is None


def test_what_lies_between_two_operators_in_float32_stays_in_float32():
    def phase(x):
        return torch.sin(torch.cumsum((x * 3).transpose(1, 2).abs(), 1) * 100)

    operators = export_program(Applied(phase), {"x": X.half()}).specification.operators
    assert float32_region(operators, [":mul", ":mul#2"]) == (":mul", ":transpose", ":abs", ":cumsum", ":mul#2", ":sin")
    assert float32_region(operators, [":sin"]) == (":sin", ":mul#3"), "and nothing before it"


class Angle(nn.Module):
    def forward(self, y, x):
        return torch.atan2(y, x) * 2


POINTS = {"y": torch.tensor([[0.0, 0, 1, 2, -1, 0, 0, 0]]), "x": torch.tensor([[-1.0, -2, 3, 4, 5, -3, -4, 1]])}


def test_a_cure_is_measured_and_the_defect_is_named():
    found = diagnose(Angle(), POINTS, "onnxruntime", remedies=True)
    (culprit,), (remedy,) = found.culprits, found.remedies
    assert (culprit.mechanism.name, culprit.mechanism.defect) == ("branch cut of atan2", "onnx_atan2_branch_cut")
    assert culprit.source.startswith("test_remedies.py:")
    assert (remedy.kind, remedy.verdict) == ("other form", "pass")
    assert remedy.error_before == pytest.approx(2)
    assert remedy.error_after < 1e-6
    assert found.row()["remedies"][0]["output after (of peak)"] == remedy.error_after
    assert "remedy: :atan2 is written in another form" in str(found)
    text = repr(card(found))
    for said in (
        "culprit: :atan2 (aten.atan2.default · test_remedies.py:",
        "mechanism: branch cut of atan2",
        "known defect: onnx_atan2_branch_cut",
        "remedy: :atan2 is written in another form",
        "output: 'output' is off by 2 of its peak (allowed are ",
    ):
        assert said in text
    assert "next step" not in text
    healthy = repr(card(diagnose(Angle(), {"y": POINTS["x"], "x": POINTS["x"].abs()}, "onnxruntime")))
    assert healthy.startswith("PASS: No operator is wrong on onnxruntime")
    assert "culprit" not in healthy


def test_what_a_delegate_gets_wrong_is_withheld_from_it(tmp_path):
    exported = export_program(Applied(lambda x: F.gelu(x, approximate="tanh")), {"x": X})
    found = diagnose(exported, {"x": X}, here("executorch-xnnpack"), folder=tmp_path, remedies=True)
    (remedy,) = found.remedies
    assert (found.first.tap.name, remedy.name, remedy.verdict) == (":gelu", "withheld from the delegate", "pass")
    planted = plant(export_program(Applied(torch.sin), {"x": X}), "sign_flip@:sin")
    found = diagnose(planted, {"x": X}, here("executorch-xnnpack"), folder=tmp_path, remedies=True)
    assert [one.verdict for one in found.remedies] == ["fail"], "a wrong program stays wrong wherever it runs"


def test_a_long_phase_in_float16_takes_blocks_as_well(tmp_path):
    module, inputs = running_phase()
    found = diagnose(module, inputs, "coreml-reference", folder=tmp_path, remedies=True)
    assert [one.verdict for one in found.remedies] == ["fail", "pass"]
    assert found.remedies[0].statement.endswith("stay float32.")
    assert found.remedies[1].statement.endswith("stay float32, and running sums are computed in blocks.")
    assert found.remedies[1].error_after < 0.1 * found.remedies[0].error_after


def test_what_a_cure_leaves_wrong_is_cured_as_well(tmp_path):
    module, inputs = phase_of_silence()
    file = legacy_onnx(module, inputs, tmp_path / "model.onnx")
    found = diagnose(module, inputs, "onnxruntime", folder=tmp_path / "made", artefact=file, remedies=True)
    assert [one.verdict for one in found.remedies] == ["fail", "pass"]
    assert [one.name for one in found.remedies] == ["exported anew", "exported anew, atan2 with its cut set"]
    assert np.isnan(found.remedies[1].error_before)


def sung(x, f):
    """Return a norm of a channel that hardly varies, and a phase that the order of a sum moves."""
    phase = torch.cumsum(f, -1) % 1
    return F.instance_norm(x).mean(1, keepdim=True) + torch.sin(2 * torch.pi * 9 * phase)


def test_a_cure_is_allowed_what_rounding_makes_of_the_output_on_a_runtime(tmp_path):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 8, 960, generator=generator)
    x[:, :4] = 100 + 1e-3 * x[:, :4]
    f = 0.03 + 0.05 * torch.rand(1, 1, 120, generator=generator)
    inputs = {"x": x, "f": f.repeat_interleave(8, -1)}
    found = diagnose(taking(sung), inputs, "tvm-unfused", folder=tmp_path, remedies=True)
    assert np.isnan(found.output.of_peak)
    (remedy,) = found.remedies
    assert remedy.verdict == "pass"
    assert remedy.error_after > found.output.limit
    strict = diagnose(taking(sung), inputs, "tvm-unfused", folder=tmp_path, limit=found.output.limit, remedies=True)
    assert {one.verdict for one in strict.remedies} == {"fail"}


@dataclass(frozen=True)
class Sick(Here):
    """A backend that shows no operators, and gives the negative of a program that it is sick of."""

    of: Callable[[list[str], set[torch.dtype]], bool]
    name: str = "sick"

    def export(self, module, inputs, folder=None):
        nodes = [node for node in module.specification.program.graph.nodes if node.op == "call_function"]
        kinds = [str(node.target).split(".")[1] for node in nodes]
        made = backend("eager").export(module, inputs)
        return replace(made, program=(made.program, self.of(kinds, {node.meta["val"].dtype for node in nodes})))

    def load(self, artifact):
        program, sick = artifact.program
        return Mock(spec=["run"], run=lambda x: {k: -v if sick else v for k, v in program.run(x).items()})


def stacked(x):
    """Compute by more operators than are named where they are right alone."""
    x = F.gelu(torch.tanh(x))
    for _ in range(10):
        x = torch.sin(x) + 1
    return F.instance_norm(x)


@pytest.mark.parametrize(
    ("of", "dtype", "culprits", "cure"),
    [
        (lambda kinds, _: {"gelu", "tanh"} <= {*kinds}, "float32", 1, "other form"),
        (lambda kinds, dtypes: len(kinds) > 20 and torch.float16 in dtypes, "float16", 0, "setting"),
        (lambda kinds, _: len(kinds) > 20 and kinds[-1] == "instance_norm", "float32", 0, "other form"),
    ],
)
def test_where_no_mechanism_is_known_every_generic_change_is_tried(of, dtype, culprits, cure):
    found = diagnose(taking(stacked), {"x": X.to(getattr(torch, dtype))}, Sick(of), remedies=True, method="bisection")
    assert len(found.culprits) == culprits
    assert {one.mechanism.name for one in found.culprits} <= {"operators joined"}
    assert (found.remedies[-1].kind, found.remedies[-1].verdict) == (cure, "pass")
    assert "pass" not in {one.verdict for one in found.remedies[:-1]}
    assert culprits or found.next_step.startswith("apply what cures it")


def test_there_is_nothing_to_cure_in_what_is_right():
    found = diagnose(Applied(torch.sin), {"x": X}, "onnxruntime", remedies=True)
    assert (found.verdict, found.remedies) == ("pass", ())
    refused("There is no operator to cure", found.try_remedies)


def test_patches_say_what_they_cure():
    assert curing(nn.Sequential(nn.InstanceNorm1d(2)), "instance_norm") == ("two_pass_norm",)
    assert curing(nn.Sequential(nn.GroupNorm(1, 2)), "group_norm") == ("two_pass_norm",)
    assert curing(nn.Linear(2, 2), "instance_norm") == ()


class _Tone(nn.Module):
    """A tone from its frequency, and a well-behaved rest: only the way to the sine needs float32."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rest = nn.Conv1d(1, 4, 5, padding=2)

    def forward(self, x):
        return torch.tanh(self.rest(torch.sin(torch.cumsum(x, dim=-1) * 6.0)))


@pytest.mark.skipif(backend("coreml").available() is not None, reason="coremltools writes no file here")
def test_the_code_to_paste_keeps_the_way_to_the_sine_in_float32(tmp_path):
    import coremltools

    x = 0.7 + 0.01 * torch.arange(500).reshape(1, 1, 500) / 500
    kept = [":cumsum", ":mul", ":sin"]
    mixed = mixed_precision(export_program(_Tone(), {"x": x}), {"x": x}, kept, tmp_path)
    assert mixed.keep == ("cumsum", "mul", "sin")
    exported = torch.export.export(_Tone().eval(), (x,)).run_decompositions({})
    pasted = {"coremltools": coremltools}
    exec(mixed.as_code(), pasted)
    model = coremltools.convert(exported, compute_precision=pasted["compute_precision"], skip_model_load=True)
    single = coremltools.converters.mil.mil.types.fp32
    made = [one for one in model._mil_program.functions["main"].operations if one.op_type not in ("cast", "const")]
    assert {one.outputs[0].name for one in made if one.outputs[0].dtype == single} == {*mixed.keep}


ONES = {"x": torch.ones(1, 4)}
NOISY = Of(lambda x: x * torch.rand_like(x) + torch.randn(1, 4))


def test_every_draw_is_an_input_in_its_order():
    torch.manual_seed(3)
    expected = torch.randn(2)
    torch.manual_seed(3)
    seen = []

    def load(made):
        return Mock(run=lambda given: seen.append(given) or made.program.run(given))

    watched = Mock(export=backend("eager").export, load=load)
    remedy = with_noise_as_input(watched, export_program(NOISY, ONES), ONES, None)
    assert remedy.verdict == "pass"
    assert list(seen[0]) == ["x", "noise_0", "noise_1"]
    uniform, normal = seen[0]["noise_0"], seen[0]["noise_1"]
    np.testing.assert_allclose(remedy.outputs["output"], ONES["x"].numpy() * uniform + normal, rtol=1e-6)
    assert torch.equal(torch.randn(2), expected), "the draw of the caller is not touched"


def test_what_a_runtime_cannot_draw_is_cured_and_measured(tmp_path):
    found = diagnose(NOISY, ONES, "tvm-unfused", folder=tmp_path, remedies=True)
    (remedy,) = found.remedies
    assert (found.culprits[0].mechanism.name, remedy.name) == ("baked-in random numbers", "noise as an input")
    assert remedy.verdict == "pass"
    assert remedy.error_after < 1e-6


def test_noise_of_another_function_leaves_the_diagnosis_and_a_cure_that_is_unknown():
    noisy = export_program(Of(lambda x: x + torch.randint(0, 9, (1, 4))), ONES)
    remedy = with_noise_as_input(backend("tvm-unfused"), noisy, ONES, None)
    assert remedy.verdict == "unknown"
    assert "no function that draws" in remedy.reason
