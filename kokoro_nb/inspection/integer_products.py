"""Products of integers whose result is cast to float and multiplied by the scales: what of the graph belongs to one."""

from dataclasses import dataclass

from kokoro_nb.inspection.onnx_nodes import OnnxNode


@dataclass(frozen=True)
class IntegerProduct:
    """Where a product of integers becomes a float.

    Attributes
    ----------
    result : str
        The float value: the product cast to float, times the scale of the input, times that of the weights.
    scale : str
        The constant that is the scale of the weights.
    """

    result: str
    scale: str


def integer_products(nodes: tuple[OnnxNode, ...]) -> dict[int, IntegerProduct]:
    """Return for each ConvInteger and MatMulInteger, by its index, where its result becomes a float, if that is found.

    The result is cast to float, and multiplied by the scale of the input times that of the weights.
    """
    makers = {name: node for node in nodes for name in node.outputs}
    readers: dict[str, list[OnnxNode]] = {}
    for node in nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node)
    found: dict[int, IntegerProduct] = {}
    for node in nodes:
        if node.proto.op_type not in ("ConvInteger", "MatMulInteger"):
            continue
        for cast in readers.get(node.outputs[0], []):
            for product in readers.get(cast.outputs[0], []) if cast.proto.op_type == "Cast" else ():
                others = [name for name in product.reads if name != cast.outputs[0]]
                maker = makers.get(others[0]) if len(others) == 1 and product.proto.op_type == "Mul" else None
                if maker is not None and maker.proto.op_type == "Mul":
                    constant = [name for name in maker.reads if name not in makers]
                    if len(constant) == 1:
                        found[node.index] = IntegerProduct(product.outputs[0], constant[0])
    return found
