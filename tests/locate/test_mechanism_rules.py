import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.locate.culprit import NAMES, Mechanism, likeliest
from kokoro_nb.locate.local_error import LocalError, judged
from kokoro_nb.locate.mechanism_rules import mechanisms
from kokoro_nb.locate.rule_evidence import Evidence, pattern
from kokoro_nb.locate.verdicts import divergences
from kokoro_nb.traces.trace import Operator
from tests.locate.normed_signals import noise, normed, with_channels

EXP = "an exponential that overflows"


def test_an_exponential_that_overflows(causes):
    x = noise()
    x[0, 1, 3] = 100
    found = causes("exp.default", np.exp, lambda y: np.minimum(y, 3e38), x)[EXP]
    assert found.evidence == ("its largest argument is 100, the limit 88.72",)
    assert EXP not in causes("tanh.default", np.tanh, lambda y: 2 * y, x)
    x[0, 1, 3] = 12
    found = causes("exp.default", np.exp, lambda y: np.minimum(y, 6e4), x, dtype=np.float16)[EXP]
    assert found.evidence == ("its largest argument is 12, the limit 11.09",)
    assert EXP not in causes("exp.default", np.exp, lambda y: 2 * y, x)  # float32 goes to 88


def test_the_branch_cut(causes):
    turn = np.float32(2 * np.pi)

    def angle(x):
        return np.arctan2(0 * x + 1e-6, x)

    def fault(result):
        return np.where(result > 3, result - turn, result)

    found = causes("atan2.default", angle, fault, noise())["atan2 on the branch cut"]
    assert found.explained == 1
    assert found.evidence == ("100 % of the wrong elements are off by 2 pi or pi",)
    half = causes("atan2.default", angle, lambda r: with_channels([0], r[:, 0] + 1)(fault(r)), noise())
    assert 0 < half["atan2 on the branch cut"].explained < 1
    assert causes("atan2.default", angle, lambda r: r + 1, noise())["atan2 on the branch cut"].explained == 0
    assert "atan2 on the branch cut" not in causes("tanh.default", np.tanh, lambda r: r + turn, noise())


def test_the_logarithm_of_zero(causes):
    x = np.abs(noise())
    x[0, 1, 3:5] = 0
    found = causes("log.default", np.log, lambda y: np.where(np.isinf(y), np.nan, y), x)["log of zero"]
    assert found.evidence == ("at 2 of 2 elements that are not finite, input:x is 0",)


def test_division_by_a_zero_that_is_broadcast(toy, step):
    steps = {":div": step("div.Tensor", lambda x, y: x / y, "input:x", "input:y")}
    inputs = {"x": 1 + np.abs(noise()), "y": np.float32([1, 0, 2, 3]).reshape(1, 4, 1)}
    program = toy(steps, inputs)
    (found,) = divergences(program.trace(), program.trace({":div": lambda y: np.where(np.isinf(y), 0, y)}))
    (mechanism,) = (one for one in found.mechanisms if one.statement == "div of zero")
    assert mechanism.evidence == ("at 32 of 32 elements that are not finite, input:y is 0",)


def test_an_angle_of_two_zeros_that_is_a_quotient(toy, step):
    x, y = noise(), noise(seed=1)
    x[0, 1, 3:5] = y[0, 1, 3:5] = 0
    program = toy({":atan2": step("atan2.default", np.arctan2, "input:y", "input:x")}, {"x": x, "y": y})
    (found,) = divergences(program.trace(), program.trace({":atan2": lambda z: np.where(z == 0, np.nan, z)}))
    assert (found.mechanism.name, found.mechanism.statement) == ("division by zero", "atan2 of zero")
    assert found.mechanism.evidence[0] == "at 2 of 2 elements that are not finite, input:y is 0"


def test_zeros_that_divide_nothing(causes, toy, step):
    x = np.abs(noise())
    x[0, 1, 3:5] = 0
    assert "div of zero" not in causes("div.Tensor", lambda x: x / 3, lambda y: y * 2, x)  # zeros above the line
    assert "log of zero" not in causes("log.default", np.log, with_channels([2], np.nan), x)  # wrong elsewhere
    assert "neg of zero" not in causes("neg.default", lambda x: -x, with_channels([1], np.nan), x)
    # what was not captured lies between, and the shapes do not go together
    steps = {
        ":cat": step("cat.default", lambda x: np.concatenate([x, x], -1), "input:x"),
        ":log": step("log.default", np.log, ":cat"),
    }
    program = toy(steps, {"x": x})
    (found,) = divergences(program.trace(), program.trace({":log": lambda y: y * 2}, missing=[":cat"]))
    assert "log of zero" not in [one.statement for one in found.mechanisms]


HALF = "the range of float16"


def test_the_range_of_float16(causes):
    x = noise()
    x[0, 1] = 300

    def fault(y):
        return np.where(np.abs(y) > 65504, np.inf, y)

    found = causes("pow.Tensor_Scalar", lambda x: x**2, fault, x)[HALF]
    assert found.evidence == ("the largest right value is 9e+04, above 65504",)
    assert found.against == ()
    found = causes("pow.Tensor_Scalar", lambda x: x**2, lambda y: with_channels([2], np.nan)(fault(y)), x)[HALF]
    assert found.against == ("32 elements that are not finite should be within it",)
    x = noise()
    assert HALF not in causes("mul.Tensor", lambda x: x * 2, with_channels([1], np.inf), x)  # nothing large is right
    assert HALF not in causes("mul.Tensor", lambda x: x * 1e6, lambda y: y * 2, x)  # and nothing is infinite


ROUNDED = "a result rounded to float16"


def test_a_result_rounded_to_float16(causes):
    found = causes("sin.default", np.sin, lambda y: y.astype(np.float16).astype(np.float32), noise())
    assert ROUNDED in found
    assert ROUNDED not in causes("sin.default", np.sin, lambda y: y * np.float32(1.001), noise())
    assert ROUNDED not in causes("sin.default", np.sin, lambda y: y > 0, noise())  # a few round numbers are no rounding
    assert ROUNDED not in causes("floor.default", np.floor, lambda y: (y + 1).astype(np.float32), 20 * noise())


def test_a_turned_sign_and_a_factor(causes):
    found = causes("sin.default", np.sin, lambda y: -y, noise())
    assert list(found) == ["a turned sign"]
    assert found["a turned sign"].explained == pytest.approx(1, abs=1e-6)
    assert type(found["a turned sign"].explained) is float
    found = causes("sin.default", np.sin, lambda y: y * np.float32(1.25), noise())
    assert list(found) == ["a factor"]
    assert found["a factor"].evidence == ("the result is 1.25 times the right value, to 100 %",)


def test_an_explanation_says_how_much_it_explains(causes):
    # -y and a rest whose root mean square is 1 / 200 of that of 2 y: 0.5 % of the error is left
    y, rest = np.sin(noise()), noise(seed=1)
    rest *= np.sqrt(np.mean((2 * y) ** 2) / np.mean(rest**2)) / 200
    found = causes("sin.default", np.sin, lambda y: -y + rest, noise())["a turned sign"]
    assert found.explained == pytest.approx(1 - 1 / 200, abs=2e-4)
    # with four times the rest, 2 %: that is no explanation any more
    assert "a turned sign" not in causes("sin.default", np.sin, lambda y: -y + 4 * rest, noise())


@pytest.mark.parametrize(("step_by", "word"), [(1, "+1"), (-1, "-1")])
def test_a_shift_whatever_comes_in_at_the_end(causes, step_by, word):
    def fault(y):
        y = np.roll(y, step_by, axis=-1)
        y[..., 0 if step_by > 0 else -1] = 0
        return y

    found = causes("slice.Tensor", np.copy, fault, noise())["a shift by one, as of padding"]
    assert found.explained == pytest.approx(1)
    assert f"shifted by {word}" in found.evidence[0]


def test_a_shift_whatever_a_window_makes_of_the_ends(causes):
    def fault(y):
        y = np.roll(y, 2, axis=-1)
        y[..., :4], y[..., -3:] = 0.5, -0.5
        return y

    assert "a shift by 2, as of padding" in causes("conv1d.default", np.copy, fault, noise())


def test_no_shift(causes):
    shift = "a shift by one, as of padding"
    assert shift not in causes("slice.Tensor", np.copy, lambda y: np.roll(y, 2, axis=-1), noise())
    assert shift not in causes("slice.Tensor", np.copy, lambda y: np.roll(y, 1, axis=1), noise())


BIAS = "a bias dropped, doubled or wrong"


def test_a_bias(causes):
    bias = np.float32([1, -2, 0.5, 3]).reshape(1, 4, 1)
    found = causes("conv1d.default", lambda x, b: x + b, lambda y: y - bias, noise(), bias)
    assert found[BIAS].explained == pytest.approx(1, abs=1e-5)
    assert BIAS not in causes("conv1d.default", lambda x, b: x + b, lambda y: y * 2, noise(), bias)
    ramp = np.linspace(0, 1, 32, dtype=np.float32)
    assert BIAS not in causes("conv1d.default", lambda x, b: x + b, lambda y: y + ramp, noise(), bias)


LEAK = "padding that leaks in"


@pytest.mark.parametrize(
    ("place", "side"),
    [(slice(0, 2), "beginning"), (slice(30, 32), "end"), (slice(10, 12), ""), (slice(0, 20), ""), (slice(None), "")],
)
def test_padding_that_leaks_in(causes, place, side):
    def fault(y):
        y = y.copy()
        y[..., place] += 1
        return y

    found = causes("conv1d.default", np.sin, fault, noise())
    assert (LEAK in found) == bool(side)
    assert not side or found[LEAK].evidence == (f"wrong at the {side} alone: 2 of 32 positions",)


SQUARES = "squares beyond the range of float16"


def test_squares_that_float16_cannot_hold(causes):
    x = noise()
    x[:, 1] *= 200
    found = causes("instance_norm.default", normed, with_channels([1], 0), x, dtype=np.float16)[SQUARES]
    assert found.name == "overflow of the dtype"
    assert found.explained == 1
    assert found.evidence[1] == "1 of 4 channels are constant or not finite"
    assert SQUARES not in causes("instance_norm.default", normed, with_channels([1], 0), noise(), dtype=np.float16)
    assert SQUARES not in causes("instance_norm.default", normed, with_channels([1], 0), x)  # float32 holds them


def test_nan_that_becomes_a_number(causes):
    x = noise()
    x[0, 1, 3:5] = np.nan
    found = causes("clamp.default", lambda x: np.clip(x, -1, 1), lambda y: np.where(np.isnan(y), 1, y), x)
    assert found["clamp passes over NaN"].evidence == ("2 elements are NaN in float64 and a number here",)
    found = causes("clamp.default", lambda x: np.clip(x, -1, 1), lambda y: np.where(np.isnan(y), 1, y) + 1, x)
    assert "clamp passes over NaN" not in found


def test_a_constant_that_is_another(causes):
    cut = causes("div.Tensor", lambda x: x / 24000, lambda y: y * np.float32(2.4), noise())["another constant"]
    assert cut.name == "changed constant"
    assert cut.evidence[0].startswith("the result is 2.4 times the right value")
    moved = causes("add.Tensor", lambda x: x + 1, lambda y: y - 3, noise())["another constant"]
    assert "the right value -3" in moved.evidence[0]
    assert "another constant" not in causes("sin.default", np.sin, lambda y: y * 2, noise())
    assert "another constant" not in causes("mul.Tensor", lambda x: x * 2, lambda y: y + noise(seed=1), noise())


def test_a_result_on_a_coarse_grid(causes):
    x = noise((1, 4, 512))
    found = causes("sin.default", np.sin, lambda y: (np.round(y * 20) / 20).astype(np.float32), x)
    assert found["a result quantised to 8 bits or fewer"].name == "quantisation range"
    assert "a result quantised to 8 bits or fewer" not in causes("sin.default", np.sin, lambda y: y + 1, x)


def test_a_mechanism_has_a_name_of_the_list():
    assert {name for name in NAMES if name != "unknown"}
    with pytest.raises(InputError, match="'sunspots' is no mechanism; use one of one-pass variance"):
        Mechanism("sunspots", "of the eleven-year cycle")


def test_what_explains_little_is_not_the_likeliest():
    weak, strong = Mechanism("changed scale", "weak", explained=0.2), Mechanism("too few bits", "strong")
    assert likeliest((weak,)).name == "unknown"
    assert likeliest((strong, weak)) is strong


def test_the_best_explained_comes_first(causes):
    def fault(y):
        return (-y).astype(np.float16).astype(np.float32)

    found = list(causes("sin.default", np.sin, fault, noise()).values())
    assert [one.statement for one in found] == ["a turned sign", ROUNDED]
    assert found[0].explained > 0.99
    assert np.isnan(found[1].explained)


def test_no_rule_stumbles_over_what_is_no_float(causes):
    assert isinstance(causes("gt.Scalar", lambda x: x > 0, np.logical_not, noise()), dict)
    assert isinstance(causes("argmax.default", lambda x: np.argmax(x, -1), lambda y: 31 - y, noise()), dict)
    assert causes("sum.default", lambda x: x.sum(), lambda y: y + 1, noise()) == {}  # one number has some factor
    assert isinstance(causes("sin.default", np.sin, lambda y: y * np.nan, noise()), dict)


def test_a_small_exponential_less_one_is_what_a_difference_leaves():
    """Multiples of 2^-24 are float16 numbers, too, which is no evidence that float16 had a part in it."""
    x = np.float32(4e-7) * noise()
    difference = np.float32(1) + x - np.float32(1)
    right, operator = np.expm1(x.astype(np.float64)), Operator(":it", "aten.elu.default", "", (), x.shape, "float32")
    error = LocalError(operator, 1.0, 1.0, 9.0, difference != right, difference, right, ())
    assert mechanisms(Evidence(error, {"input:x": x}))[0].statement == "elu computed as exp(x) - 1"
    near = np.nextafter(x, np.float32(1))  # off by a unit, and no difference
    other = LocalError(operator, 1.0, 1.0, 9.0, near != right, near, right, ())
    assert not any("exp(x) - 1" in one.statement for one in mechanisms(Evidence(other, {"input:x": x})))


@pytest.mark.parametrize(("largest", "told"), [(80_000, True), (60_000, False)])
def test_an_input_beyond_float16_is_named(largest, told):
    frames, right = np.array([[1, 2, 3, largest]]), np.array([[1.0, 2, 3, 4]])
    given = np.array([[1, 2, 3, np.inf]], np.float16)
    operator = Operator(":it", "aten.div.Tensor", "", ("input:x",), right.shape, "float32")
    error = LocalError(operator, 0.0, 4.0, np.inf, ~np.isfinite(given), given, right, ())
    found = likeliest(mechanisms(Evidence(error, {"input:x": frames})))
    assert (found.name == "overflow of the dtype") == told
    assert not told or found.evidence == ("the largest of input:x is 8e+04, above 65504",)


def _pattern(shape, changes):
    right = np.arange(np.prod(shape), dtype=float).reshape(shape)
    given = right.copy()
    for index, value in changes:
        given[index] = value(given[index])
    with np.errstate(invalid="ignore"):
        return pattern(~((given == right) | (np.isnan(given) & np.isnan(right))), given - right)


def _nan(part):
    return np.full_like(part, np.nan)


def _raised(part):
    return part + 2


def _noisy(part):
    return part + 1 + np.random.default_rng(0).random(part.shape)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([], "nowhere"),
        ([((0, 1), _raised)], "1 of 4 channels wholly, by the same amount along time: a per-channel scalar"),
        ([((0, slice(1, 3)), _raised)], "2 of 4 channels wholly, by the same amount along time: a per-channel scalar"),
        ([((0, 1), _nan)], "1 of 4 channels wholly"),
        ([((0, 1), _noisy)], "1 of 4 channels wholly"),
        ([((0, slice(0, 2)), _noisy), ((0, 3, 5), _raised)], "2 of 4 channels wholly, 1 of 4 channels partly"),
        ([((0, 3, 5), _raised)], "1 of 4 channels partly, at positions 5 to 5 of 20 along the last axis"),
        ([((0, slice(None), 0), _noisy)], "4 of 4 channels partly, at positions 0 to 0 of 20 along the last axis"),
        ([((0,), _noisy)], "everywhere"),
        ([((0,), _raised)], "everywhere, by the same amount along time"),
        ([((0, 2), lambda part: part + np.arange(20) + 1)], "1 of 4 channels wholly"),
        ([((0, 1), _nan), ((0, 2), _raised)], "2 of 4 channels wholly"),
    ],
)
def test_words(changes, words):
    assert _pattern((1, 4, 20), changes).words == words


def test_a_matrix_has_no_axis_of_time():
    assert _pattern((2, 4), [((slice(None), 1), _raised)]).words == (
        "1 of 4 channels wholly, at positions 1 to 1 of 4 along the last axis"
    )


def test_figures_by_arithmetic():
    found = _pattern((2, 4, 20), [((0, 1), _raised), ((1, 1), _raised), ((1, 3, slice(17, 19)), _raised)])
    assert (found.count, found.size, found.channels) == (42, 160, 4)
    assert (found.whole, found.partly, found.constant) == ((1,), (3,), False)
    assert (found.begin, found.end, found.length) == (0, 20, 20)


@pytest.mark.parametrize(("spread", "constant"), [(9e-4, True), (2e-3, False)])
def test_the_same_amount_is_the_same_to_a_thousandth(spread, constant):
    off = 1 + spread * np.linspace(0, 1, 20)
    assert _pattern((1, 4, 20), [((0, 1), lambda part: part + off)]).constant == constant


@pytest.mark.parametrize("shape", [(), (5,)])
def test_fewer_than_two_axes_have_no_channels(shape):
    index = (0,) * len(shape)
    found = _pattern(shape, [(index, _raised)])
    assert (found.channels, found.whole, found.partly) == (0, (), ())
    assert found.words.startswith("everywhere" if not shape else "1 of 5 elements, at positions 0 to 0 of 5")


def test_one_position_is_not_called_constant_along_time():
    assert _pattern((1, 4, 1), [((0, 1), _raised)]).words == "1 of 4 channels wholly"
    assert _pattern((1, 4, 2), [((0, 1), _raised)]).words.startswith("1 of 4 channels wholly, by the same amount")


@pytest.mark.parametrize("shape", [(0,), (1, 0, 4), (1, 3, 0)])
def test_empty_tensors_are_wrong_nowhere(shape):
    found = _pattern(shape, [])
    assert found.words == "nowhere"
    assert (found.count, found.size, found.begin, found.end, found.whole, found.partly) == (0, 0, 0, 0, (), ())


def test_squares_on_the_way_to_a_smaller_result():
    x, right = np.full((1, 2, 100), 30.0), np.array([[900.0, 900.0]])
    for kind, given, words in (("var", np.float16, "9e+04 or more"), ("linalg_vector_norm", np.float32, None)):
        given = np.full_like(right, np.inf, given)
        error = judged(Operator(":it", f"aten.{kind}.default", "", (), right.shape, "float32"), given, right, 0.0)
        found = [one for one in mechanisms(Evidence(error, {"x": x})) if one.statement.startswith("squares beyond")]
        assert [words in one.evidence[0] for one in found] == ([True] if words else [])


def test_what_is_largest_alone_is_no_factor(causes):
    mask = noise() > 0
    found = causes("mul.Tensor", lambda x: np.where(mask, -1e9, x), lambda y: np.where(mask, -1e-9, y), noise())
    assert not any(one.startswith("a factor") for one in found)


def test_nan_among_the_numbers_of_an_extreme():
    x = np.where(np.eye(4) > 0, np.nan, np.arange(16.0).reshape(4, 4))
    right, given = np.array([0, 1, 2, 3]), np.array([3, 3, 3, 2])
    error = judged(Operator(":it", "aten.argmin.default", "", (), (4,), "int64"), given, right, 0.0)
    for read, named in ((x, True), (np.nan_to_num(x, nan=20.0), False)):
        found = mechanisms(Evidence(error, {"x": read}, {"dim": 1, "keepdim": False}))
        assert any("passes over NaN" in one.statement for one in found) == named
