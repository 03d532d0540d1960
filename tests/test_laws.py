"""Laws that hold for every input, on a few inputs that hypothesis draws, the same in every run."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import array_shapes, arrays

from kokoro_nb.errors import InputError
from kokoro_nb.faults import KINDS, Fault
from kokoro_nb.listening.waveform import correlation, lag, max_error_of_peak, rms, rms_ratio_db, snr_db
from kokoro_nb.locate import divergences
from kokoro_nb.traces.parity import compare
from tests.locate.conftest import Step, Toy

few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
numbers = some.floats(-1, 1, allow_subnormal=False, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
signals = some.integers(0, 2**32 - 1).flatmap(
    lambda seed: some.integers(8, 200).map(lambda size: np.random.default_rng(seed).standard_normal(size))
)
tensors = arrays(np.float32, array_shapes(max_dims=3, max_side=5), elements=numbers)
powers = some.integers(-8, 8).map(lambda power: 2.0**power)


@few
@given(tensors, tensors)
def test_an_error_is_symmetric_and_only_the_same_has_none(a, b):
    if a.shape != b.shape:
        with pytest.raises(InputError, match="cannot be compared"):
            compare(a, b)
        return
    assert compare(a, b).max_error == compare(b, a).max_error
    assert (compare(a, b).max_error == 0) == np.array_equal(a, b)


@few
@given(tensors, powers)
def test_shares_of_the_peak_do_not_depend_on_the_scale(a, scale):
    b = np.where(np.arange(a.size).reshape(a.shape) == a.size // 2, a + 0.25, a)
    first, second = compare(a, b), compare(scale * a, scale * b)
    assert second.of_peak == pytest.approx(first.of_peak, rel=1e-6)
    assert second.snr_db == pytest.approx(first.snr_db, abs=1e-6)
    assert second.max_error == pytest.approx(scale * first.max_error, rel=1e-6)


@few
@given(tensors, some.sampled_from([np.nan, np.inf, -np.inf]), some.data())
def test_what_is_not_finite_is_never_right(a, value, data):
    b = a.copy()
    b.flat[data.draw(some.integers(0, a.size - 1))] = value
    found = compare(a, b)
    assert found.finite == pytest.approx(1 - 1 / a.size)
    assert not found.of_peak <= 1e30 or np.isinf(found.of_peak)


@few
@given(signals, powers)
def test_level_and_correlation_follow_the_scale(y, scale):
    assert rms(scale * y) == pytest.approx(scale * rms(y), rel=1e-9)
    assert rms_ratio_db(y, scale * y) == pytest.approx(20 * np.log10(scale), abs=1e-9)
    assert rms_ratio_db(y, scale * y) == pytest.approx(-rms_ratio_db(scale * y, y), abs=1e-9)
    assert correlation(y, scale * y) == pytest.approx(1)
    assert correlation(y, -y) == pytest.approx(-1)
    assert snr_db(y, (1 + 1 / 8) * y) == pytest.approx(20 * np.log10(8), abs=1e-6)
    assert max_error_of_peak(y, -y) == pytest.approx(2)


@few
@given(signals, some.integers(-3, 3))
def test_a_shift_is_found_and_its_opposite_is_the_negative(y, shift):
    longer = np.pad(y, 8)
    moved = np.roll(longer, shift)
    assert lag(longer, moved, 5) == shift
    assert lag(moved, longer, 5) == -shift


@few
@given(some.integers(0, 2**32 - 1), some.integers(20, 60))
def test_the_patched_transform_and_its_inverse_are_one(seed, hops):
    import torch
    from kokoro.custom_stft import CustomSTFT

    from kokoro_nb.models.patches import patched

    y = torch.from_numpy(np.random.default_rng(seed).standard_normal((1, 5 * hops)).astype(np.float32))
    transform = CustomSTFT(20, 5, 20)
    with torch.no_grad(), patched(transform, ("exact_istft",)):
        back = transform.inverse(*transform.transform(y)).reshape(1, -1)
    assert compare(y[:, : back.shape[1]], back).of_peak < 1e-5


@few
@given(
    some.sampled_from(sorted(KINDS)),
    some.from_regex(r"[a-z]\w{0,5}(\.\w{1,5})?:[a-z]\w{0,6}(#[1-9])?", fullmatch=True),
    some.integers(0, 99),
)
def test_a_fault_is_read_as_it_is_written(kind, operator, seed):
    fault = Fault(kind, operator, seed)
    assert Fault.parse(str(fault)) == fault


@few
@given(some.integers(0, 99), some.integers(2, 12), some.integers(1, 12), some.floats(-4, 4))
def test_what_stands_behind_the_valid_part_changes_nothing(seed, valid, more, fill):
    import torch

    from kokoro_nb.models.padding import Valid, within

    torch.manual_seed(seed)
    layers = torch.nn.Sequential(torch.nn.InstanceNorm1d(3, affine=True), torch.nn.Conv1d(3, 4, 3, padding=1)).double()
    x = torch.randn(1, 3, valid, dtype=torch.float64)
    wide = torch.nn.functional.pad(x, (0, more), value=fill)
    with torch.no_grad(), within(layers, Valid(valid + more, torch.tensor([valid]))):
        found = layers(wide)[..., :valid]
    with torch.no_grad():
        assert compare(layers(x).numpy(), found.numpy()).of_peak < 1e-10


FUNCTIONS = {"sin.default": np.sin, "tanh.default": np.tanh, "add.Tensor": np.add, "mul.Tensor": np.multiply}


def _drawn_program(source):
    """Return the steps of a program of eight operators, each of one or two that stand before it."""
    steps: dict[str, Step] = {}
    for place in range(8):
        op = str(source.choice(list(FUNCTIONS)))
        before = ["input:x", *steps]
        steps[f":n{place}"] = Step(op, FUNCTIONS[op], tuple(source.choice(before, FUNCTIONS[op].nin).tolist()))
    ends = [name for name in steps if not any(name in step.reads for step in steps.values())]
    steps[":end"] = Step("cat.default", lambda *parts: np.concatenate(parts), tuple(ends))
    return steps


def _reordered(steps, source):
    """Return the same steps in another order, each behind what it reads."""
    left, order = dict(steps), {}
    while left:
        ready = [name for name, step in left.items() if not any(one in left for one in step.reads)]
        name = str(source.choice(ready))
        order[name] = left.pop(name)
    return order


@few
@given(some.integers(0, 2**32 - 1))
def test_what_is_wrong_does_not_depend_on_the_order_of_the_graph(seed):
    source = np.random.default_rng(seed)
    steps, inputs = _drawn_program(source), {"x": source.standard_normal((1, 3, 5)).astype(np.float32)}
    faulty = [str(name) for name in source.choice([name for name in steps if name != ":end"], 2, replace=False)]
    faults = {name: lambda values: values + np.float32(0.5) for name in faulty}
    found = []
    for order in (steps, _reordered(steps, source), _reordered(steps, source)):
        program = Toy(inputs, order)
        culprits = divergences(program.trace(), program.trace(faults))
        found.append({one.tap.name: (one.candidates, one.local_error, one.channels) for one in culprits})
    assert all(one == found[0] for one in found)
    assert set(found[0]) == set(faulty)
