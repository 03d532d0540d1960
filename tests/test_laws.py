"""Laws that hold for every input, on a few inputs that hypothesis draws, the same in every run."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from kokoro_nb.locate.verdicts import divergences
from tests.locate.conftest import Step, Toy

few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


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
