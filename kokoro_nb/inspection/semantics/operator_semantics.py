"""What an operator of ONNX computes, in float64: its own definition here, or onnx's reference implementation.

onnx's reference computes in the type that it is given, so that float64 goes in; where it rounds to float32 in between
(norms with a stash type, windows, erf), is wrong or takes minutes (convolutions), or knows no such operator (those of
ONNX Runtime), there is a definition here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import MEANINGS, OnnxCall, Value, as_outputs, widened


class NotDefined(Exception):
    """What a node means is not known here; the text says why."""


def computed(call: OnnxCall, inputs: Sequence[Value], dtype: Any = np.float64) -> list[Value]:
    """Compute a node.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of numpy.ndarray, list or None
        In the types of the file; a list is a sequence, None is absent.
    dtype : numpy.dtype
        In which floats are computed, whatever the file's own type.

    Raises
    ------
    NotDefined
        If the operator is not known, or refuses its inputs.
    """
    wide = list(inputs) if call.node.op_type == "BitCast" else [widened(value, dtype) for value in inputs]
    defined = MEANINGS.get((call.domain, call.node.op_type))
    try:
        with np.errstate(all="ignore"):
            results = as_outputs(defined(call, *wide)) if defined else _by_reference(call, wide)
    except NotDefined:
        raise
    except Exception as error:  # a third party's operator on another's file: anything can come
        raise NotDefined(f"{call.operator} could not be computed in float64: {_brief(error)}") from error
    return [widened(value, dtype) for value in results]


def _by_reference(call: OnnxCall, inputs: Sequence[Value]) -> list[Value]:
    """Compute a node by onnx's reference implementation, in the types of `inputs`."""
    import onnx
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    if call.domain not in ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"):
        raise NotDefined(f"{call.operator} is an operator of another domain, and not known here")
    given = {name: value for name, value in zip(call.node.input, inputs, strict=True) if name}
    names = [name for name in call.node.output if name]
    graph = helper.make_graph(
        [call.node], "one", [onnx.ValueInfoProto(name=n) for n in given], [onnx.ValueInfoProto(name=n) for n in names]
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in call.opsets.items()]
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))
    for name, value in vars(evaluator.rt_nodes_[0]).items():
        if isinstance(value, np.float32):  # an attribute: its square root must not be taken in float32
            setattr(evaluator.rt_nodes_[0], name, float(value))
    results = dict(zip(names, evaluator.run(None, given), strict=True))
    return [results.get(name) for name in call.node.output]


def _brief(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
