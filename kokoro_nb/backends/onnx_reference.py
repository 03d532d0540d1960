"""An ONNX graph run by the reference implementation of the ONNX operators, in NumPy: what the graph means."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.time_spent import timed


@dataclass(frozen=True)
class OnnxGraph:
    """A graph in onnx's `ReferenceEvaluator`, with our names of its inputs and outputs."""

    evaluator: Any  # onnx.reference.ReferenceEvaluator
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    @timed("run")
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        arrays = checked(inputs, self.inputs)
        fed = dict(zip(self.evaluator.input_names, arrays.values(), strict=True))
        with np.errstate(all="ignore"):  # NaN and infinity go through, without a word
            results = self.evaluator.run(None, fed)
        return {name: np.array(result) for name, result in zip(self.outputs, results, strict=True)}


def evaluated(model: Any, inputs: tuple[TensorSpec, ...], outputs: tuple[str, ...]) -> OnnxGraph:
    """Return `model`, an ``onnx.ModelProto``, as a program of the reference implementation."""
    from onnx.reference import ReferenceEvaluator

    return OnnxGraph(ReferenceEvaluator(model, new_ops=[_conv_transpose()]), inputs, outputs)


@cache
def _conv_transpose() -> Any:
    """Return onnx's transposed convolution with its groups mended.

    In onnx 1.23 a grouped one gives every group the bias of channel 0, and cuts the weights by the number of output
    channels where the inputs' is meant. With one group it is right, so each group is run as one of those.
    """
    from onnx.reference.ops.op_conv_transpose import ConvTranspose as Single

    class ConvTranspose(Single):
        op_domain = ""

        def _run(self, X: Any, W: Any, B: Any = None, group: int = 1, **attributes: Any) -> Any:  # type: ignore[override]
            biases = [None] * group if B is None else np.split(B, group)
            parts = [
                super(ConvTranspose, self)._run(x, w, b, group=1, **attributes)[0]
                for x, w, b in zip(np.split(X, group, axis=1), np.split(W, group), biases, strict=True)
            ]
            return (np.concatenate(parts, axis=1),)

    return ConvTranspose
