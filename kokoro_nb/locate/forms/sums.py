"""Sums, norms and products in other forms: in blocks, in two passes, in a wider dtype."""

from math import isqrt, prod
from typing import Any

from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms.form import OtherForm, Writer, axes_of, is_float, is_tensor, meta

LARGEST = 2**24  # products that are written out for a sum


def _normed(site: FaultSite, x: Any, axes: list[int], eps: float) -> Any:
    add = Writer(site)
    centred = add("sub.Tensor", x, add("mean.dim", x, axes, True))
    variance = add("mean.dim", add("mul.Tensor", centred, centred), axes, True)
    return add("mul.Tensor", centred, add("rsqrt", add("add.Tensor", variance, eps)))


def _affine(site: FaultSite, x: Any, shape: list[int]) -> Any:
    add, given = Writer(site), site.arguments
    for argument, operator in (("weight", "mul.Tensor"), ("bias", "add.Tensor")):
        if given.get(argument) is not None:
            x = add(operator, x, add("view", given[argument], shape))
    return x


def _instance_norm(site: FaultSite) -> Any:
    given = site.arguments
    if not given["use_input_stats"]:
        return None
    axes = list(range(2, site.value.ndim))
    return _affine(site, _normed(site, given["input"], axes, given["eps"]), [1, -1, *[1] * len(axes)])


def _group_norm(site: FaultSite) -> Any:
    given, shape = site.arguments, list(site.value.shape)
    grouped = Writer(site)(
        "reshape", given["input"], [shape[0], given["num_groups"], prod(shape[1:]) // given["num_groups"]]
    )
    normed = Writer(site)("reshape", _normed(site, grouped, [2], given["eps"]), shape)
    return _affine(site, normed, [1, -1, *[1] * (len(shape) - 2)])


def _layer_norm(site: FaultSite) -> Any:
    given = site.arguments
    size = list(given["normalized_shape"])
    axes = list(range(site.value.ndim - len(size), site.value.ndim))
    return _affine(site, _normed(site, given["input"], axes, given["eps"]), size)


def _variance(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    x = given["self"]
    axes = axes_of(x, given["dim"])
    count = prod(meta(x).shape[axis] for axis in axes)
    centred = add("sub.Tensor", x, add("mean.dim", x, axes, True))
    correction = 1 if given["correction"] is None else given["correction"]
    total = add("sum.dim_IntList", add("mul.Tensor", centred, centred), axes, given["keepdim"])
    return add("div.Tensor", total, float(count - correction))


def _rms_norm(site: FaultSite) -> Any:
    import torch

    given, add = site.arguments, Writer(site)
    x, size = given["input"], list(given["normalized_shape"])
    axes = list(range(site.value.ndim - len(size), site.value.ndim))
    mean = add("div.Tensor", _blocks(add, add("mul.Tensor", x, x), axes), float(prod(size)))
    mean = add("view", mean, [*site.value.shape[: axes[0]], *[1] * len(axes)])
    eps = torch.finfo(site.value.dtype).eps if given["eps"] is None else given["eps"]
    return _affine(site, add("mul.Tensor", x, add("rsqrt", add("add.Tensor", mean, eps))), size)


def _sum(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    x = given["self"]
    if not is_float(x) or not meta(x).ndim:
        return None
    axes = axes_of(x, given.get("dim"))
    x = add.cast(x, site.value.dtype)
    total = add("reshape", _blocks(add, x, axes), list(site.value.shape))
    return add("div.Tensor", total, float(prod(meta(x).shape[axis] for axis in axes))) if "mean" in site.op else total


def _blocks(add: Writer, x: Any, axes: list[int]) -> Any:
    """Add the sum over axes: those of blocks, and then that of these."""
    rows = add.last(x, axes)
    length = meta(rows).shape[-1]
    size = max(1, isqrt(length))
    count = -(-length // size)
    if length < count * size:
        rows = add("constant_pad_nd", rows, [0, count * size - length])
    inside = add("sum.dim_IntList", add("reshape", rows, [*meta(rows).shape[:-1], count, size]), [-1])
    return add("sum.dim_IntList", inside, [-1])


def _running_sum(site: FaultSite) -> Any:
    if not site.value.ndim:
        return None
    given = site.arguments
    return running_blocks(site, given["self"], given["dim"])


def running_blocks(site: FaultSite, x: Any, dim: int) -> Any:
    """Add running sums within blocks, and the sum of all blocks before each."""
    add, shape = Writer(site), list(x.meta["val"].shape)
    axis = dim % len(shape)
    length = shape[axis]
    size = max(1, isqrt(length))
    count = -(-length // size)
    if length < count * size:
        last = [*[0, 0] * (len(shape) - 1 - axis), 0, count * size - length]
        x = add("constant_pad_nd", x, last)
    blocks = add("reshape", x, [*shape[:axis], count, size, *shape[axis + 1 :]])
    inside = add("cumsum", blocks, axis + 1)
    totals = add("slice.Tensor", inside, axis + 1, size - 1, size)
    before = add("sub.Tensor", add("cumsum", totals, axis), totals)
    whole = add("reshape", add("add.Tensor", inside, before), [*shape[:axis], count * size, *shape[axis + 1 :]])
    return add("slice.Tensor", whole, axis, 0, length)


def _product(site: FaultSite) -> Any:
    """Add the product of two matrices: of float16 in float32, of float64 as a sum of products."""
    import torch

    given, add = site.arguments, Writer(site)
    a, b, bias = (
        (given["input"], given["weight"], given["bias"])
        if "linear" in site.op
        else (given["self"], given.get("other", given.get("mat2")), None)
    )
    if site.value.dtype in (torch.float16, torch.bfloat16):
        wide = {name: add.cast(one, torch.float32) for name, one in given.items() if is_tensor(one)}
        return add.cast(add.again(**wide), site.value.dtype)
    terms = site.value.numel() * meta(a).shape[-1]
    if site.value.dtype != torch.float64 or min(meta(a).ndim, meta(b).ndim) < 2 or terms > LARGEST:
        return None
    b = add("transpose.int", b, -2, -1) if "linear" in site.op else b
    products = add("mul.Tensor", add("unsqueeze", a, -1), add("unsqueeze", b, -3))
    total = add("sum.dim_IntList", products, [-2])
    return total if bias is None else add("add.Tensor", total, bias)


_TWO_PASS = "the mean is taken away first, then the squares of what is left are averaged"
_IN_BLOCKS = OtherForm("sums in blocks", "sums of blocks are added, and not all numbers one by one", _sum)
RUNNING = OtherForm("a running sum in blocks", "running sums of blocks, and the sums of the blocks", _running_sum)
_PRODUCT = OtherForm(
    "a product in its dtype", "float16 matrices are multiplied in float32, float64 ones by sums of products", _product
)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "instance_norm": (OtherForm("two-pass norm", _TWO_PASS, _instance_norm),),
    "group_norm": (OtherForm("two-pass norm", _TWO_PASS, _group_norm),),
    "layer_norm": (OtherForm("two-pass norm", _TWO_PASS, _layer_norm),),
    "rms_norm": (OtherForm("RMS in blocks", "the squares are summed in blocks, not one by one", _rms_norm),),
    "var": (OtherForm("two-pass variance", _TWO_PASS, _variance),),
    "cumsum": (RUNNING,),
    **dict.fromkeys(("sum", "mean"), (_IN_BLOCKS,)),
    **dict.fromkeys(("matmul", "mm", "bmm", "linear"), (_PRODUCT,)),
}
