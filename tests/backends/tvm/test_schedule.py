"""The pass on modules as users have them: each function with the loops that are for it, its result that of float64."""

import copy
import math
import platform

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import relax_module
from kokoro_nb.backends.tvm.schedule import scheduled, scheduled_alone
from kokoro_nb.backends.tvm.schedule.operators import legalisations
from tests.backends.small import Of, taking


@pytest.fixture(scope="module")
def taken(here):
    """Take a torch module to where the pass is run, and through it; return the Relax module."""
    import tvm

    def taken(module, inputs, fused=True, target=here):
        from tvm.relax.backend.cpu_generic import pipeline

        own = tvm.relax.transform.LegalizeOps(legalisations(target))
        every = [*pipeline.library_dispatch_passes(target), own, *pipeline.legalize_passes(target)]
        passes = [one for one in every if fused or not one.info.name.startswith("Fuse")]
        with target:
            return scheduled(
                tvm.transform.Sequential(passes)(relax_module(export_program(module.eval(), inputs).program))
            )

    return taken


@pytest.fixture(scope="module")
def run(here):
    """Compile what `taken` returned and run it."""
    import tvm

    def run(lowered, inputs, target=here):
        from tvm.relax.backend.cpu_generic import pipeline

        with target:
            passes = [*pipeline.dataflow_lower_passes(target), *pipeline.finalize_passes(target)]
            ready = tvm.transform.Sequential(passes)(lowered)
            built = tvm.relax.build(ready, target, relax_pipeline=None)
        results = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs))
        return [result.numpy() for result in results]

    return run


def _drawn(*shape):
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape)).float()


def _in_float64(module, x):
    with torch.no_grad():
        return copy.deepcopy(module).double()(x.double()).numpy()


def _of_peak(found, expected):
    """Return the largest error as a share of the largest value."""
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.fixture(scope="module")
def right(taken, run):
    """Return the functions of a module, whose result is that of float64 but for some roundings of float32."""

    def right(module, x, limit=1e-6, fused=True):
        lowered = taken(module, {"x": x}, fused)
        (found,) = run(lowered, [x.numpy()])
        assert _of_peak(found, _in_float64(module, x)) < limit
        return lowered.script(show_meta=False)

    return right


BLOCK = "block_sums_local"  # sums in registers


def _conv(**options):
    return lambda x, w: F.conv1d(x, w, **options)


def _transposed(**options):
    return lambda x, w: F.conv_transpose1d(x, w, **options)


SHAPES = {
    "strided and dilated": (_conv(stride=2, dilation=3), (9, 5, 4), (1, 5, 61)),
    "a batch": (_conv(padding=1), (11, 4, 3), (3, 4, 31)),
    "whole phases": (_transposed(stride=5, padding=3), (6, 9, 10), (1, 6, 20)),
    "more output": (_transposed(stride=4, padding=2, output_padding=3), (5, 7, 8), (1, 5, 18)),
    "no stride": (_transposed(padding=1), (5, 6, 3), (1, 5, 19)),
    "one row": (lambda x, w: x @ w, (37, 210), (1, 37)),
    "a linear layer": (F.linear, (45, 30), (2, 9, 30)),
    "whole blocks": (F.linear, (128, 30), (2, 9, 30)),
    "attention": (lambda x, w: x @ (x * w).transpose(1, 2), (1, 1, 16), (2, 13, 16)),
    "pointwise": (_conv(), (12, 9, 1), (1, 9, 26)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_sums_of_products_are_computed_in_blocks(right, name):
    function, weight, shape = SHAPES[name]
    # up to 1e2 terms of float32 are summed: 1e2 roundings of 6e-8 at worst, their root as a rule
    assert BLOCK in right(Of(function, _drawn(*weight)), _drawn(*shape))


def _norm(x, gain, bias):
    deviation = x - x.mean(-1, keepdim=True)
    return deviation * torch.rsqrt((deviation * deviation).mean(-1, keepdim=True) + 1e-5) * (1 + gain) + bias


OTHERS = {
    "two groups": (_conv(padding=1, groups=2), ((6, 4, 3),), (1, 8, 33)),
    "pool": (_transposed(stride=2, padding=1, output_padding=1, groups=6), ((6, 1, 3),), (1, 6, 24)),
    "uneven phases": (_transposed(stride=2), ((6, 3, 3),), (1, 6, 24)),
    "norm": (_norm, ((9, 1), (9, 1)), (1, 9, 131)),
    "softmax": (lambda x: torch.softmax(x, -1), (), (3, 7, 45)),
    "layer norm": (lambda x, gain, bias: F.layer_norm(x, (70,), gain, bias), ((70,), (70,)), (4, 70)),
    "total": (lambda x: x - x.sum(), (), (9, 13)),
    "arithmetic": (lambda x: F.leaky_relu(x * 2 + 1, 0.1) / 3, (), (1, 6, 41)),
    "a function": (lambda x: torch.exp(x) + torch.tanh(x), (), (1, 6, 41)),
    "edges": (lambda x: F.pad(x, (2, 1), mode="reflect"), (), (1, 6, 41)),
    "order": (lambda x: torch.sort(x, -1).values.cumsum(-1), (), (3, 50)),
    "one dimension": (lambda x, w: x @ w, ((50,),), (3, 50)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_sum_in_blocks_is_right(right, name):
    function, tensors, shape = OTHERS[name]
    assert BLOCK not in right(Of(function, *(_drawn(*shape) for shape in tensors)), _drawn(*shape))


def test_cores_share_what_is_long(right):
    rows = [right(Of(lambda x: x - x.mean(-1, keepdim=True)), _drawn(64, width)) for width in (30, 300)]
    assert ["T.parallel" in one for one in rows] == [False, True]


class Block(nn.Module):
    """What a vocoder is made of: up, norm, snake, dilated convolution with its residual, down to few channels."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ConvTranspose1d(12, 10, 8, stride=4, padding=2)
        self.conv = nn.Conv1d(10, 10, 7, padding=9, dilation=3)
        self.post = nn.Conv1d(10, 3, 3, padding=1)
        self.alpha = nn.Parameter(torch.rand(10, 1) + 0.5)

    def forward(self, x):
        x = self.up(F.leaky_relu(x, 0.1))
        y = _norm(x, self.alpha, self.alpha)
        y = y + torch.sin(self.alpha * y) ** 2 / self.alpha
        return torch.exp(self.post(F.leaky_relu((self.conv(y) + x) / 3)))


@pytest.mark.parametrize("fused", [True, False])
def test_a_vocoder_block_is_scheduled_from_end_to_end(right, fused):
    # exp magnifies the rounding of its argument, of up to 4
    lowered = right(Block(), _drawn(1, 12, 77), 5e-6, fused)
    assert lowered.count(f'T.sblock("{BLOCK}")') == 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_goes_where_it_goes_in_torch(taken, run, bad):
    weights = _drawn(3, 9, 4), _drawn(9), _drawn(5, 9, 3), _drawn(5)
    parts = Of(lambda x, up, b, conv, c: F.conv1d(F.conv_transpose1d(x, up, b, 2, 1), conv, c, dilation=2), *weights)
    x = _drawn(1, 3, 40)
    x[0, 1, 25] = bad
    (found,) = run(taken(parts, {"x": x}), [x.numpy()])
    with torch.no_grad():
        expected = parts(x).numpy()
    assert 0 < np.isfinite(expected).mean() < 1
    for of in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(of(found), of(expected))


def test_a_row_with_a_number_that_is_not_finite_leaves_the_others_alone(taken, run):
    module, x = Of(lambda x: _norm(torch.sin(x), 0.0, 0.0)), _drawn(4, 100)
    x[0, 3], x[1, 4], x[2, 5] = np.nan, np.inf, 1e20
    (found,) = run(taken(module, {"x": x}), [x.numpy()])
    np.testing.assert_array_equal(np.isfinite(found).all(-1), [False, False, True, True])
    assert _of_peak(found[2:], _in_float64(module, x)[2:]) < 1e-6


def test_taps_that_are_an_input_are_put_in_order(taken, run):
    x, weight = _drawn(1, 6, 20), _drawn(6, 9, 10)
    lowered = taken(taking(lambda x, weight: F.conv_transpose1d(x, weight, stride=5)), {"x": x, "weight": weight})
    (found,) = run(lowered, [x.numpy(), weight.numpy()])
    assert _of_peak(found, _in_float64(Of(_transposed(stride=5), weight), x)) < 1e-6


@pytest.mark.skipif(platform.machine() != "x86_64", reason="These are older processors of the same family.")
@pytest.mark.parametrize(("processor", "lanes"), [("haswell", 8), ("x86-64", 4)])
def test_a_processor_with_shorter_vectors_computes_the_same(taken, run, here, processor, lanes):
    from tvm.target import Target
    from tvm.target.codegen import llvm_cpu_has_features

    if lanes == 8 and not llvm_cpu_has_features("avx2", here):
        pytest.skip("This processor has no vectors of 8.")
    older = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": processor})
    module, x = Of(_transposed(stride=2, padding=1), _drawn(8, 9, 4)), _drawn(1, 8, 64)
    after = taken(module, {"x": x}, target=older)
    assert f"T.vectorized(T.int64({lanes}))" in after.script(show_meta=False)
    (found,) = run(after, [x.numpy()], older)
    assert _of_peak(found, _in_float64(module, x)) < 1e-6


ANGLES = {
    "within a turn": np.linspace(-7, 7, 600),
    "many turns": np.linspace(-(2.0**27.9), 2.0**27.9, 600),
    "multiples of a quarter": np.arange(-300, 300) * (math.pi / 2),
    "small": np.r_[10.0 ** np.linspace(-44, 0, 598), 0.0, -0.0],
    "huge": np.r_[np.geomspace(2.0**28, 3.4e38, 300), -np.geomspace(2.0**24, 3.4e38, 300)],
    "not finite": np.r_[np.linspace(-3, 3, 597), np.inf, -np.inf, np.nan],
}


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_are_those_of_float64(taken, run, name):
    x = torch.from_numpy(np.array(list(ANGLES.values()), np.float32))
    lowered = taken(Of(getattr(torch, name)), {"x": x})
    assert "nearbyint" in lowered.script(show_meta=False)  # the polynomial, no call of the C library
    (found,) = run(lowered, [x.numpy()])
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(x.numpy().astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    spacing = np.spacing(np.abs(np.nan_to_num(expected, nan=1.0)).astype(np.float32))
    errors = np.abs(found - expected)
    for row, error, last in zip(ANGLES, errors, spacing, strict=True):
        allowed = 0.502 * last + (3e-8 if row == "huge" else 0)  # half of the last place is exact
        assert np.all((error <= allowed) | np.isnan(error)), row
    np.testing.assert_array_equal(np.signbit(found[3, -2:]), np.signbit(expected[3, -2:]))


def test_a_schedule_does_not_reach_the_function_that_its_own_shares_loops_with():
    from tvm import s_tir, te

    x = te.placeholder((8, 8), name="x")
    function = te.create_prim_func([x, te.compute((8, 8), lambda *i: x[i] + 1.0, name="y")])
    before = function.script()
    assert scheduled_alone(function.with_attr("name", "another")).script() != before
    assert function.script() == before
    alone = s_tir.Schedule(function.with_attr("name", "another"))
    alone.fuse(*alone.get_loops("y"))  # TVM alone; once this fails, the copy can go
    assert function.script() != before
