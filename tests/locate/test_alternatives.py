"""What a converter made of an operator is told from what it gave and how it was called; no runtime is needed."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.backends.exported import export_program
from kokoro_nb.locate.local_error import LocalError, judged
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.rule_evidence import Evidence, call_of
from kokoro_nb.traces.trace import Operator
from tests.backends.small import taking

X = np.linspace(-2, 2, 32).reshape(1, 4, 8)
WHOLE = np.arange(-3, 5)
SMALL = np.int8([1, 50, 100])
PAIR = {"self": X, "other": np.sin(3 * X)}
QUOTIENT, FLOORED, BEYOND = X / PAIR["other"], {**PAIR, "rounding_mode": "floor"}, {"self": np.array([300.7, 1.2])}
POOLED = {"self": X, "kernel_size": [4], "stride": [2], "padding": [2], "ceil_mode": False}
SCALED = {"input": X, "output_size": None, "scale_factors": [0.8]}
IMAGE = {"input": X[None] ** 3, "output_size": [3, 3], "align_corners": False, "scale_factors": None}


TURNED = {"self": PAIR["other"], "other": PAIR["self"]}
SHIFT, MASKED = np.linspace(1, 2, 8), {"self": X, "mask": X > 0, "value": -9}
PADDED = {"self": X, "pad": [2, 0], "mode": "constant"}
NORMED = {"input": X, "normalized_shape": [8], "weight": None, "eps": 1e-5}
FRAMES, PHONES = np.array([[5.0, 7.0, 1.0, 2.0, 3.0]]), np.array([[0, 0, 1, 2, 2]])
GATHERED = {"self": np.full((1, 4), 9.0), "dim": 1, "index": PHONES, "src": FRAMES}
GROUPED = {"input": X, "num_groups": 2, "weight": None, "bias": None, "eps": 1e-5}


def _grouped(groups):
    return F.group_norm(torch.from_numpy(X), groups).numpy()


def _normed(bias):
    return np.asarray(F.layer_norm(torch.from_numpy(X), [8], bias=bias if bias is None else torch.from_numpy(bias)))


def _padded(value):
    return F.pad(torch.from_numpy(X), PADDED["pad"], value=value).numpy()


def _gated(x):
    return F.glu(torch.from_numpy(x), 1).numpy()


def _pooled(padded):
    return F.avg_pool1d(torch.from_numpy(X), 4, 2, 2, count_include_pad=padded).numpy()


def _resized(size, scale=None):
    return F.interpolate(torch.from_numpy(X), size, scale).numpy()


def _image(smooth):
    return F.interpolate(torch.from_numpy(IMAGE["input"]), [3, 3], mode="bilinear", antialias=smooth).numpy()


def _evidence(kind, given, right, arguments):
    given, right = np.asarray(given), np.asarray(right)
    op = kind if "." in kind else f"{kind}.default"
    operator = Operator(
        ":it", f"aten.{op}", "", ("input:x",), right.shape, "bool" if right.dtype == bool else "float32"
    )
    error = LocalError(operator, 1.0, 1.0, np.inf, np.ones(right.shape, bool), given, right, ())
    error = judged(operator, given, right, 0.0) if given.shape == right.shape else error
    inputs = {name: one for name, one in arguments.items() if isinstance(one, np.ndarray)}
    return Evidence(error, inputs, arguments)


def _first(kind, given, right, arguments):
    found = mechanisms(_evidence(kind, given, right, arguments))
    return found[0].statement if found else None


@pytest.mark.parametrize(
    ("kind", "given", "right", "arguments", "words"),
    [
        ("add.Tensor", X + PAIR["other"], X + 3 * PAIR["other"], {**PAIR, "alpha": 3}, "one whose alpha is 1, not 3"),
        ("rsub.Scalar", 1 - X, 1 - 0.5 * X, {"self": X, "other": 1, "alpha": 0.5}, "one whose alpha is 1, not 0.5"),
        ("tanh", X, np.tanh(X), {"self": X}, "tanh computed as its input, unchanged"),
        ("atan2", np.arctan2(*PAIR.values()), np.arctan2(*TURNED.values()), TURNED, "self and other are exchanged"),
        ("group_norm", _grouped(1), _grouped(2), GROUPED, "one whose num_groups is 1, not 2"),
        ("glu", X[:, 2:] / (1 + np.exp(-X[:, :2])), _gated(X), {"self": X, "dim": 1}, "GLU with its halves exchanged"),
        ("cumsum", X.cumsum(2), X.cumsum(1), {"self": X, "dim": 1, "dtype": None}, "one whose dim is 2, not 1"),
        ("le", WHOLE < 2, WHOLE <= 2, {"self": WHOLE, "other": 2}, "le computed as less"),
        ("avg_pool1d", _pooled(False), _pooled(True), {**POOLED, "count_include_pad": True}, "is False, not True"),
        ("argmax", np.array(1), np.array(0), {"self": np.array([np.nan, 2, 1]), "dim": None}, "of all values but NaN"),
        ("sign", [np.nan, 1.0], [0.0, 1.0], {"self": np.array([np.nan, 2])}, "the sign, and NaN of NaN"),
        ("upsample_nearest1d.vec", _resized(6), _resized(None, 0.8), SCALED, "by the sizes, not by the scale"),
        ("_upsample_bilinear2d_aa.vec", _image(False), _image(True), IMAGE, "an interpolation without antialiasing"),
        ("mul.Tensor", 0 * WHOLE, 0.5 * WHOLE, {"self": WHOLE, "other": 0.5}, "one whose other is 0, not 0.5"),
        ("ge.Scalar", WHOLE >= 0, WHOLE >= 0.5, {"self": WHOLE, "other": 0.5}, "one whose other is 0, not 0.5"),
        ("lt.Scalar", SMALL < 44, SMALL > 0, {"self": SMALL, "other": 300}, "one whose other is 44, not 300"),
        ("mul.Tensor", X > 0, (X > 0) * 0.5, {"self": X > 0, "other": 0.5}, "one whose other is True, not 0.5"),
        ("div", WHOLE // 2, WHOLE / 2, {"self": WHOLE, "other": 2, "rounding_mode": None}, "the floor of the rounded"),
        ("div", np.trunc(WHOLE / 2), WHOLE / 2, {"self": WHOLE, "other": 2, "rounding_mode": None}, "integer division"),
        ("selu", np.where(X > 0, X, 1.6732632423543772 * np.expm1(X)), X + 9, {"self": X}, "ELU without its scale"),
        ("log1p", np.log(np.float32(1) + np.float32(X * 1e-7 + 3e-7)), np.log1p(X * 1e-7 + 3e-7), {}, "log(1 + x)"),
        ("ceil", [2.0, -1.0], [2.0, -1.0 + 1], {"self": np.array([1.6, -0.7])}, "nearest"),
        ("div.Tensor_mode", np.trunc(QUOTIENT), np.floor(QUOTIENT), FLOORED, "is trunc, not floor"),
        ("_to_copy", np.int8([127, 1]), np.int8([44, 1]), BEYOND, "a cast to int8 of numbers be"),
        ("sub", [100, 0], [-156, 0], {"self": np.array([-128, 0]), "other": np.array([28, 0])}, "int8, which wrap"),
        (
            "cumsum",
            np.uint8([200, 144]),
            [200, 400],
            {"self": np.uint8([200, 200]), "dim": 0, "dtype": None},
            "in uint8",
        ),
        ("clamp", X * 0 + 0.3, X * 0 - 0.2, {"self": X, "min": 0.3, "max": -0.2}, "a clamp whose lower bound wins"),
        (
            "logaddexp",
            [np.inf, 2.0],
            [99.0, 2.0],
            {"self": np.array([99, -99.0]), "other": np.array([0, 2.0])},
            "log(exp",
        ),
        (
            "logcumsumexp",
            [np.inf] * 2,
            [99.0] * 2,
            {"self": np.array([99.0, 9]), "dim": 0},
            "logarithm of a running sum",
        ),
        ("log_softmax", [0, -103.2789], [0, -200.0], {"self": np.array([200.0, 0]), "dim": 0}, "of softmax and 1e-45"),
        (
            "pad",
            _padded(0.0),
            _padded(0.7),
            {**PADDED, "value": 0.7},
            "pad computed as one whose value is None, not 0.7",
        ),
        ("hardsigmoid", 0.2 * X + 0.5, X / 6 + 0.5, {"self": X}, "one of slope 0.2"),
        ("masked_fill.Scalar", np.where(X > 0, X, -9), np.where(X > 0, -9, X), MASKED, "where the mask does not hold"),
        ("ge.Scalar", WHOLE < 2, WHOLE >= 2, {"self": WHOLE, "other": 2}, "ge computed as its negation"),
        ("avg_pool2d", X, X / 9, {"self": X, "kernel_size": [1, 1], "divisor_override": 9}, "is None, not 9"),
        ("layer_norm", _normed(None), _normed(SHIFT), {**NORMED, "bias": SHIFT}, "one without its bias"),
        ("scatter_add", [[7, 1, 3, 9.0]], [[21, 10, 14, 9]], GATHERED, "keeps the last number alone"),
        ("prelu", np.where(X > 0, X, X * SHIFT), np.where(X > 0, X, X / 4), {"self": X, "weight": SHIFT}, "last axis"),
        ("cumsum", [2**30, -(2**31)], [2**30, 2**31], {"self": np.int32([2**30] * 2), "dim": 0, "dtype": None}, "wrap"),
    ],
)
def test_what_was_computed_is_named(kind, given, right, arguments, words):
    arguments = arguments or {"self": X * 1e-7 + 3e-7}
    assert words in _first(kind, given, right, arguments)


def test_what_it_would_give_is_no_reason_where_it_was_not_given():
    small = np.array([7, -4, 9, 2]), np.array([90_000, 7, -60_000, 5]) * 40_503
    found = mechanisms(_evidence("mul.Tensor", *small, {"self": small[1] // 40_503, "other": 40_503}))
    assert "operator lowered as another" not in [one.name for one in found]
    for kind, arguments in (("add", {**PAIR, "alpha": 3}), ("mul.Tensor", {"self": WHOLE, "other": 0.5})):
        right = np.asarray(arguments["self"], np.float64) + 1
        found = mechanisms(_evidence(kind, right + np.cos(right), right, arguments))
        assert "operator lowered as another" not in [one.name for one in found]


def test_what_is_not_finite_has_to_be_alike():
    x = X.copy()
    x[0, 0, 0] = np.nan
    for given in (2.0, 1.5):  # the largest of the others, and any number
        assert _first("max", np.asarray(given), np.asarray(np.nan), {"self": x}) == "max passes over NaN"
    assert _first("ne", x < x, x != x, {"self": x, "other": x}) == "ne computed as less or greater, which NaN is not"


@pytest.mark.parametrize(
    ("kind", "value", "arguments", "words"),
    [
        ("clamp", -1.0, {"min": -1.0, "max": 1}, "NaN taken for a bound"),
        ("clamp_min", np.inf, {"min": -1.0}, "NaN taken for a bound"),
        ("relu", 0.0, {}, "NaN taken for a bound"),
        ("relu", 0.5, {}, "relu passes over NaN"),
    ],
)
def test_a_bound_in_the_place_of_nan(kind, value, arguments, words):
    right = np.clip(X, -1, 1)
    right[0, 1, 3] = np.nan
    found = mechanisms(_evidence(kind, np.where(np.isnan(right), value, right), right, {"self": X, **arguments}))
    assert found[0].statement == words
    assert ("here: " in found[0].evidence[0]) is (words == "NaN taken for a bound")


def test_a_known_form_goes_before_a_fitted_factor():
    given, right = np.float32(1.2 * X), 1.2 * X * 1.0507009873554805
    fitted, *_ = mechanisms(_evidence("mul", given, right, {"self": X, "other": 1.05}))
    assert fitted.name in ("changed scale", "changed constant")
    elu = np.where(X > 0, X, 1.6732632423543772 * np.expm1(X))
    found = mechanisms(_evidence("selu", np.float32(elu), 1.0507009873554805 * elu, {"self": X}))
    assert [one.name for one in found[:2]] == ["operator lowered as another", "changed scale"]


BEFORE, PAIRS = "an index counted from the end read before the tensor", "all pairs of the indices"
T = np.arange(24.0).reshape(2, 3, 4)


def _before(x, axis, index):
    """Return what lies `index` places along an axis, negative ones before what precedes them; garbage before all."""
    step = int(np.prod(x.shape[axis + 1 :]))
    places = np.arange(x.size).reshape(x.shape).take([0], axis) + step * np.asarray(index).reshape(
        [-1 if one == axis else 1 for one in range(x.ndim)]
    )
    return np.where(places < 0, 1e30, x.ravel()[places.clip(0)])


def test_what_lies_before_the_tensor():
    index = np.array([1, -1])
    arguments = {"self": T, "indices": [None, index]}
    given, right = _before(T, 1, index), T[:, index]
    (found, *_) = mechanisms(_evidence("index", given, right, arguments))
    assert (found.name, found.statement) == ("operator lowered as another", BEFORE)
    assert found.evidence[0] == "8 of the 8 elements that a negative index points at are wrong, and no other"
    assert found.evidence[1].startswith("4 of them are what stands")
    last = _before(T, 1, [-1])[:, 0]
    assert _first("select", last, T[:, -1], {"self": T, "dim": 1, "index": -1}) == BEFORE


def test_what_is_wrong_elsewhere_lies_not_before_the_tensor():
    index = np.array([1, -1])
    arguments, right = {"self": T, "indices": [None, index]}, T[:, index]
    given = _before(T, 1, index)
    assert _first("index", np.where(given == 4, 5, given), right, arguments) != BEFORE
    assert _first("index", np.where(right == 20, 5, given), right, arguments) != BEFORE  # what stands there is 8
    assert _first("index", right + 1, right, {"self": T, "indices": [None, np.array([1, 2])]}) != BEFORE
    mask = {"self": T, "indices": [T > 3]}
    assert _first("index", T[T > 3] + 1, T[T > 3], mask) != BEFORE


def test_all_pairs_of_the_indices():
    i, j = np.array([0, 2]), np.array([1, 3])
    arguments, right = {"self": T, "indices": [None, i, j]}, T[:, i, j]
    (found,) = mechanisms(_evidence("index", T[:, i][:, :, j], right, arguments))
    assert found.statement == PAIRS
    assert "(2, 2, 2) in place of (2, 2)" in found.evidence[0]
    assert mechanisms(_evidence("index", T[:, i][:, :, j] + 1, right, arguments)) == ()
    apart = {"self": T, "indices": [np.array([0, 1]), None, j]}
    assert _first("index", T[:, :, j], T[[0, 1], :, j], apart) == PAIRS


def test_the_call_is_known_by_the_names_of_the_schema():
    inputs = {"x": torch.ones(3), "i": torch.tensor([-1])}
    meaning = export_program(taking(lambda x, i: torch.add(x, x[i], alpha=2)), inputs).specification
    arrays = {name: one.numpy() for name, one in inputs.items()}
    call = call_of(meaning, ":add", arrays, {":index": np.float32([7])})
    assert (call["alpha"], call["other"].tolist(), call["self"].dtype) == (2, [7.0], np.float64)
    assert call_of(meaning, ":index", arrays, {})["indices"][0].tolist() == [-1]


@pytest.mark.parametrize(
    ("given", "right", "words"),
    [
        ([7, 1, 3, 9], [7, 5, 14 / 3, 9], "a scatter that keeps the last number alone"),
        ([12, 1, 5, 9], [6, 1, 2.5, 9], "the sum without the old value"),
        ([21, 10, 14, 9], [6, 1, 2.5, 9], "the sum"),
        ([6, 1, 2.5, 9], [7, 5, 14 / 3, 9], "the mean without the old value"),
    ],
)
def test_another_reduction_of_what_is_scattered_is_told(given, right, words):
    found = _first("scatter_reduce", [given], [right], GATHERED)
    assert found == f"scatter_reduce computed as {words}"


def test_what_a_negative_index_reads_in_a_tensor_that_was_computed_along_is_told():
    x = np.linspace(1, 2, 24).reshape(1, 4, 6)
    rounded = np.float32(x * (1 + 3e-6))
    before = np.concatenate([[[[77.0]]], rounded[:, :3, -1:]], 1)[..., 0]  # row 0 reads before the tensor
    found = mechanisms(_evidence("select", before, x[..., -1], {"self": x, "dim": 2, "index": -1}))
    assert found[0].statement == "an index counted from the end read before the tensor"
