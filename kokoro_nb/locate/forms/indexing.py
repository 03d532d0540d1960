"""What reads or writes where indices point, in other forms: counted from the start, as places in one long axis."""

from math import prod
from typing import Any

from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms.form import OtherForm, Writer, is_tensor, meta

FROM_THE_START = "indices from the start"


def _select(site: FaultSite) -> Any:
    given = site.arguments
    if given["index"] >= 0:
        return None
    return Writer(site).again(index=given["index"] + meta(given["self"]).shape[given["dim"]])


def _index(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    indices = _known(given["indices"])
    if not indices:
        return None
    shape = meta(given["self"]).shape
    started = {axis: _started(add, one, shape[axis]) for axis, one in indices.items()}
    return add.again(indices=[started.get(axis) for axis in range(len(given["indices"]))])


def _started(add: Writer, index: Any, size: int) -> Any:
    return add.where(add("lt.Scalar", index, 0), add("add.Tensor", index, size), index)


def _known(indices: Any) -> dict[int, Any]:
    """Return axis -> index tensor; none where one of them is a mask."""
    import torch

    given = {axis: one for axis, one in enumerate(indices) if one is not None}
    return {} if any(meta(one).dtype in (torch.bool, torch.uint8) for one in given.values()) else given


def _gathered(site: FaultSite) -> Any:
    """Add a gathering along one axis, in which those that are indexed are laid one behind the other."""
    given, add = site.arguments, Writer(site)
    indices = _known(given["indices"])
    if not indices:
        return None
    x, axes = given["self"], list(indices)
    shape = list(meta(x).shape)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    rows = add("reshape", add("permute", x, axes + rest), [-1, *(shape[axis] for axis in rest)])
    places = _places(add, indices, shape, {axis: prod(shape[two] for two in axes if two > axis) for axis in axes})
    found = add("index_select", rows, 0, add("reshape", places, [-1]))
    wide = meta(places).ndim
    found = add("reshape", found, [*meta(places).shape, *(shape[axis] for axis in rest)])
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    order = [*range(wide, wide + front), *range(wide), *range(wide + front, wide + len(rest))]
    return add("permute", found, order)


def _places(add: Writer, indices: dict[int, Any], shape: list[int], steps: dict[int, int]) -> Any:
    """Add where indices point, each counted from the start and times its step."""
    import torch

    found = None
    for axis, index in indices.items():
        part = add("mul.Tensor", _started(add, add.cast(index, torch.int64), shape[axis]), steps[axis])
        found = part if found is None else add("add.Tensor", found, part)
    return found


def _put(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    indices, x = _known(given["indices"]), given["self"]
    if not indices:
        return None
    shape, axes = list(meta(x).shape), list(indices)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if together else 0
    wide = max(meta(one).ndim for one in indices.values())
    size = [1] * front + [0] * wide + [1] * (len(rest) - front)
    steps = {axis: prod(shape[axis + 1 :]) for axis in range(len(shape))}
    places = _places(add, indices, shape, steps)
    places = add("reshape", places, [*size[:front], *meta(places).shape, *size[front + wide :]])
    for number, axis in enumerate(rest):
        behind = front + wide + number - front if number >= front else number
        places = add("add.Tensor", places, _along(add, shape[axis], steps[axis], behind, len(size)))
    return _written(site, x, places, given["values"], given["accumulate"])


def _along(add: Writer, size: int, step: int, axis: int, ndim: int) -> Any:
    """Add the places of one axis, from 0 on, as an axis among others."""
    places = add("mul.Tensor", add("arange", size), step)
    return add("reshape", places, [size if one == axis else 1 for one in range(ndim)])


def _written(site: FaultSite, x: Any, places: Any, values: Any, accumulate: bool) -> Any:
    """Add a write of `values`, which broadcast, to `places` in what lies one behind the other."""
    add, shape = Writer(site), list(meta(x).shape)
    values = add("expand", add.cast(values, site.value.dtype), list(meta(places).shape))
    flat = [add("reshape", one, [-1]) for one in (x, places, values)]
    return add("reshape", add("index_put", flat[0], [flat[1]], flat[2], accumulate), shape)


def _along_one(site: FaultSite) -> Any:
    """Add index_copy, index_add or index_fill as a write to places."""
    given, add = site.arguments, Writer(site)
    x, index, shape = given["self"], given["index"], list(site.value.shape)
    if not shape:
        return None
    axis = given["dim"] % len(shape)
    values = given["source"] if "source" in given else given["value"]
    values = values if is_tensor(values) else add("full_like", add("select.int", x, axis, 0), values)
    if "source" not in given:
        values = add("unsqueeze", values, axis) if meta(values).ndim else values
    if given.get("alpha", 1) != 1:
        values = add("mul.Tensor", values, given["alpha"])
    lone = [-1 if one == axis else 1 for one in range(len(shape))]
    places = add("reshape", _places(add, {axis: index}, shape, {axis: prod(shape[axis + 1 :])}), lone)
    return _spread(site, places, values, axis, [*shape[:axis], meta(places).shape[axis], *shape[axis + 1 :]])


def _scattered(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    index, shape = given["index"], list(site.value.shape)
    source = given.get("src")
    if not shape or source is None or given.get("reduce") is not None:
        return None
    axis, reached = given["dim"] % len(shape), list(meta(index).shape)
    for one, size in enumerate(reached):
        source = add("slice.Tensor", source, one, 0, size) if size < meta(source).shape[one] else source
    places = _places(add, {axis: index}, shape, {axis: prod(shape[axis + 1 :])})
    return _spread(site, places, source, axis, reached)


def _spread(site: FaultSite, places: Any, values: Any, axis: int, sizes: list[int]) -> Any:
    """Add a write to places along one axis, at the same places of all others."""
    add, shape = Writer(site), site.value.shape
    for one, size in enumerate(sizes):
        if one != axis:
            places = add("add.Tensor", places, _along(add, size, prod(shape[one + 1 :]), one, len(sizes)))
    return _written(site, site.arguments["self"], places, values, "add" in site.op)


def _masked(site: FaultSite) -> Any:
    """Add a choice in the place of a write of one number where a mask holds."""
    import torch

    given, add = site.arguments, Writer(site)
    x, values = given["self"], given["values"]
    masks = [one for one in given["indices"] if one is not None]
    if len(masks) != 1 or meta(masks[0]).dtype != torch.bool or meta(values).numel() != 1 or given["accumulate"]:
        return None
    place = next(axis for axis, one in enumerate(given["indices"]) if one is not None)
    behind = meta(x).ndim - place - meta(masks[0]).ndim
    mask = add("reshape", masks[0], [*meta(masks[0]).shape, *[1] * behind])
    return add.where(mask, add.cast(add("reshape", values, []), meta(x).dtype), x)


_FROM_THE_START = "the size of the axis is added to an index that is counted from its end"
_ONE = "what is indexed is one long axis, in which each place has one number"
_SELECT = OtherForm(FROM_THE_START, _FROM_THE_START, _select)
_INDEX = OtherForm(FROM_THE_START, _FROM_THE_START, _index)
_LINEAR, _PUT, _LONE, _SCATTER = (
    OtherForm("one linear index", _ONE, write) for write in (_gathered, _put, _along_one, _scattered)
)
_WHERE = OtherForm("where in place of a mask", "where chooses between the number and what was there", _masked)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "select": (_SELECT,),
    "index": (_INDEX, _LINEAR),
    **dict.fromkeys(("index_put", "index_put_"), (_WHERE, _PUT)),
    **dict.fromkeys(("index_copy", "index_add", "index_fill"), (_LONE,)),
    **dict.fromkeys(("scatter", "scatter_add"), (_SCATTER,)),
}
