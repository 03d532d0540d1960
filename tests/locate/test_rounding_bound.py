"""Healthy float32 arithmetic in any order is no error; what is wrong by 1e-4 of a channel's peak is one."""

from functools import lru_cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.locate.local_error import Judge
from kokoro_nb.locate.rounding_bound import RoundingBound
from kokoro_nb.traces.trace import Recorder
from tests.backends.small import Of

SINGLE = np.float32


@lru_cache(maxsize=8)
def exported(function, *inputs):
    """Return a function exported for tensors of these names, shapes and dtypes."""
    return export_program(Of(function), {name: torch.zeros(shape, dtype=dtype) for name, shape, dtype in inputs})


def judged(function, given, x, w=None):
    """Return the local error of the last operator of a function that gave `given`."""
    arrays = {"x": x} if w is None else {"x": x, "w": w}
    forms = ((name, one.shape, torch.from_numpy(one).dtype) for name, one in arrays.items())
    program = exported(function, *forms)
    recorder = Recorder(program.specification.operators[-1:], "full")
    recorder.add(program.specification.operators[-1].name, given)
    trace = recorder.trace("simulated", arrays, {}, "by hand")
    return Judge(program.specification, trace).error(trace.taps[0].name)


def test_a_size_that_is_computed_along_is_not_moved():
    x = noise(2, 8)
    open_axis = {"x": {1: torch.export.Dim("frames", min=2, max=64)}}
    program = export_program(Of(lambda x: (x * 3).sum(1) / x.shape[1]), {"x": torch.zeros(2, 8)}, open_axis)
    right, bound = program.specification, RoundingBound("float32")
    right.recompute(":div", {"x": x}, {}, substitute=bound)
    np.testing.assert_allclose(bound.last, 3 * x.mean(1), rtol=1e-5)


def one_by_one(terms):
    return np.cumsum(terms, -1, dtype=SINGLE)[..., -1]


def backwards(terms):
    return one_by_one(terms[..., ::-1])


def in_pairs(terms):
    while terms.shape[-1] > 1:
        odd = terms[..., -1:] if terms.shape[-1] % 2 else terms[..., :0]
        even = terms[..., : terms.shape[-1] // 2 * 2]
        terms = np.concatenate([even[..., ::2] + even[..., 1::2], odd], axis=-1)
    return terms[..., 0]


def in_blocks(terms, size=16):
    padded = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, -terms.shape[-1] % size)])
    return one_by_one(one_by_one(padded.reshape(*terms.shape[:-1], -1, size)))


def in_lanes(terms, lanes=8):
    padded = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, -terms.shape[-1] % lanes)])
    return in_pairs(one_by_one(padded.reshape(*terms.shape[:-1], -1, lanes).swapaxes(-1, -2)))


ORDERS = [one_by_one, backwards, in_pairs, in_blocks, in_lanes]


def spoilt(given, share=1e-4):
    """Return a copy with one element off by a share of its channel's peak, and one with a whole channel scaled."""
    place = np.unravel_index(int(given.size * 0.6), given.shape)
    channel = (slice(None), place[1]) if given.ndim > 1 else (slice(None),)
    element, scaled = given.copy(), given.copy()
    element[place] += SINGLE(share * np.abs(given[channel]).max())
    scaled[channel] *= SINGLE(1 + share)
    return element, scaled


def told_apart(function, healthy, wrong, *arrays):
    """Return whether what is healthy is explained, and what is wrong is not."""
    return not judged(function, healthy, *arrays).unexplained and judged(function, wrong, *arrays).unexplained


def require_sharp(function, given, *arrays, scaled=True, share=1e-4):
    assert judged(function, given, *arrays).ratio <= 1
    for wrong in spoilt(given, share)[: 2 if scaled else 1]:
        error = judged(function, wrong, *arrays)
        assert error.ratio > 1
        assert error.wrong.any()


def normalised(x, add=one_by_one, one_pass=False, shift=False):
    count = SINGLE(x.shape[-1])
    mean = (add(x) / count)[..., None]
    around = (add(x * x) / count)[..., None] - mean**2 if one_pass else (add((x - mean) ** 2) / count)[..., None]
    inverse = 1 / np.sqrt(np.maximum(around, 0) + SINGLE(1e-5))
    return x * inverse - mean * inverse if shift else (x - mean) * inverse


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(SINGLE)


@pytest.mark.parametrize("add", ORDERS)
@pytest.mark.parametrize("width", [64, 4096])
@pytest.mark.parametrize("mean", [0, 10])
def test_products_of_any_width_in_any_order(add, width, mean):
    x, w = noise(1, 8, width) + SINGLE(mean), noise(16, width, seed=1) / SINGLE(width**0.5)
    require_sharp(F.linear, add(x[:, :, None] * w), x, w)


@pytest.mark.parametrize("add", ORDERS)
@pytest.mark.parametrize(("width", "kernel"), [(64, 11), (1024, 11), (4096, 3)])
def test_convolutions_of_any_width_in_any_order(add, width, kernel):
    x, w = noise(1, width, 20), noise(4, width, kernel, seed=1) / SINGLE((width * kernel) ** 0.5)
    windows = np.lib.stride_tricks.sliding_window_view(x[0], kernel, axis=-1).transpose(1, 0, 2)
    given = add((windows[None] * w[:, None]).reshape(4, -1, width * kernel))[None]
    require_sharp(F.conv1d, given, x, w)


SIGNALS = {
    "a steady phase step": lambda n: np.full(n, 200 / 24000),
    "random": lambda n: noise(n, seed=n),
    "random and positive": lambda n: np.abs(noise(n, seed=n)),
    "a wave": lambda n: np.sin(np.arange(n) / 10),
}


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS)
@pytest.mark.parametrize("seconds", [0.1, 2, pytest.param(60, marks=pytest.mark.slow)])
def test_a_running_sum_of_any_length(signal, seconds):
    x = signal(int(24000 * seconds)).astype(SINGLE)[None, None]
    given = np.cumsum(x, -1, dtype=SINGLE)
    # a factor of 1.0001 is within what rounding does to a long sum: the docstring of the families says from where on
    require_sharp(lambda x: x.cumsum(-1), given, x, scaled=False)
    size = 480
    blocks = np.cumsum(x.reshape(-1, size), -1, dtype=SINGLE)
    before = np.concatenate([np.zeros(1, SINGLE), np.cumsum(blocks[:-1, -1], dtype=SINGLE)])
    blocked = (blocks + before[:, None]).reshape(1, 1, -1)
    skipped = given.copy()
    skipped[..., x.size // 2 :] -= SINGLE(1e-4 * np.abs(given).max())  # one step is wrong, and all after it with it
    assert told_apart(lambda x: x.cumsum(-1), blocked, skipped, x)


def test_a_factor_in_a_short_running_sum_is_named():
    x = np.abs(noise(1, 1, 24000))
    require_sharp(lambda x: x.cumsum(-1), np.cumsum(x, -1, dtype=SINGLE), x)


@pytest.mark.parametrize("add", ORDERS)
@pytest.mark.parametrize("seconds", [0.1, 2, 20])
def test_a_mean_of_any_length_in_any_order(add, seconds):
    x = np.abs(noise(1, 2, int(24000 * seconds)))
    given = (add(x) / SINGLE(x.shape[-1]))[..., None]
    require_sharp(lambda x: x.mean(-1, keepdim=True), given, x)


def test_a_sum_of_equal_terms_one_by_one_is_no_error():
    x = np.full((1, 1, 1440000), 0.1, SINGLE)
    given = one_by_one(x)[..., None]
    assert abs(given.item() / 144000 - 1) > 1e-3
    assert told_apart(lambda x: x.sum(-1, keepdim=True), given, given * SINGLE(1.2), x)


def test_equal_products_one_by_one_are_no_error():
    x, w = np.full((1, 200_000), 0.1, SINGLE), np.full((1, 200_000), 0.3, SINGLE)
    given = one_by_one(x * w)[:, None]
    assert abs(given.item() / 6000 - 1) > 2e-4, "more than roundings by lot make"
    assert told_apart(F.linear, given, given * SINGLE(1.02), x, w)


@pytest.mark.parametrize("add", ORDERS)
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize(("length", "mean"), [(64, 0), (3840, 0), (3840, 10), (48000, 10)])
def test_a_norm_in_two_passes_is_right(add, shift, length, mean):
    x = noise(1, 4, length) + SINGLE(mean)
    require_sharp(F.instance_norm, normalised(x, add, shift=shift), x)


@pytest.mark.parametrize("add", ORDERS)
@pytest.mark.parametrize(("length", "mean", "deviation"), [(64, 100, 1), (3840, 100, 1), (3840, 10, 0.01)])
def test_a_norm_of_offset_data_is_right_in_two_passes_and_wrong_in_one(add, length, mean, deviation):
    x = noise(1, 4, length) * SINGLE(deviation) + SINGLE(mean)
    assert told_apart(F.instance_norm, normalised(x, add), normalised(x, add, one_pass=True), x)


@pytest.mark.parametrize("add", ORDERS)
@pytest.mark.parametrize("width", [64, 4096])
def test_softmax_of_any_width(add, width):
    x = noise(1, 8, width) * SINGLE(5)
    powers = np.exp(x - x.max(-1, keepdims=True))
    require_sharp(lambda x: x.softmax(-1), powers / add(powers)[..., None], x)
    logarithm = x - x.max(-1, keepdims=True) - np.log(add(powers))[..., None]
    require_sharp(lambda x: x.log_softmax(-1), logarithm, x)


@pytest.mark.parametrize("function", [torch.sin, torch.exp, torch.tanh, torch.sigmoid, F.gelu, lambda x: x**3])
def test_functions_of_each_element_are_right_to_a_few_units(function):
    x = noise(1, 4, 1000)
    require_sharp(function, function(torch.tensor(x)).numpy(), x)


def square(x):
    return x.reshape(2, 6, 4, 8)


ON_SMALL = {
    "matmul": lambda x, w: x @ x.transpose(1, 2),
    "addmm": lambda x, w: torch.addmm(x[0, :, :6], x[0], x[1].T, beta=0, alpha=-3),
    "baddbmm": lambda x, w: torch.baddbmm(x[:, :, :6], x, x.transpose(1, 2), beta=2, alpha=0.5),
    "conv1d": lambda x, w: F.conv1d(x, w[:, :, 0], stride=2, padding=1, groups=2),
    "conv_transpose1d": lambda x, w: F.conv_transpose1d(x, w[:, :, 0], stride=2, groups=2),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(square(x), w, stride=(1, 3)),
    "sum": lambda x, w: x.sum((0, -1)),
    "mean": lambda x, w: x.mean(1, keepdim=True),
    "std": lambda x, w: x.std(-1),
    "logsumexp": lambda x, w: x.logsumexp((0, -1), keepdim=True),
    "rfft": lambda x, w: torch.fft.rfft(x),
    "fft over two axes": lambda x, w: torch.fft.fft2(torch.complex(x, x)),
    "stft": lambda x, w: torch.stft(x[0], 8, 2, window=torch.hann_window(8), return_complex=True),
    "weight_norm": lambda x, w: torch._weight_norm(x[0], x[1, :, :1]),
    "vector_norm": lambda x, w: torch.linalg.vector_norm(x, dim=(0, 1)),
    "linear interpolation": lambda x, w: F.interpolate(x, 64, mode="linear"),
    "bilinear interpolation": lambda x, w: F.interpolate(square(x), (8, 16), mode="bilinear"),
    "avg_pool1d": lambda x, w: F.avg_pool1d(x, 4, 1),
    "avg_pool2d": lambda x, w: F.avg_pool2d(square(x), (2, 3), 3),
    "adaptive_avg_pool1d": lambda x, w: F.adaptive_avg_pool1d(x, 4),
    "adaptive_avg_pool2d": lambda x, w: F.adaptive_avg_pool2d(square(x), (2, 4)),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, x[0, :, 0], x[0, :, 1], training=True),
    "frozen batch_norm": lambda x, w: F.batch_norm(x, x[0, :, 0], x[1, :, 0] ** 2 + 1),
    "group_norm": lambda x, w: F.group_norm(x, 2, x[0, :, 0], x[0, :, 1]),
    "group_norm without factors": lambda x, w: F.group_norm(square(x), 3),
    "layer_norm": lambda x, w: F.layer_norm(x, (6, 32), x[0], x[1]),
    "elu": lambda x, w: F.elu(x, 2.0),
}


@pytest.mark.parametrize("kind", ON_SMALL)
def test_what_torch_makes_of_a_small_tensor_is_right_and_a_fifty_thousandth_of_its_peak_more_is_wrong(kind):
    x, w = noise(2, 6, 32), noise(6, 3, 2, 5, seed=1)
    given = ON_SMALL[kind](torch.tensor(x), torch.tensor(w)).numpy()
    require_sharp(ON_SMALL[kind], given, x, w, share=2e-5)


def test_a_sine_is_as_good_as_its_argument_and_no_worse():
    x = noise(1, 1, 1000) * SINGLE(2000)
    moved = np.sin(x.astype(np.float64) * (1 + 2.0**-24)).astype(SINGLE)  # as if the argument had been rounded
    assert told_apart(torch.sin, moved, moved + SINGLE(1e-2), x)


def test_what_is_only_moved_is_exact_but_for_a_few_units():
    x = noise(1, 3, 4, 64)
    assert judged(lambda x: x.unbind(1)[1], x[:, 1], x).ratio == 0
    assert judged(lambda x: x.unbind(1)[1], x[:, 1] * SINGLE(1 + 1e-6), x).ratio > 1


def test_recurrence_and_attention():
    torch.manual_seed(0)
    recurrent = nn.LSTM(64, 128, batch_first=True, bidirectional=True)
    x = noise(1, 50, 64)
    single = recurrent(torch.tensor(x))[0].detach().numpy()
    require_sharp(lambda x: recurrent(x)[0], single, x)
    q = noise(1, 4, 60, 64)
    attended = F.scaled_dot_product_attention(*[torch.tensor(q)] * 3).numpy()
    require_sharp(lambda q: F.scaled_dot_product_attention(q, q, q), attended, q)


def test_the_sign_of_a_zero_that_a_transform_was_not_seen_to_give_is_nothing_that_rounding_decides():
    def angle(x):
        return torch.stft(x, 8, 4, window=torch.hann_window(8), center=False, return_complex=True).angle()

    x = -np.abs(np.random.default_rng(0).standard_normal((1, 64))).astype(SINGLE) - 1
    right = np.array(angle(torch.from_numpy(x)).numpy())
    given = np.where(np.abs(np.abs(right) - np.pi) < 1e-5, -right, right)
    assert np.abs(given - right).max() > 6
    assert told_apart(angle, given, given + 1e-3, x)


def test_a_root_mean_square_of_equal_numbers_added_one_by_one_is_no_error():
    x, length = np.full((2, 2**17), 0.1, SINGLE), 2**17
    weight = np.linspace(0.5, 2, length).astype(SINGLE)

    def normed(x, w):
        return F.rms_norm(x, (2**17,), w, 1e-5)

    mean = (one_by_one(x * x) / SINGLE(length))[:, None]
    given = x / np.sqrt(mean + SINGLE(1e-5)) * weight
    right = np.array(normed(*map(torch.from_numpy, (x, weight))).double().numpy())
    assert np.abs(given / right - 1).max() > 1e-5
    assert told_apart(normed, given, SINGLE(1.01) * given, x, weight)
