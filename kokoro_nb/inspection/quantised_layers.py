"""The layers of a file that are operators on integers, recognised by their operators, never by their names."""

from collections import defaultdict

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall
from kokoro_nb.inspection.semantics.quantised import ON_INTEGERS, WrittenOut, written_out

KINDS = ("Conv", "MatMul", "Gemm")


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
        call = OnnxCall(node.proto, self.opsets)
        if ON_INTEGERS.get((call.domain, node.proto.op_type), "-")[0] not in KINDS:
            return None
        return written_out(call, self.constants, node.proto.name, self._scaled(node))

    def _scaled(self, node: OnnxNode) -> tuple[str, str, str]:
        """Return the float that a sum of integers becomes, and the scales of its operands; empty where not found.

        The sum is cast to float, and multiplied by the scale of the input, found while running, times that of the
        weights, a constant.
        """
        maker = self.makers.get(node.reads[0])
        places = {} if maker is None else {"DynamicQuantizeLinear": maker.outputs, "QuantizeLinear": maker.reads}
        scale = "" if maker is None else places.get(maker.proto.op_type, ("", ""))[1]
        found = (
            (product.outputs[0], scale, factor)
            for cast in self.readers[node.outputs[0]]
            if cast.proto.op_type == "Cast"
            for product in self.readers[cast.outputs[0]]
            if product.proto.op_type == "Mul"
            for maker in map(self.makers.get, product.reads)
            if maker is not None and maker.proto.op_type == "Mul"
            for factor in maker.reads
            if factor in self.constants
        )
        return next(found, ("", scale, ""))
