"""Other tools on planted faults, each run as its own documentation says, in a process of its own.

Run as ``python -m kokoro_nb.studies.inspection_corpus.peer_tools TOOL``, it reads cases as lines of JSON (``base``,
``planted``, ``healthy``, ``values``), and answers each by a line: what the tool names and the figures that it gives by
node (``answer``), or why it failed (``error``).
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

LOUD = 40.0  # dB: a result nearer than that to the one without the fault is taken for the same
NEAR = 1e-3  # of what onnx-diagnostic calls a relative error


def polygraphy(_base: str, planted: Path, healthy: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compare all tensors of the two files, and validate those of the planted one."""
    from polygraphy import constants
    from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs, OnnxFromPath
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator, CompareFunc, RunResults

    def runner(path: Path, name: str) -> Any:
        marked = ModifyOutputs(OnnxFromPath(str(path)), outputs=constants.MARK_ALL)
        return OnnxrtRunner(SessionFromOnnx(BytesFromOnnx(marked)), name=name)

    run = Comparator.run([runner(healthy, "healthy"), runner(planted, "planted")], data_loader=[dict(inputs)])
    compared = Comparator.compare_accuracy(run, compare_func=CompareFunc.simple())
    results = compared[0]["healthy", "planted"][0]
    wrong = {name for name, one in results.items() if not one}
    first = run["planted"][0]
    for name, value in first.items():
        alone = RunResults([("planted", [type(first)({name: value}, runner_name="planted")])])
        if not Comparator.validate(alone, check_inf=True, check_nan=True):
            wrong.add(name)
    return _first(planted, wrong, {name: "passes" for name in first if name not in wrong})


def ort_debug(_base: str, planted: Path, healthy: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Collect all activations of the two files, and take the ratio of signal to noise of each."""
    from onnxruntime.quantization import CalibrationDataReader
    from onnxruntime.quantization import qdq_loss_debug as debug

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [dict(inputs)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, path in (("healthy", healthy), ("planted", planted)):
            written = str(Path(folder) / f"{name}.onnx")
            debug.modify_model_output_intermediate_tensors(str(path), written)
            found.append(debug.collect_activations(written, Once()))
    right, given = found
    pairs = {name: {"pre_qdq": given[name], "float": right[name]} for name in given if name in right}
    figures = {}
    for name, pair in pairs.items():
        figures[name] = debug.compute_signal_to_quantization_noice_ratio(pair["float"], pair["pre_qdq"])
    return _first(planted, {name for name, one in figures.items() if not one > LOUD}, figures)


def onnx_diagnostic(base: str, planted: Path, _healthy: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run the exported program and the planted file side by side."""
    import onnx
    from onnx_diagnostic.reference import OnnxruntimeEvaluator
    from onnx_diagnostic.torch_onnx.sbs import run_aligned

    program = _program(base)
    tensors = tuple(map(_tensor, inputs.values()))
    records = run_aligned(program, onnx.load(planted), OnnxruntimeEvaluator, args=tensors, exc=False, use_tensor=True)
    figures, wrong = {}, set()
    for one in records:
        if one.onnx_name and one.err_abs is not None:
            figures[one.onnx_name] = one.err_abs
            if one.err_nan or not (one.err_rel or 0.0) <= NEAR:
                wrong.add(one.onnx_name)
    return _first(planted, wrong, figures)


def executorch_inspector(base: str, planted: Path, _healthy: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Hold what the instructions of the planted file log against the exported program, by the gap that it takes."""
    from executorch.devtools import Inspector
    from executorch.runtime import Runtime  # noqa: F401  (registers the kernels)

    from kokoro_nb.backends.executorch.tracing import EVENTS, TENSORS, run_logged
    from kokoro_nb.inspection.formats.pte_file import PteFile

    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        (folder / "record.bin").write_bytes(_record(base))
        np.savez(folder / "inputs.npz", *inputs.values())
        file = PteFile.read(planted)
        run_logged(planted.resolve(), file.room(), folder, again=False)
        inspector = Inspector(
            etdump_path=str(folder / EVENTS),
            etrecord=str(folder / "record.bin"),
            debug_buffer_path=str(folder / TENSORS),
        )
        table = inspector.calculate_numeric_gap("MSE")
    gaps = [(float(np.max(row.gap)), str(row.runtime_ops)) for row in table.itertuples()]
    named = next((names for gap, names in gaps if not gap <= 1e-6), "")
    return {"named": named, "figures": {names: gap for gap, names in gaps}}


@cache
def _program(base: str) -> Any:
    """Return the exported program that a healthy file was made of."""
    import torch

    module, given = _module(base)
    return torch.export.export(module, tuple(given.values()))


def _module(base: str) -> Any:
    from kokoro_nb.studies.inspection_corpus.fault_entries import BASES

    made = BASES[base].program
    assert made is not None
    return made(0)


@cache
def _record(base: str) -> bytes:
    """Return ExecuTorch's record of how the healthy program became a file."""
    from executorch.exir import to_edge_transform_and_lower

    from kokoro_nb.studies.inspection_corpus.file_writers import quantised_program, xnnpack_partitioner

    module, given = _module(base)
    program = quantised_program(module, given) if "quantised" in base else _program(base)
    partitioner = [] if "portable" in base else [xnnpack_partitioner()]
    made = to_edge_transform_and_lower(program, partitioner=partitioner, generate_etrecord=True).to_executorch()
    record = made.get_etrecord()
    record.update_representative_inputs([tuple(given.values())])
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "record.bin"
        record.save(str(path))
        return path.read_bytes()


def _tensor(value: Any) -> Any:
    import torch

    return torch.from_numpy(np.asarray(value))


def _first(planted: Path, wrong: Iterable[str], figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first node of the file that gives one of these values, and the figures by node."""
    import onnx

    from kokoro_nb.inspection.onnx_nodes import nodes_of

    accused: set[str] = set(wrong)
    keys: dict[str, str] = {}
    named = ""
    for node in nodes_of(onnx.load(planted).graph):
        keys |= dict.fromkeys(node.outputs, node.key)
        if not named and accused & set(node.outputs):
            named = node.key
    return {"named": named, "figures": {keys[name]: one for name, one in figures.items() if name in keys}}


TOOLS: dict[str, Callable[[str, Path, Path, Mapping[str, Any]], dict[str, Any]]] = {
    one.__name__: one for one in (polygraphy, ort_debug, onnx_diagnostic, executorch_inspector)
}


def _answered(tool: str, line: str) -> dict[str, Any]:
    case = json.loads(line)
    try:
        with np.load(case["values"]) as stored:
            values = dict(stored)
        return {"answer": TOOLS[tool](case["base"], Path(case["planted"]), Path(case["healthy"]), values)}
    except Exception as error:  # of whatever kind: that it failed on this file is what is recorded
        return {"error": f"{type(error).__name__}: {error}"[:200]}


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # the tools print, too
        for line in sys.stdin:
            print(json.dumps(_answered(sys.argv[1], line), default=float), file=answers, flush=True)
