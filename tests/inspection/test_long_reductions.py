"""Long reductions that a runtime does rightly, in whatever order it adds, are no fault; a factor of 1.001 is one."""

import numpy as np
import pytest

import kokoro_nb as nb

RANDOM = np.random.default_rng(7)
ALIKE = {"equal": np.full((2, 3, 100_000), 0.3), "random": RANDOM.uniform(0.1, 0.5, (2, 3, 100_000))}
WAVE = 3 + np.sin(np.arange(30_000) / 900)
CASES = {
    "ReduceMean": (ALIKE["equal"], {"keepdims": 1}, {"axes": np.array([1, 2])}),
    "ReduceMean of random terms": (ALIKE["random"], {"keepdims": 0}, {"axes": np.array([2])}),
    "ReduceSumSquare": (ALIKE["equal"], {"keepdims": 1}, {"axes": np.array([2])}),
    "ReduceL1": (-ALIKE["random"], {"keepdims": 1}, {"axes": np.array([2])}),
    "GlobalAveragePool": (ALIKE["random"], {}, {}),
    "AveragePool": (ALIKE["equal"][:1, :2], {"kernel_shape": [2500], "strides": [1250]}, {}),
    "InstanceNormalization": (
        RANDOM.standard_normal((2, 3, 70_000)) - 40,
        {"epsilon": 1e-5},
        {"scale": np.linspace(1, 2, 3, dtype=np.float32), "bias": np.zeros(3, np.float32)},
    ),
    "Resize": (WAVE[None, None], {"mode": "linear"}, {"": None, "scales": np.array([1, 1, 2.5], np.float32)}),
    "LpNormalization": (RANDOM.standard_normal((3, 1, 120_000)) + 5, {"p": 2, "axis": 2}, {}),
    "CumSum": (np.r_[1e6, np.full(20_000, 0.3)], {"reverse": 1, "exclusive": 1}, {"axis": np.array(0)}),
    "ReduceLogSum": (ALIKE["random"], {"keepdims": 1}, {"axes": np.array([2])}),
    "Einsum": (ALIKE["equal"][0, :, :20_000], {"equation": "ij,jk->ik"}, {"w": np.full((20_000, 2), 0.7, np.float32)}),
    "MatMul": (ALIKE["random"][0], {}, {"w": np.full((100_000, 2), 0.7, np.float32)}),
}


@pytest.fixture
def file(save, node):
    """Return a function that writes one case and returns its path and inputs."""

    def written(case):
        x, attributes, constants = CASES[case]
        held = {name: value for name, value in constants.items() if value is not None}
        one = node(case.split()[0], ["x", *constants], ["y"], name="/long", **attributes)
        return save([one], {"x": x.shape}, ["y"], held), {"x": x.astype(np.float32)}

    return written


@pytest.mark.parametrize("case", CASES)
def test_a_long_reduction_is_no_fault(file, case):
    path, inputs = file(case)
    report = nb.inspect(path, inputs)
    assert report.findings == ()
    assert [one.verdict for one in report.judgements] == ["pass"]


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"ReduceMean", "ReduceSumSquare"}))  # equal: off by 1 % itself
def test_a_factor_in_a_long_reduction_is_named(file, spoil, case):
    path, inputs = file(case)
    spoil("y", lambda y: y * np.float32(1.001))
    assert nb.inspect(path, inputs).findings[0].key == "/long"
