"""The graph inside of an XNNPACK delegate, read from its payload and computed in any float type.

XNNPACK computes it at one go and shows its outputs alone, but the file says what it is. The layout of the payload is
that of ``executorch/backends/xnnpack/serialization``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.base import quietly
from kokoro_nb.inspection.formats.flatbuffer_tables import FlatSchema, FlatTable
from kokoro_nb.inspection.formats.xnnpack_semantics import KINDS, MOVING

NONE = 2**32 - 1  # in place of a number: there is none
STORED = {
    "fp32": "<f4",
    "fp16": "<f2",
    "qint8": "i1",
    "quint8": "u1",
    "qint32": "<i4",
    "qcint8": "i1",
    "qcint32": "<i4",
}
RANGES = {"qint8": (-128, 127), "quint8": (0, 255)}
FLOATS = ("fp32", "fp16")
Observe = Callable[[int, Any], object]


@dataclass(frozen=True, eq=False)
class XnnValue:
    """One value.

    Attributes
    ----------
    number : int
        Its id.
    external : int or None
        Its place among the arguments of the delegate.
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
    external: int | None
    form: str
    dims: tuple[int, ...]
    data: np.ndarray | None = None
    scale: np.ndarray | None = None
    zero_point: int = 0
    axis: int = 0

    def constant(self, dtype: Any) -> Any:
        """Return what a constant means, in this type."""
        assert self.data is not None
        held = torch.from_numpy(self.data.astype(np.float64 if self.scale is not None else self.data.dtype)).to(dtype)
        if self.scale is None:
            return held
        shape = [-1 if k == self.axis and self.scale.size > 1 else 1 for k in range(held.ndim)]
        return (held - self.zero_point) * torch.from_numpy(self.scale.astype(np.float64)).to(dtype).reshape(shape)

    def rounded(self, value: Any, move: Any = None) -> Any:
        """Return a result as this value holds it; `move` is added to its integers."""
        if self.scale is None:
            return value
        low, high = RANGES[self.form]
        whole = torch.round(value / float(self.scale[0])) + self.zero_point
        whole = whole if move is None else whole + move(whole.shape)
        return (whole.clamp(low, high) - self.zero_point) * float(self.scale[0])


@dataclass(frozen=True, eq=False)
class XnnNode:
    """One node: what it is called, its fields, the values that it reads and the one that it gives."""

    index: int
    table: FlatTable
    reads: tuple[int, ...]
    output: int
    limits: tuple[float, float] | None

    @property
    def kind(self) -> str:
        """Such as ``XNNConv2d``."""
        return self.table.kind


@dataclass(frozen=True, eq=False)
class XnnGraph:
    """The graph.

    Attributes
    ----------
    nodes : tuple of XnnNode
        In the order of execution.
    values : dict of int to XnnValue
        By id.
    inputs, outputs : tuple of XnnValue
        What goes in and what comes out.
    """

    nodes: tuple[XnnNode, ...]
    values: Mapping[int, XnnValue]
    inputs: tuple[XnnValue, ...]
    outputs: tuple[XnnValue, ...]

    @classmethod
    def read(cls, payload: bytes, named: Mapping[str, bytes]) -> "XnnGraph":
        """Read a payload, with the constants that the program holds under a name.

        Raises
        ------
        ValueError
            If it is damaged, or holds a node or a type that is not known here; the text says which.
        """
        begin, table = flat_graph(payload)
        values = {
            one.number: one for one in (_value(each, table, payload, begin, named) for each in table.get("xvalues", []))
        }
        nodes = []
        for index, each in enumerate(table.get("xnodes", [])):
            inner = each.values["xnode_union"]
            if inner.kind not in KINDS:
                raise ValueError(f"{inner.kind} is not known here")
            ids = {name: one for name, one in inner.values.items() if name.endswith("_id")}
            limits = each.get("output_min_max", None)
            low_high = None if limits is None else (limits.get("output_min", 0.0), limits.get("output_max", 0.0))
            order = [name for name in _schema().tables[_table_of(inner.kind)] if name[0].endswith("_id")]
            reads = tuple(inner.get(name, 0) for name, _ in order if not name.startswith("output"))
            nodes.append(XnnNode(index, inner, reads[: _COUNTS.get(inner.kind)], ids.get("output_id", 0), low_high))
        return cls(
            tuple(nodes),
            values,
            tuple(values[one] for one in table.get("input_ids", [])),
            tuple(values[one] for one in table.get("output_ids", [])),
        )

    @property
    def is_quantised(self) -> bool:
        """Whether anything that it computes is held in integers."""
        return any(one.scale is not None and one.data is None for one in self.values.values())

    def run(
        self, given: Mapping[int, Any], dtype: Any, observe: Observe = lambda *_: None, move: Any = None
    ) -> dict[int, Any]:
        """Compute it.

        Parameters
        ----------
        given : dict of int to torch.Tensor
            For each input its value, by its place among the arguments; integers where it holds such.
        dtype : torch.dtype
            In which it is computed.
        observe : callable
            Gets the id of each value that is computed, and the value.
        move : callable, optional
            For a shape, integers by which results that are rounded to integers are moved.

        Returns
        -------
        dict of int to torch.Tensor
            By the place among the arguments.
        """
        known = {one.number: one.constant(dtype) for one in self.values.values() if one.data is not None}
        for one in self.inputs:
            assert one.external is not None
            held = given[one.external].to(dtype).reshape(one.dims)
            known[one.number] = held if one.scale is None else (held - one.zero_point) * float(one.scale[0])
        for node in self.nodes:
            result = KINDS[node.kind](node.table, [known[one] if one != NONE else None for one in node.reads])
            if node.limits is not None:
                result = result.clamp(*node.limits)
            value = self.values[node.output]
            known[node.output] = value.rounded(result, None if node.kind in MOVING else move)
            observe(node.output, known[node.output])
        found = {}
        for one in self.outputs:
            assert one.external is not None
            result = known[one.number]
            found[one.external] = result if one.scale is None else result / float(one.scale[0]) + one.zero_point
        return found


_COUNTS = {"XNNConcatenate2": 2, "XNNConcatenate3": 3, "XNNConcatenate4": 4, "XNNConcatenate5": 5}


def flat_graph(payload: bytes) -> tuple[int, FlatTable]:
    """Return where the table of a payload begins, and the table.

    Raises
    ------
    ValueError
        If it is damaged.
    """
    with quietly():
        from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader

    header = XNNHeader.from_bytes(bytes(payload[: XNNHeader.EXPECTED_LENGTH]))
    begin = header.flatbuffer_offset
    return begin, _schema().table(payload[begin : begin + header.flatbuffer_size])


@lru_cache
def _schema() -> FlatSchema:
    from importlib.resources import files

    return FlatSchema.read(files("executorch.backends.xnnpack.serialization").joinpath("schema.fbs").read_text("utf-8"))


def _table_of(kind: str) -> str:
    return dict(_schema().unions["XNodeUnion"])[kind]


def _value(each: FlatTable, graph: FlatTable, payload: bytes, begin: int, named: Mapping[str, bytes]) -> XnnValue:
    outer = each.values["xvalue_union"]
    table = outer.get("tensor_value", outer)
    form = table.get("datatype", "xnn_datatype_invalid").removeprefix("xnn_datatype_")
    if form not in STORED:
        raise ValueError(f"values of the type {form} are not known here")
    external = table.get("external_id", 0)
    dims = tuple(table.get("dims", []))
    constants = graph.get("constant_data", [])
    data = None
    if table.get("constant_buffer_idx"):
        data = _constant(constants, table.get("constant_buffer_idx"), payload, named, STORED[form]).reshape(dims)
    scale, zero_point, axis = None, 0, 0
    if outer is not table:
        about = outer.values["quant_params"]
        if about.kind == "PerTensorQuant":
            scale, zero_point = np.array([about.get("scale", 0.0)]), about.get("zero_point")
        elif about.kind == "PerChannelQuant":
            held = about.get("scale", [])
            place = about.get("scale_buffer_idx", NONE)
            scale = np.asarray(held) if held else _constant(constants, place, payload, named, "<f4")
            axis = about.get("channel_dim")
        else:
            raise ValueError(f"integers with {about.kind} are not known here")
    if form not in FLOATS and (scale is None or (data is None and form not in RANGES)):
        raise ValueError(f"values of the type {form} are not known here without a scale")
    return XnnValue(
        table.get("id_out"), None if external == NONE else external, form, dims, data, scale, zero_point, axis
    )


def _constant(
    constants: list[FlatTable], index: int, payload: bytes, named: Mapping[str, bytes], form: str
) -> np.ndarray:
    if not 0 < index < len(constants):
        raise ValueError(f"there is no constant {index}")
    about = constants[index]
    key, size = about.get("named_key", ""), about.get("size")
    if key:
        if key not in named:
            raise ValueError(f"the program does not hold the constant {key}")
        return np.frombuffer(named[key][:size], form)
    from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader

    start = XNNHeader.from_bytes(bytes(payload[: XNNHeader.EXPECTED_LENGTH])).constant_data_offset + about.get("offset")
    return np.frombuffer(payload[start : start + size], form)
