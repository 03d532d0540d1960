"""Layers on integers as the float operators that they stand for, recognised by their operators, never by their names.

An operator on integers with its scales (QOperator), or whose scales are found while running (dynamic), is written out:
a float operator between DequantizeLinear and QuantizeLinear. So there is one form to measure and to put into a file.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall
from kokoro_nb.inspection.semantics.quantised import LONGEST, NOT, ON_INTEGERS, weight_axis
from kokoro_nb.inspection.value_types import Arrays


@dataclass(frozen=True, eq=False)
class WrittenOut:
    """A layer on integers, written out.

    Attributes
    ----------
    form : str
        ``QOperator``, ``dynamic`` or ``weights only``.
    nodes : list of onnx.NodeProto
        In order; the integers or floats that the layer gives have the name that they have in the file.
    constants : dict of str to numpy.ndarray
        What they read besides; of ``weights only`` without the weights, the second factor.
    product : str
        What the float operator gives.
    result : str
        The float that the layer gives; empty of a sum of integers whose scales are not found.
    """

    form: str
    nodes: list[Any]
    constants: Arrays
    product: str
    result: str


class IntegerLayers:
    """The layers of a file that are operators on integers.

    Parameters
    ----------
    file : OnnxFile
        The file.
    nodes : tuple of OnnxNode
        Its nodes.
    """

    def __init__(self, file: OnnxFile, nodes: tuple[OnnxNode, ...]) -> None:
        self.constants, self.opsets = file.constants, file.opsets
        self.makers = {name: node for node in nodes for name in node.outputs}
        self.readers = defaultdict(list)
        for node in nodes:
            for name in node.reads:
                self.readers[name].append(node)

    def written_out(self, node: OnnxNode) -> WrittenOut | None:
        """Return a node as the float operator that it stands for; None if it is no layer on integers."""
        from onnx import helper

        call = OnnxCall(node.proto, self.opsets)
        operator = ON_INTEGERS.get((call.domain, node.proto.op_type))
        few = node.proto.op_type == "MatMulNBits"
        if operator is None or (few and any(node.proto.input[4:5])):  # its columns are in another order
            return None
        inputs, stem = [*node.proto.input, *[""] * LONGEST], f"{node.outputs[0]}_unrounded_{node.index}"
        kind, left, right, place, given = operator
        x, w, y = ([inputs[k] for k in places] for places in (left, right, given))
        result, bias = node.outputs[0], inputs[place]
        nodes: list[Any] = []
        own: dict[str, np.ndarray] = {}

        def add(kind: str, inputs: list[str], *outputs: str, name: str = "", **attributes: Any) -> str:
            name = name or outputs[0]
            nodes.append(helper.make_node(kind, [*filter(None, inputs)], outputs, name=name, **attributes))
            return outputs[0]

        def dequantised(end: str, axis: int, name: str, scale: str, zero: str = "") -> str:
            steps = np.asarray(own[scale] if scale in own else self.constants.get(scale, 0.0))
            along: dict[str, Any] = {"axis": axis} if steps.size > 1 else {}
            if steps.ndim and (not zero or zero in self.constants):  # one zero point may be that of all
                shape = (steps.size,) if along else ()
                own[scale := f"{stem}_{end}_scale"] = steps.reshape(shape)
                if zero:
                    less = np.broadcast_to(np.ravel(self.constants[zero]), steps.size)
                    own[zero := f"{stem}_{end}_zero"] = less.reshape(shape)
            return add("DequantizeLinear", [name, scale, zero], f"{stem}_{end}", **along)

        form = "QOperator" if given != NOT else "dynamic"
        if right[1] < 0:  # a later node multiplies by the scales
            own[f"{stem}_one"] = np.ones((), np.float32)
            result, w[1] = self._float_of(node)
            x[1], w[1] = self._scale_of(x[0]) or f"{stem}_one", w[1] or f"{stem}_one"
        elif left[1] < 0 and not few:  # it makes integers of it itself
            names = [f"{stem}_{one}" for one in ("integers", "step", "less")]
            add("DynamicQuantizeLinear", x[:1], *names)
            x = names
        if few:
            factors, form = [x[0], f"{stem}_w"], "weights only"
        else:
            factors = [dequantised("x", -2, *x), dequantised("w", weight_axis(call, kind), *w)]
        if bias and kind != "MatMul":
            own[f"{stem}_unit"] = np.ravel(self.constants[x[1]]) * np.ravel(self.constants[w[1]])
            factors.append(dequantised("bias", 0, bias, f"{stem}_unit"))
        added = bias if kind == "MatMul" else ""
        product = f"{stem}_y" if added or y[0] or not result else result
        add(kind, factors, product, name=node.proto.name, **({} if few else call.attributes))
        if added:
            add("Add", [product, added], result)
        if y[0]:
            add("QuantizeLinear", [product, *y], result)
            result = product
        return WrittenOut(form, nodes, own, product, result)

    def _scale_of(self, name: str) -> str:
        """Return the scale of integers that are made of floats while running; empty where that is not found."""
        maker = self.makers.get(name)
        places = {} if maker is None else {"DynamicQuantizeLinear": maker.outputs, "QuantizeLinear": maker.reads}
        return "" if maker is None else places.get(maker.proto.op_type, ("", ""))[1]

    def _float_of(self, node: OnnxNode) -> tuple[str, str]:
        """Return the float that a sum of integers becomes, and the constant that is the scale of its weights.

        The sum is cast to float, and multiplied by the scale of the input times that of the weights; both are empty
        where that is not found.
        """
        found = (
            (product.outputs[0], scale)
            for cast in self.readers[node.outputs[0]]
            if cast.proto.op_type == "Cast"
            for product in self.readers[cast.outputs[0]]
            if product.proto.op_type == "Mul"
            for maker in map(self.makers.get, product.reads)
            if maker is not None and maker.proto.op_type == "Mul"
            for scale in maker.reads
            if scale in self.constants
        )
        return next(found, ("", ""))
