"""A quantised file with the fewest layers back in float, found by measuring: which they are is the advice.

What the output loses is not seen at a layer: one with little noise of its own may pass it on much louder. So layers are
rounded alone, in groups, and the loudest group is halved again and again: noises of several roundings add up as powers
do, so that a group without noise holds no layer that matters. Then each layer that was put back is withdrawn alone, and
stays withdrawn if the limit holds without it.

How much is enough is told by the weights: what they lost in becoming integers is not in the file and stays lost, and
once the activations make less noise than that, more layers in float help little. It is measured by drawing: weights
that were rounded lie within half a step of what is left of them, and any draw from there is as likely as the truth.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.mended_file import MendedFile, lowest_level, mended_file
from kokoro_nb.inspection.onnx_session import run_session, session_of
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, widened
from kokoro_nb.inspection.unrounded_layers import candidates, unrounded
from kokoro_nb.inspection.value_types import Tell
from kokoro_nb.inspection.whole_file import AUDIBLE
from kokoro_nb.locate.search import loudest


def quantised_mend(seen: FileRun, path: str | Path, limit: float | None = None, tell: Tell = str) -> MendedFile:
    """Put the fewest layers of a quantised file back into float, and write it.

    Parameters
    ----------
    seen : FileRun
        The file and the inputs on which it is measured.
    path : path
        Where the mended file is written.
    limit : float, optional
        The least level of every output over the noise of integer activations, dB; by default that over the noise of
        the rounded weights, and 20 dB where no weights were rounded.
    tell : callable
        Is given a line on how far it is.

    Raises
    ------
    InputError
        If no activation of the file is rounded, or the limit is not reached with all layers in float.
    """
    every = candidates(seen.file, seen.budget)
    if not every:
        raise InputError(f"{seen.file.path} rounds no activations to integers, so that no layer goes back to float.")

    made = partial(unrounded, seen.file, seen.budget)
    right = run_session(session_of(made(every)), seen.inputs)

    def level(model: Any) -> float:
        return lowest_level(run_session(session_of(model), seen.inputs), right)

    weights = level(_with_drawn_weights(made(every)))
    if limit is None:
        limit = AUDIBLE if np.isinf(weights) else weights
    loud = loudest(every, lambda group: level(made({*every} - {*group})))
    about = ("layers", "the noise of integer activations")
    return replace(mended_file(about, every, made, level, limit, loud, path, tell), weights=weights)


def _with_drawn_weights(drawn: Any) -> Any:
    """Change the weights of a model to a draw from what is rounded to them, and return the model."""
    import onnx
    from onnx import numpy_helper

    constants = {one.name: one for one in drawn.graph.initializer}
    generator = np.random.default_rng(0)
    for node in drawn.graph.node:
        if node.op_type != "DequantizeLinear" or any(name and name not in constants for name in node.input):
            continue
        integers, *others = (widened(numpy_helper.to_array(constants[name])) for name in node.input if name)
        if integers.ndim < 2 or integers.dtype.itemsize > 2:  # a bias is rounded to a step that is far smaller
            continue
        moved = integers + generator.uniform(-0.5, 0.5, integers.shape)
        (moved,) = computed(OnnxCall(node, {}), [moved, *others])
        constant = numpy_helper.from_array(moved.astype(np.float32))
        node.CopyFrom(onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=constant))
    return drawn
