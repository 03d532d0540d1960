"""How far rounding may move the result of one operator, family by family, whatever the order of its sums.

A sum of n terms makes n rounding errors of at most u times the partial sum that was reached, u half the spacing of the
dtype. They rarely have one sign, so that they grow with the square root of n (N. J. Higham and T. Mary, A new approach
to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019); and the partial sums themselves are no larger
than the sum plus the root of the sum of the squared terms, times a small number. So the error stays within

    u sqrt(n) (3 |sum| + 5 sqrt(sum of squared terms)),

nine standard deviations, against sqrt(n) u times the sum of the absolute terms in the paper, which at 4096 channels
would let an error of 1e-3 of the peak pass. Both parts come from the operator itself, run on its arguments and on their
squares in float64; how many terms there are, of a sum of products, from the operator run on ones.

Where the terms are alike the errors do have one sign: the sum of 1.44 million equal numbers, one after another in
float32, is off by 1.5 %. So plain sums, means, variances and running sums are also added one by one in float32, and in
the lanes of a vector, each of which rounds by another amount, and twice the error that this has is allowed where it is
more. Products that are all equal are allowed the certain bound of such a sum, n u / 2 of it.

That bound is below 1e-4 of the peak for a mean of random positive numbers up to 20 s of 24 kHz, and for a running sum
of them for a second, but not for one of equal positive steps from about half a second on: its rounding is larger than
that, rightly, and a factor of 1.0001 cannot be told from it. One wrong element, or one wrong step, can: from one
element to the next the error moves by no more than the rounding of one step, so that this is judged as well.

What cannot be known better than the rounding of the arguments allows is not: `sin` of 20 000 radians is good to 2e-3, a
norm of a channel whose mean is 100 times its deviation to 1e-4, and a value interpolated at position 1 000 000 to a
tenth of the difference of its neighbours.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, product, repeat
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.fx.node import map_aggregate

from kokoro_nb.locate.forms import axes_of, with_last

ALONG = 3  # how often a sum of products itself is counted, in units of u sqrt(n): nine standard deviations
ALONG_ROWS = 1.2  # and a sum that is added one by one as well, whichever is more
ACROSS = 5  # and how often the root of the sum of the squared terms
FEW = 8  # elements of a channel below which it is not judged for itself: too few to meet the worst rounding
IN_ORDER = 2  # how many times the error of adding one by one is allowed
LANES = (2, 4, 8, 16)  # in which vector instructions add, of 64 to 512 bits
ALIKE = 0.99  # of what the square of a sum is where all terms are equal
TINY = 1e-300  # keeps 0 / 0 out of relative errors of results that are 0 and exact


@dataclass(frozen=True, eq=False)
class Call:
    """One operator as it was called, its arguments by name and in float64, and what is right.

    Attributes
    ----------
    compute : callable
        The operator: returns its result for its arguments by name.
    named : mapping
        Its arguments by name, defaults included.
    right : torch.Tensor
        Its result.
    unit : float
        Largest relative error of one rounding in the dtype of the backend's result: half of its spacing.
    roles : mapping
        What a family needs to know beside, or by other names than the operator has, those of PyTorch: ``first`` is the
        tensor that it reduces or transforms.
    """

    compute: Callable[..., Any]
    named: Mapping[str, Any]
    right: Any
    unit: float
    roles: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.roles[name] if name in self.roles else self.named.get(name)

    @property
    def first(self) -> torch.Tensor:
        """The tensor that is reduced or transformed: the first argument, if no role says otherwise."""
        return self.roles["first"] if "first" in self.roles else next(iter(self.named.values()))

    def again(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        """Run the operator with every float tensor among its arguments changed."""

        def changed(value: Any) -> Any:
            return change(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        return self.compute(**map_aggregate(dict(self.named), changed))

    def of_sum(self, total: torch.Tensor, squares: torch.Tensor, count: float, along: float = ALONG) -> torch.Tensor:
        """Return the error of a sum of `count` terms, given it and the sum of its squared terms."""
        return self.unit * math.sqrt(count) * (along * total.abs() + ACROSS * squares.clamp(min=0).sqrt())

    def of_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the error of the sum over the last axis, given the terms, which are also added one by one."""
        total = rows.sum(-1)
        found = self.of_sum(total, rows.square().sum(-1), rows.shape[-1], ALONG_ROWS)
        if not rows.shape[-1]:
            return found
        both = [self.in_order(one, -1)[..., -1] for one in (rows, rows.flip(-1))]
        orders = torch.stack([*both, *(self.in_lanes(rows, lanes) for lanes in LANES)])
        return torch.maximum(found, IN_ORDER * (orders - total).abs().amax(0))

    def in_order(self, terms: torch.Tensor, axis: int) -> torch.Tensor:
        """Return the running sums that come of adding one by one, in float32 at least."""
        return torch.from_numpy(np.cumsum(terms.numpy(), axis=axis, dtype=self._single).astype(np.float64))

    def in_lanes(self, rows: torch.Tensor, lanes: int) -> torch.Tensor:
        """Return the sums over the last axis that come of adding every `lanes`-th term, in float32 at least."""
        whole = rows.shape[-1] // lanes * lanes
        each: np.ndarray = rows[..., :whole].reshape(*rows.shape[:-1], -1, lanes).numpy().astype(self._single)
        sums = np.add.reduce(each, axis=-2).astype(np.float64).sum(-1)  # along a slow axis NumPy adds one by one
        return torch.from_numpy(np.asarray(sums)) + rows[..., whole:].sum(-1)

    @property
    def _single(self) -> type:
        return np.float64 if self.unit < 1e-12 else np.float32


def by_channel(values: np.ndarray) -> np.ndarray:
    """Return the largest value of each channel (axis 1), in a shape that broadcasts.

    Channels of fewer than `FEW` elements are taken together.
    """
    small = values.ndim < 2 or values.size < FEW * values.shape[1]
    return values.max(axis=tuple(axis for axis in range(values.ndim) if axis != 1 or small), keepdims=True, initial=0.0)


Family = Callable[[Call], Any]
FAMILIES: dict[str, Family] = {}


def family(*names: str, **roles: Any) -> Callable[[Family], Family]:
    """Register what bounds the rounding of the operators of these names: a tensor, or one for each of its results.

    The roles tell the operators of a family apart.
    """

    def registered(function: Family) -> Family:
        def bound(call: Call) -> Any:
            return function(replace(call, roles={**roles, **call.roles}))

        FAMILIES.update(dict.fromkeys(names, bound))
        return function

    return registered


@family("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "linear")
@family("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm")
def products(call: Call) -> torch.Tensor:
    """Bound a sum of products: on squares the operator gives the sum of the squared ones, on ones their number."""
    numbers = {name: call[name] for name in ("alpha", "beta") if isinstance(call[name], int | float)}
    squared, one = {name: value**2 for name, value in numbers.items()}, dict.fromkeys(numbers, 1)
    squares = replace(call, named={**call.named, **squared}).again(torch.square)
    counts = replace(call, named={**call.named, **one}).again(lambda x: torch.ones_like(x, dtype=torch.float32))
    found = call.of_sum(call.right, squares, float(np.max(counts.numpy(), initial=0)) + 2)
    # the certain bound of equal products, which are added with errors of one sign: half of the sum goes in on average
    alike = call.right.square() > ALIKE * counts * squares
    return torch.where(alike, torch.maximum(found, call.unit * counts / 2 * call.right.abs()), found)


@family("sum")
@family("mean", averaged=True)
def sums(call: Call) -> torch.Tensor:
    """Bound a sum or mean over axes; added one by one as well."""
    rows = _rows(call.first, call["dim"])
    return (call.of_rows(rows) / (max(rows.shape[-1], 1) if call["averaged"] else 1)).reshape(call.right.shape)


@family("avg_pool1d", "adaptive_avg_pool1d")
@family("avg_pool2d", "adaptive_avg_pool2d", axes=2)
def pools(call: Call) -> torch.Tensor:
    """Bound a mean over a window."""
    count = call.first.numel() / max(call.right.numel(), 1)
    if call["kernel_size"]:
        count = float(np.prod(np.broadcast_to(call["kernel_size"], call["axes"] or 1)))
    found = call.of_sum(call.right, call.again(torch.square) / count, count)
    # of long windows the certain bound of a sum: equal terms are added with errors of one sign
    return found if count <= FEW**2 else torch.maximum(found, call.unit * count * call.again(torch.abs))


@family("var")
@family("std", rooted=True)
def variances(call: Call) -> torch.Tensor:
    """Bound a variance in two passes, or its root."""
    _, relative = _moments(call, _rows(call.first, call["dim"]))
    relative = relative.reshape(call.right.shape)
    return call.right.abs() * (relative / 2 if call["rooted"] else relative)


@family("instance_norm", "group_norm", "layer_norm", "native_layer_norm")
@family("_native_batch_norm_legit", "batch_norm", over_batch=True)
def norms(call: Call) -> Any:
    """Bound a normalisation whose variance is taken in two passes: one in one pass is worse, and shows."""
    x, y = call.first, call.right[0] if isinstance(call.right, tuple) else call.right
    if call["over_batch"] and not call["training"] and call["running_mean"] is not None:
        return None if isinstance(call.right, tuple) else pointwise(call)
    weight, bias = call["weight"], call["bias"]
    if shape := call["normalized_shape"]:
        first = x.ndim - len(shape)
        rows, place = x.flatten(first), [*[1] * first, *shape]
        back = [*x.shape[:first], *[1] * len(shape)]
    else:
        place = back = [1, x.shape[1], *[1] * (x.ndim - 2)]
        rows = x.transpose(0, 1).flatten(1)
        if not call["over_batch"]:
            rows, back = x.reshape(x.shape[0], call["num_groups"] or x.shape[1], -1), [x.shape[0], *place[1:]]
    mean, relative = _moments(call, rows)
    spread = rows.var(-1, correction=0)
    inverse = (spread + call["eps"]).rsqrt()
    shares = (mean * inverse, relative * spread / (spread + call["eps"]) / 2, inverse)

    def shaped(one: torch.Tensor) -> torch.Tensor:
        return one.repeat_interleave(math.prod(back) // one.numel(), -1).reshape(back) if one.numel() else one

    off, slope, inverse = (shaped(one) for one in shares)
    gain = 1.0 if weight is None else weight.reshape(place).abs()
    shift = 0.0 if bias is None else bias.reshape(place)
    found = gain * (off + 4 * call.unit * x.abs() * inverse) + (y - shift).abs() * (slope + 4 * call.unit)
    found = found + 4 * call.unit * y.abs()
    return (found, *[None] * (len(call.right) - 1)) if isinstance(call.right, tuple) else found


@family("rms_norm")
def root_mean_squares(call: Call) -> torch.Tensor | None:
    """Bound a division by the root of a mean of squares that are alike, whose errors in order have one sign.

    None of others, or of 16 bits, where runtimes add in more: what rounding does to them is measured.
    """
    first = call.first.ndim - len(call["normalized_shape"])
    rows = call.first.flatten(first).square()
    if call.unit > torch.finfo(torch.float32).eps or bool((rows.amin(-1) < ALIKE * rows.amax(-1)).any()):
        return None
    whole = rows.sum(-1) + rows.shape[-1] * (call["eps"] or 0.0)
    relative = call.of_rows(rows) / (2 * whole).clamp(min=TINY) + 8 * call.unit
    return call.right.abs() * relative.reshape(*relative.shape, *[1] * (call.right.ndim - first))


def _moments(call: Call, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the error of the mean of each row, absolute, and that of its variance around that mean, relative."""
    count = max(rows.shape[-1], 1)
    mean = call.of_rows(rows) / count
    squares = (rows - rows.mean(-1).unsqueeze(-1)).square()
    total = squares.sum(-1)
    return mean, (call.of_rows(squares) + count * mean.square()) / total.clamp(min=TINY) + 4 * call.unit


@family("cumsum")
def running_sums(call: Call) -> torch.Tensor:
    """Bound a running sum taken one by one, in blocks, or as a tree."""
    dim = call["dim"]
    random = 5 * call.unit * call.right.square().cumsum(dim).sqrt()
    off = (call.in_order(call.first, dim) - call.right).abs()
    return IN_ORDER * off.cummax(dim).values + random + running_steps(call)


def running_steps(call: Call) -> torch.Tensor:
    """Bound how far the error of a running sum moves from one element to the next.

    The sum of any block is the difference of two running sums, so that no partial sum is larger than twice the largest.
    """
    depth = math.log2(max(torch.atleast_1d(call.first).shape[call["dim"]], 2))
    return call.unit * (4 + 4 * depth) * call.right.abs().cummax(call["dim"]).values


@family("softmax", "_softmax")
@family("log_softmax", "_log_softmax", logarithm=True)
@family("logsumexp", summed=True)
def exponential_sums(call: Call) -> torch.Tensor:
    """Bound a softmax, its logarithm, or the logarithm of a sum of exponentials."""
    x, dim = call.first, call["dim"]
    top = x.amax(dim, keepdim=True)
    around = ALONG * math.sqrt(_rows(x, dim).shape[-1]) + 8
    if call["summed"]:
        return call.unit * (4 * call.right.abs() + 4 * top.abs().reshape(call.right.shape) + around)
    relative = call.unit * (2 * (top - x) + around)
    return relative + 4 * call.unit * call.right.abs() if call["logarithm"] else relative * call.right


@family("stft", "_fft_r2c", "_fft_c2c", "fft_rfft", "fft_fft")
def transforms(call: Call) -> torch.Tensor:
    """Bound a Fourier transform, fast or as a product with a matrix; its energy is that of its input."""
    size = call.right.abs()
    dim = -2 if call["n_fft"] else call["dim"]
    energy = size.square().mean(dim, keepdim=True)
    count = call["n_fft"] or _rows(call.first, dim).shape[-1]
    # partial sums of a slow wave reach further than those of noise
    return 2 * call.of_sum(size, energy.expand(size.shape), count)


@family("_weight_norm")
@family("linalg_vector_norm", summed=True)
def lengths(call: Call) -> torch.Tensor:
    """Bound a length, or what is divided by one."""
    if call["summed"] and call["ord"] in (None, 2):
        squares = call.of_rows(_rows(call.first.square(), call["dim"])).reshape(call.right.shape)
        return squares / (2 * call.right).clamp(min=TINY) + 8 * call.unit * call.right
    count = call.first.numel() / max((call["g"] if call["g"] is not None else call.right).numel(), 1)
    return call.unit * call.right.abs() * (ALONG * math.sqrt(count) + 8)


@family("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d")
def interpolations(call: Call) -> torch.Tensor:
    """Bound an interpolation: positions are rounded, too, and move the result along the slope there."""
    x, found = call.first, 4 * call.unit * call.right.abs()
    for axis in range(2, x.ndim):
        if x.shape[axis] < 2:
            continue
        steps = x.diff(dim=axis).abs()
        if x.ndim == 3:
            steep = F.max_pool1d(F.pad(steps, (2, 3)), 5, 1)  # of an element, and two to either side
            place = torch.arange(1, x.shape[axis] + 1, dtype=x.dtype)
            found = found + 4 * call.unit * F.interpolate(steep * place, call.right.shape[-1:])
        else:
            found = found + 4 * call.unit * x.shape[axis] * steps.amax()
    return found


@family("sin", "cos", "tan", "exp", "exp2", "log", "log2", "log10", "erf", "pow", "atan", "sinh", "cosh", "rsqrt")
@family("sqrt", "reciprocal", "log_sigmoid", "hardsigmoid", "add", "sub", "mul", "div", "neg", "abs", "relu")
@family("leaky_relu", "prelu", "clamp", "maximum", "minimum", "square")
@family("expm1", "log1p", "tanh", "softplus", reach=())
@family("elu", "selu", reach=("alpha", "scale"), absolute=True)
@family("sigmoid", reach=(), absolute=True)
@family("gelu", "silu", "mish", "hardswish", reach=("first",), absolute=True)
def pointwise(call: Call) -> torch.Tensor | None:
    """Bound a function of each element: a few units of the result, and those that two units of its arguments make."""
    if call.right.is_complex():
        return None
    moved = torch.zeros_like(call.right)
    floats = [one for one in call.named.values() if isinstance(one, torch.Tensor) and one.is_floating_point()]
    for signs in product((1, -1), repeat=min(len(floats), 2)):
        turn = chain(signs, repeat(1))
        found = call.again(lambda one, turn=turn: one * (1 + 2 * call.unit * next(turn)))  # type: ignore[misc]
        off = (found - call.right).abs()
        moved = torch.maximum(moved, torch.where(off.isfinite(), off, 0.0))  # what is not finite allows nothing
    return moved + 8 * call.unit * (call.right.abs() + _reach(call))


def _reach(call: Call) -> Any:
    """Return the size of the numbers that a function is subtracted from near 0, where runtimes write it so.

    ``exp(x) - 1`` and ``log(1 + x)`` are right to the rounding of 1; of results that are all small, to theirs, which is
    what ``expm1`` and ``log1p`` are called for. The role ``reach`` holds the names of what scales the difference. Other
    functions are as good as it wherever they are small, `absolute`: ELU near 0, the logistic function, a sum with 0.5,
    and the functions that are the input times one of it.
    """
    known = call.right[torch.isfinite(call.right)]
    if call["reach"] is None or not known.numel():
        return 0.0
    factors = [call.first if one == "first" else call[one] for one in call["reach"]]
    scale = abs(math.prod(one for one in factors if one is not None))
    return scale if call["absolute"] else float(np.minimum(scale, float(known.abs().max())))


def _rows(x: torch.Tensor, dim: Any) -> torch.Tensor:
    """Return the tensor with the axes that are reduced as one, the last."""
    return with_last(x, axes_of(x, dim))
