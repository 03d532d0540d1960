"""Laws that hold for every input, on a few inputs that hypothesis draws, the same in every run."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import array_shapes, arrays

from kokoro_nb.errors import InputError
from kokoro_nb.locate import divergences
from kokoro_nb.traces.parity import compare
from tests.locate.conftest import Step, Toy

few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
numbers = some.floats(-1, 1, allow_subnormal=False, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
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
