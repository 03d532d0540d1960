"""A finding as a folder that reproduces it without this package: the one operator, its inputs and weights, a script."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import part
from kokoro_nb.backends.signature import as_array
from kokoro_nb.defects.catalogue import versions
from kokoro_nb.defects.defect_script import report_text, script, write_shown
from kokoro_nb.defects.finding_case import FindingCase, PositionalProgram
from kokoro_nb.errors import InputError
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.output_error import worst_output
from kokoro_nb.storage import write_json
from kokoro_nb.traces.trace import CONSTANT, INPUT, Trace

RUNNERS = {
    "onnxruntime": ("onnxruntime", ("onnx", "onnxscript", "onnxruntime")),
    "executorch-xnnpack": ("xnnpack", ("executorch",)),
    "tvm": ("tvm", ("apache-tvm",)),
    "tvm-unfused": ("tvm", ("apache-tvm",)),
    "coreml-reference": ("coremltools", ("coremltools",)),
    "coreml-reference-float32": ("coremltools", ("coremltools",)),
}
SCRIPT = "repro.py"
ALLOWED = 16  # how many times PyTorch's own rounding on these inputs is allowed: one draw of it may be a small one


def write_finding_bundle(
    culprit: Culprit, candidate: Exported, healthy: Exported, reference: Trace, folder: str | Path
) -> Path:
    """Cut the operator of a finding out of its program, and write what reproduces it, whole or not at all.

    The folder holds ``repro.py``, which needs torch, numpy, safetensors and the runtime, and exits with 1 while the
    runtime is wrong, 0 when it is right, and 2 where it cannot run; with ``--mended`` it runs PyTorch on the program as
    it should be. Both are run in processes of their own before the
    folder is there: the first has to fail, and the second to pass. The inputs are those of the operator in the
    reference, so that nothing before it has a part in it.

    Parameters
    ----------
    culprit : Culprit
        With an operator.
    candidate, healthy : Exported
        The program that the backend was given, and the one that it should have computed; the same for a fault of the
        backend itself.
    reference : Trace
        What `locate.reference_trace` returned of the latter.
    folder : path
        A folder of that name is replaced.

    Raises
    ------
    InputError
        If the finding names no operator, its backend has no script of its own, the operator alone does not reproduce
        it or is as wrong in PyTorch, or `folder` cannot be written.
    """
    if culprit.tap is None:
        raise InputError("The finding names no operator; there is nothing to cut out.")
    if culprit.backend not in RUNNERS:
        raise InputError(f"No script runs {culprit.backend} by itself; the backends are {', '.join(RUNNERS)}.")
    runner, packages = RUNNERS[culprit.backend]
    name, given = culprit.tap.name, [one for one in culprit.upstream if not one.startswith((INPUT, CONSTANT))]
    cut, healed = (part(program, given, [name]) for program in (candidate, healthy))
    captured = {one: reference.values[one] for one in given}
    right = np.asarray(reference.meaning.recompute(name, reference.inputs, captured).numpy(), order="C")
    fed = cut.inputs(reference.inputs, reference.values)
    tensors = {key: torch.from_numpy(np.asarray(as_array(key, value), order="C")) for key, value in fed.items()}
    limit = _limit(culprit, healed.exported.program, tensors, right)
    if not np.isfinite(limit):
        raise InputError(f"{name} alone is as wrong in PyTorch: its result is beyond its dtype, on any runtime.")
    title = f"{culprit.tap.op} is wrong on {culprit.backend}"
    about = {"packages": packages, "inputs": list(tensors), "limit": limit, "finding": culprit.as_dict()}

    def fill(draft: Path) -> None:
        code = script(title, runner, (PositionalProgram, FindingCase), "FindingCase(Path(__file__).parent)")
        (draft / SCRIPT).write_text(code, encoding="utf-8")
        (draft / "REPORT.md").write_text(_report(culprit, packages, limit, title), encoding="utf-8")
        for file, one in (("program.pt2", cut), ("right.pt2", healed)):
            torch.export.save(one.exported.program, draft / file)
        (draft / "values.safetensors").write_bytes(save({**tensors, "right result": torch.from_numpy(right)}))
        write_json(draft / "finding.json", about)

    alone = (
        f"{name} alone, on PyTorch's inputs, is right on {culprit.backend}: the error needs the operators "
        "around it, so that there is no bundle of this operator."
    )
    return write_shown(folder, SCRIPT, fill, {"": 1, "--mended": 0}, alone)


def _limit(culprit: Culprit, program: Any, tensors: Mapping[str, torch.Tensor], right: np.ndarray) -> float:
    """Return what rounding explains of the error, of the peak: of the finding, and of PyTorch on these inputs."""
    case = PositionalProgram(program)
    with torch.no_grad():
        own = worst_output({"": right}, {"": case(*tensors.values()).numpy()}).of_peak
    dtype = right.dtype if culprit.tap is None else culprit.tap.operator.dtype
    rounding = float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else 0.0
    known = culprit.local_error and culprit.ratio and np.isfinite(culprit.local_error) and np.isfinite(culprit.ratio)
    explained = culprit.local_error / culprit.ratio if known else rounding  # type: ignore[operator]
    return float(np.max([explained, ALLOWED * own]))


def _seen(culprit: Culprit) -> str:
    if culprit.local_error is None or np.isnan(culprit.local_error):
        return f"not finite where it should be, {culprit.channels}"
    return f"an error of {culprit.local_error:.3g} of the peak, {culprit.channels}"


def _report(culprit: Culprit, packages: tuple[str, ...], limit: float, title: str) -> str:
    """Return the bug report, in Markdown."""
    sections = {
        "Expected and actual": [
            f"Expected is the operator in float64 on the same inputs, to {limit:.3g} of the peak: what rounding "
            f"explains, and {ALLOWED} times what PyTorch itself is off on them. Seen in the whole model: "
            f"{_seen(culprit)}."
        ],
        "What may be the cause": ["\n".join(f"- {one}" for one in culprit.mechanisms)] if culprit.mechanisms else [],
        "How to run it": [
            f"    python {SCRIPT}\n    python {SCRIPT} --mended",
            "The first exits with 1 while the runtime is wrong and with 0 when it is right; the second runs PyTorch.",
        ],
    }
    return report_text(title, culprit.statement, versions((*packages, "torch", "numpy")), sections)
