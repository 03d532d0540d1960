"""A model of ONNX on ONNX Runtime, with any of its values as further outputs."""

import ctypes
import re
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kokoro_nb.backends.artefacts import give_back_memory
from kokoro_nb.backends.base import quietly
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_nodes import copied, put
from kokoro_nb.inspection.value_types import Arrays, Tell, Value, Values

BFLOAT16 = "tensor(bfloat16)"
LARGE = 64 * 2**20  # bytes of a model that goes through a file: a session holds on to the bytes that it is given
BFLOAT16_NUMBER = 16  # of onnx.TensorProto.DataType


def session_of(model: Any, optimised: bool = False, threads: int = 1, written: str = "") -> Any:
    """Open a session of an ``onnx.ModelProto`` on the CPU; the graph that it runs is saved under the path `written`.

    Raises
    ------
    InputError
        If ONNX Runtime refuses it: it knows no such operator, or the types do not go together.
    """
    with quietly():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.optimized_model_filepath = written
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
        try:
            if model.ByteSize() > LARGE:
                with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                    file.write(model.SerializeToString())
                    file.flush()
                    return onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions share no class
            raise InputError(f"ONNX Runtime does not load it: {brief(error)}") from error


def run_session(session: Any, inputs: Arrays) -> dict[str, Value]:
    """Run once and return the outputs by name.

    Raises
    ------
    InputError
        If the runtime stops with an error.
    """
    wanted = [output.name for output in session.get_outputs()]
    fed = {one.name: inputs[one.name] for one in session.get_inputs() if one.name in inputs}
    short = any(one.type == BFLOAT16 for one in (*session.get_inputs(), *session.get_outputs()))
    with quietly():
        try:
            results = _run_short(session, wanted, fed) if short else session.run(wanted, fed)
            return dict(zip(wanted, results, strict=True))
        except Exception as error:
            raise InputError(f"ONNX Runtime stops: {brief(error)}") from error


def _run_short(session: Any, wanted: list[str], fed: Arrays) -> list[Value]:
    """Run a session with values of bfloat16, which NumPy does not know and the runtime gives as bytes alone."""
    from onnx.helper import tensor_dtype_to_np_dtype
    from onnxruntime import OrtValue

    short = tensor_dtype_to_np_dtype(BFLOAT16_NUMBER)
    given = {
        name: OrtValue.ortvalue_from_numpy_with_onnx_type(value.view(np.uint16), BFLOAT16_NUMBER)
        if value.dtype == short
        else OrtValue.ortvalue_from_numpy(value)
        for name, value in ((name, np.ascontiguousarray(value)) for name, value in fed.items())
    }
    results = []
    for one in session.run_with_ort_values(wanted, given):
        if one.data_type() == BFLOAT16:
            held = ctypes.string_at(one.data_ptr(), one.tensor_size_in_bytes())
            results.append(np.frombuffer(held, short).reshape(one.shape()))
        else:
            results.append(one.numpy())
    return results


WAYS: dict[str, dict[str, Any]] = {"with graph optimisation": {"optimised": True}, "on two threads": {"threads": 2}}
"""How a model is run besides: see `session_of`."""
OtherRuns = Mapping[str, Any]
"""The outputs of a second call, ``again``, and of each of `WAYS`, or the sentence with which the runtime stops."""


def run_ways(model: Any, inputs: Arrays, tell: Tell = str) -> tuple[dict[str, Value], OtherRuns]:
    """Run a model plainly and in the other ways, one session after the other: each holds the whole model.

    Parameters
    ----------
    model : onnx.ModelProto
        The model.
    inputs : mapping of str to numpy.ndarray
        Its inputs.
    tell : callable
        Is given a line after each run.

    Raises
    ------
    InputError
        If the runtime does not load it or stops, when it is run plainly.
    """
    plain = session_of(model)
    outputs = run_session(plain, inputs)
    others: dict[str, Values | str] = {"again": run_session(plain, inputs)}
    del plain
    for way, how in WAYS.items():
        give_back_memory()
        tell(f"the file runs {way}")
        try:
            others[way] = run_session(session_of(model, **how), inputs)
        except InputError as error:
            others[way] = str(error)
    give_back_memory()
    return outputs, others


def tapped(model: Any, values: Iterable[str]) -> Any:
    """Return a copy of the model with `values` as its outputs, and nothing else."""
    import onnx

    copy = copied(model)
    known = {output.name: output for output in model.graph.output}
    put(copy.graph.output, [known.get(name, onnx.ValueInfoProto(name=name)) for name in values])
    return copy


def optimised(model: Any) -> Any:
    """Return a model as the runtime optimises it."""
    import onnx

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        session_of(model, optimised=True, written=file.name)
        return onnx.load(file.name)


def pinned(model: Any, values: Arrays) -> Any:
    """Return a copy in which the nodes that make `values` are gone and the values are constants."""
    import onnx

    copy = copied(model)
    put(copy.graph.node, [node for node in model.graph.node if not set(node.output) & set(values)])
    copy.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in values.items())
    return copy


def brief(error: Exception) -> str:
    """Return the first line of a runtime's message, without its own codes."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = text.rsplit("] : ", 1)[-1].split(" : ", 3)[-1]
    text = re.sub(r"^\S*onnxruntime_src.*\) (?=[A-Z])", "", text)  # where in the runtime's own source
    return f"{text[:300].rstrip('.')}."
