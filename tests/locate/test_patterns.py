import numpy as np
import pytest

from kokoro_nb.locate.rule_evidence import pattern


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
