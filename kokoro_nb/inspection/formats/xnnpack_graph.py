"""The graph that a .pte file holds for XNNPACK, and its nodes computed by PyTorch.

XNNPACK computes it at one go and shows its outputs alone, but the file says what it is. ExecuTorch writes such payloads
and reads none, and its ``flatc`` writes JSON with six digits, too few for a scale; it also writes a reader, in Python.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn import functional as F

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.value_types import refusing

Given = list[Any]
Compute = Callable[[SimpleNamespace, Given], Any]
TRANSPOSED, KEPT = (2, 1), 64  # flags: which factors are transposed; whether axes of one element stay


def _pair(table: SimpleNamespace, name: str) -> tuple[int, int]:
    return getattr(table, f"{name}_height"), getattr(table, f"{name}_width")


def _padding(table: SimpleNamespace) -> tuple[int, int]:
    top, left = table.padding_top, table.padding_left
    if (top, left) != (table.padding_bottom, table.padding_right):
        raise ValueError("a padding that is not the same on both sides is not known here")
    return top, left


def _convolution(weight: Any, table: SimpleNamespace, given: Given, transposed: bool = False) -> Any:
    x, _, bias = given
    more = _pair(table, "adjustment") if transposed else (0, 0)
    about = _pair(table, "subsampling"), _padding(table), _pair(table, "dilation"), transposed, more, table.groups
    return torch.convolution(x.movedim(-1, 1), weight, bias, *about).movedim(1, -1)


def _transposed(table: SimpleNamespace, given: Given) -> Any:
    weight = torch.cat([one.permute(3, 0, 1, 2) for one in given[1].chunk(table.groups)])
    return _convolution(weight, table, given, transposed=True)


def _turned(table: SimpleNamespace, x: Any, flag: int) -> Any:
    return x.transpose(-1, -2) if table.flags & flag else x


def _slice(table: SimpleNamespace, given: Given) -> Any:
    ranges = zip(table.offsets, table.sizes, strict=True)
    return given[0][tuple(slice(start, start + size if size else None) for start, size in ranges)]


def _padded(table: SimpleNamespace, given: Given) -> Any:
    ends = zip(table.pre_paddings[::-1], table.post_paddings[::-1], strict=True)
    return F.pad(given[0], [one for pair in ends for one in pair], value=table.padding_value)


def _pooled(function: Callable[..., Any], table: SimpleNamespace, given: Given, **options: Any) -> Any:
    size, steps = _pair(table, "pooling"), _pair(table, "stride")
    return function(given[0].movedim(-1, 1), size, steps, _padding(table), **options).movedim(1, -1)


CONCATENATIONS = tuple(f"XNNConcatenate{count}" for count in (2, 3, 4, 5))
_STATIC = ("XNNStaticReshape", "XNNStaticTranspose", "XNNStaticSlice", "XNNStaticConstantPad")
MOVING = frozenset((*_STATIC, *CONCATENATIONS, "XNNCopy"))
"""Nodes that put elements elsewhere and compute nothing."""
_PLAIN: dict[str, Any] = {
    **{"Add": torch.add, "Subtract": torch.sub, "Multiply": torch.mul, "Div": torch.div, "Minimum": torch.minimum},
    **{"Maximum": torch.maximum, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Floor": torch.floor},
    **{"Ceiling": torch.ceil, "Negate": torch.neg, "Abs": torch.abs, "Square": torch.square, "SquareRoot": torch.sqrt},
    **{"ReciprocalSquareRoot": torch.rsqrt, "Log": torch.log, "Exp": torch.exp, "Sin": torch.sin, "Cos": torch.cos},
    **{"Hardswish": F.hardswish, "Gelu": F.gelu},
}
KINDS: dict[str, Compute] = {
    "XNNConv2d": lambda table, given: _convolution(given[1].movedim(-1, 1), table, given),
    "XNNDepthwiseConv2d": lambda table, given: _convolution(given[1].permute(3, 0, 1, 2), table, given),
    "XNNConvTranspose2d": _transposed,
    "XNNFullyConnected": lambda table, given: F.linear(given[0], _turned(table, given[1], TRANSPOSED[1]), given[2]),
    "XNNBatchMatrixMultiply": lambda table, given: torch.matmul(*map(partial(_turned, table), given, TRANSPOSED)),
    "XNNAvgPooling2d": lambda table, given: _pooled(F.avg_pool2d, table, given, count_include_pad=False),
    "XNNMaxPooling2d": lambda table, given: _pooled(F.max_pool2d, table, given, dilation=_pair(table, "dilation")),
    "XNNGlobalAvgPooling2d": lambda table, given: given[0].mean((1, 2), keepdim=bool(table.flags & KEPT)),
    "XNNStaticReshape": lambda table, given: given[0].reshape([one or -1 for one in table.new_shape]),
    "XNNStaticTranspose": lambda table, given: given[0].permute(table.perm),
    "XNNStaticSlice": _slice,
    "XNNStaticConstantPad": _padded,
    **dict.fromkeys(CONCATENATIONS, lambda table, given: torch.cat(given, table.axis)),
    "XNNClamp": lambda table, given: given[0].clamp(*table.limits),
    **dict.fromkeys(("XNNConvert", "XNNCopy"), lambda table, given: given[0]),  # to another type
    "XNNLeakyReLU": lambda table, given: F.leaky_relu(given[0], table.negative_slope),
    "XNNELU": lambda table, given: F.elu(given[0], table.alpha),
    "XNNPReLU": lambda table, given: torch.where(given[0] > 0, given[0], given[0] * given[1]),
    "XNNSoftmax": lambda table, given: F.softmax(given[0], dim=-1),
    **{f"XNN{kind}": partial(lambda function, _, given: function(*given), one) for kind, one in _PLAIN.items()},
}
"""Nodes by their names in ``XNodeUnion``; each gets its own table and what it reads."""


NONE = 2**32 - 1  # in place of a number: there is none
STORED = {"fp32": "<f4", "fp16": "<f2", "quint8": "u1", **dict.fromkeys(("qint8", "qcint8"), "i1")}
STORED |= dict.fromkeys(("qint32", "qcint32"), "<i4")
RANGES = {"qint8": (-128, 127), "quint8": (0, 255)}
FLOATS = ("fp32", "fp16")
DRAWS = 4  # of integers moved by one
SHARE = 1e-5  # of the peak: rounding in float32 beside that of integers
Observe = Callable[[int, Any], object]


@dataclass(frozen=True, eq=False)
class XnnValue:
    """One value.

    Attributes
    ----------
    number : int
        Its id.
    external : int
        Its place among the arguments of the delegate; `NONE` of what is inside.
    form : str
        Its type, as XNNPACK calls it without the prefix: ``fp32``, ``qint8``.
    dims : tuple of int
        Its shape.
    data : numpy.ndarray or None
        A constant as it is stored.
    scale : numpy.ndarray or None
        Of integers: one, or one for each channel along `axis`.
    zero_point : int
        Of integers.
    """

    number: int
    external: int
    form: str
    dims: tuple[int, ...]
    data: np.ndarray | None = None
    scale: np.ndarray | None = None
    zero_point: int = 0
    axis: int = 0

    def real(self, held: Any) -> Any:
        """Return what stored numbers mean, in the type that they are held in."""
        if self.scale is None:
            return held
        shape = [-1 if k == self.axis and self.scale.size > 1 else 1 for k in range(held.ndim)]
        return (held - self.zero_point) * torch.from_numpy(self.scale.astype(np.float64)).to(held.dtype).reshape(shape)

    def stored(self, value: Any) -> Any:
        """Return numbers as they are stored with one scale; integers in the type of the numbers, not clamped."""
        return value if self.scale is None else torch.round(value / float(self.scale[0])) + self.zero_point

    def rounded(self, value: Any, move: Any = None) -> Any:
        """Return a result as this value holds it; `move` is added to its integers."""
        if self.scale is None:
            return value
        whole = self.stored(value)
        whole = whole if move is None else whole + move(whole.shape)
        return self.real(whole.clamp(*RANGES[self.form]))


@dataclass(frozen=True, eq=False)
class XnnNode:
    """One node: its kind, such as ``XNNConv2d``, its fields, the values that it reads and the one that it gives."""

    index: int
    kind: str
    fields: SimpleNamespace
    reads: tuple[int, ...]
    output: int


@dataclass(frozen=True, eq=False)
class XnnDelegate:
    """An XNNPACK delegate, which is called as an operator is, with those arguments of its call that it reads.

    Attributes
    ----------
    nodes : tuple of XnnNode
        In the order of execution.
    values : dict of int to XnnValue
        By id.
    inputs, outputs : tuple of XnnValue
        Of its graph, in the order of the arguments.
    sizes : sequence
        The shape of each argument of its call; None of what is no tensor.
    """

    nodes: tuple[XnnNode, ...]
    values: Mapping[int, XnnValue]
    inputs: tuple[XnnValue, ...]
    outputs: tuple[XnnValue, ...]
    sizes: Sequence[Any]
    name: ClassVar[str] = "XnnpackBackend"
    is_view: ClassVar[bool] = False

    @classmethod
    def read(cls, payload: bytes, named: Mapping[str, bytes], sizes: Sequence[Any]) -> "XnnDelegate":
        """Read a payload, with the constants that the program holds under a name.

        Raises
        ------
        InputError
            If it is damaged, does not fit its call, or holds what is not known here; the text says which.
        """
        with quietly():
            header_form = of_executorch("XNNHeader")
        reader = _reader()
        with refusing("its payload is damaged: {}"):
            header = header_form.from_bytes(payload[: header_form.EXPECTED_LENGTH])
            begin, constants = header.flatbuffer_offset, header.constant_data_offset
            graph = reader["XNNGraphT"].InitFromPackedBuf(payload[begin : begin + header.flatbuffer_size])

            def held(index: int, form: str) -> np.ndarray:
                about = graph.constantData[index]
                key, start = (about.namedKey or b"").decode(), constants + about.offset
                if key and key not in named:
                    raise InputError(f"the program does not hold the constant {key}")
                return np.frombuffer(named[key][: about.size] if key else payload[start : start + about.size], form)

            values = {one.number: one for one in (_value(each.xvalueUnion, held) for each in graph.xvalues)}
            nodes = tuple(node for index, each in enumerate(graph.xnodes) for node in _nodes(index, each, values))
            ends = ([values[one] for one in ids.tolist()] for ids in (graph.inputIds, graph.outputIds))
            inputs, outputs = (sorted(several, key=lambda one: one.external) for several in ends)
            known = {NONE, *(one.number for one in values.values() if one.data is not None or one in inputs)}
            for node in nodes:
                if not known.issuperset(node.reads):
                    raise InputError(f"its node {node.index} reads what nothing before it gives")
                known.add(values[node.output].number)
            fitting = all(one.external < len(sizes) and sizes[one.external] is not None for one in (*inputs, *outputs))
            if not fitting or not known.issuperset(one.number for one in outputs):
                raise InputError("its graph has other inputs or outputs than its call")
        return cls(nodes, values, tuple(inputs), tuple(outputs), sizes)

    def __str__(self) -> str:
        return self.name

    def __call__(self, observe: Observe = lambda *_: None, move: Any = None, **named: Any) -> tuple[Any, ...]:
        """Compute it in the type of the widest float among its arguments.

        Parameters
        ----------
        observe : callable
            Gets the id of each value that is computed, and the value.
        move : callable, optional
            For a shape, integers by which results that are rounded to integers are moved.
        **named : torch.Tensor
            Each argument of the call that it reads by its place, ``input_0``; integers where it holds such.

        Returns
        -------
        tuple of torch.Tensor
            Its results, in the order of the arguments.
        """
        given = {one.number: named[f"input_{one.external}"].reshape(one.dims) for one in self.inputs}
        dtype = torch.float64 if any(one.dtype == torch.float64 for one in given.values()) else torch.float32
        given |= {key: torch.from_numpy(np.array(one.data)) for key, one in self.values.items() if one.data is not None}
        known = {key: self.values[key].real(one.to(dtype)) for key, one in given.items()}
        for node in self.nodes:
            result = KINDS[node.kind](node.fields, [known.get(one) for one in node.reads])
            known[node.output] = self.values[node.output].rounded(result, None if node.kind in MOVING else move)
            observe(node.output, known[node.output])
        return tuple(one.stored(known[one.number]).reshape(self.sizes[one.external]) for one in self.outputs)

    def explained(self, named: Mapping[str, Any], results: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return what rounding may do to each result of a quantised delegate; None of another, where it is measured.

        XNNPACK's integer kernels may round to the neighbour: each integer on the way is moved by up to one at random,
        and what that does at most to a channel is allowed to all of it.
        """
        if all(one.scale is None or one.data is not None for one in self.values.values()):
            return None
        draw = partial(torch.randint, -1, 2, generator=torch.Generator().manual_seed(0))
        runs = (zip(self(move=draw, **named), results, strict=True) for _ in range(DRAWS))
        apart = torch.tensor([[(one - right).abs().amax() for one, right in run] for run in runs]).amax(0)
        return tuple((a + SHARE * b.abs().amax()).expand(b.shape) for a, b in zip(apart, results, strict=True))


@lru_cache
def _reader() -> dict[str, Any]:
    """Have ExecuTorch's ``flatc`` write a reader of payloads, and return its classes by name."""
    schema, found = files("executorch.backends.xnnpack.serialization").joinpath("schema.fbs"), dict[str, Any]()
    with TemporaryDirectory() as room, as_file(schema) as path:
        of_executorch("_run_flatc")(["--python", "--gen-object-api", "--gen-onefile", "-o", room, str(path)])
        exec(Path(room, f"{path.stem}_generated.py").read_text(encoding="utf-8"), found)
    known = {name.lower(): one for name, one in found.items()}
    for union in ("XNNQuantParams", "XNodeUnion", "XValueUnion"):  # flatc 24 calls what it defines in other letters
        found[f"{union}Creator"] = known[f"{union}Creator".lower()]
    return found


def _named(kind: str, number: int) -> str:
    """Return what a number is called in an enumeration of the schema."""
    return {one: name for name, one in vars(_reader()[kind]).items()}[number]


def _nodes(index: int, each: Any, values: dict[int, XnnValue]) -> Iterator[XnnNode]:
    """Yield a node, and what cuts its result off as one of its own; the value between them is added to `values`."""
    kind = _named("XNodeUnion", each.xnodeUnionType)
    if kind not in KINDS:
        raise InputError(f"{kind} is not known here")
    held = {re.sub(r"[A-Z]", r"_\g<0>", name).lower(): one for name, one in vars(each.xnodeUnion).items()}
    fields = {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in held.items()}
    reads = [one for name, one in fields.items() if name.endswith("_id") and name != "output_id"]
    count = int(kind[-1]) if kind in CONCATENATIONS else None
    output, ends = fields["output_id"], each.outputMinMax
    if ends is not None and kind != "XNNClamp":
        between = replace(values[output], number=NONE - 1 - index, external=NONE, scale=None)
        values[between.number] = between
        yield XnnNode(index, kind, SimpleNamespace(**fields), tuple(reads[:count]), between.number)
        kind, fields, reads = "XNNClamp", {}, [between.number]
    fields |= {} if ends is None else {"limits": [ends.outputMin, ends.outputMax]}
    yield XnnNode(index, kind, SimpleNamespace(**fields), tuple(reads[:count]), output)


def _value(outer: Any, held: Callable[[int, str], np.ndarray]) -> XnnValue:
    table = getattr(outer, "tensorValue", outer)
    form = _named("XNNDatatype", table.datatype).removeprefix("xnn_datatype_")
    if form not in STORED:
        raise InputError(f"values of the type {form} are not known here")
    dims = () if table.dims is None else tuple(table.dims.tolist())
    place = table.constantBufferIdx
    data = held(place, STORED[form]).reshape(dims) if place else None
    scale, zero_point, axis = None, 0, 0
    if outer is not table:
        about, kind = outer.quantParams, _named("XNNQuantParams", outer.quantParamsType)
        if kind == "PerTensorQuant":
            scale, zero_point = np.array([about.scale]), about.zeroPoint
        elif kind == "PerChannelQuant":
            scale = held(about.scaleBufferIdx, "<f4") if about.scale is None or not about.scale.size else about.scale
            axis = about.channelDim
        else:
            raise InputError(f"integers with {kind} are not known here")
    if form not in FLOATS and (scale is None or (data is None and form not in RANGES)):
        raise InputError(f"values of the type {form} are not known here without a scale")
    return XnnValue(table.idOut, table.externalId, form, dims, data, scale, zero_point, axis)
