"""A program searched for its first wrong norm, on a runtime that shows nothing of itself but outputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import Exported
from kokoro_nb.locate import divergences, first_nonfinite, judged, reference_trace
from kokoro_nb.locate.tapping import probe_effect, with_extra_outputs
from kokoro_nb.traces.operators import INPUT

_NORM = "instance_norm"


def search(exported: Exported, inputs: Mapping[str, Any], name: str, folder: Path | None = None) -> dict[str, Any]:
    """Compile a program once more with every instance norm, and what each is given, as further outputs; judge them.

    Returns
    -------
    dict
        ``norms``: per norm in order of execution its name, whether what it was given is finite, the share of its result
        that is, and its local error, as multiples of what rounding explains. ``first nonfinite`` and
        ``first divergence``: the findings, as plain values. ``probe``: what the further outputs did to the audio.
    """
    norms = [operator for operator in exported.specification.operators if _NORM in operator.op]
    known = {operator.name for operator in exported.specification.operators}
    taps = [operator.name for operator in norms] + [read for one in norms for read in one.inputs if read in known]
    runtime = backend(name)
    plain = runtime.load(runtime.export(exported, inputs, folder)).run(inputs)
    trace = with_extra_outputs(runtime, exported, inputs, taps, "full", folder)
    reference = reference_trace(exported, inputs)
    errors = judged(reference, trace)
    finite = {INPUT + each: float(np.isfinite(value).mean()) for each, value in trace.inputs.items()}
    finite |= {tap.name: tap.statistics.finite for tap in trace.taps}
    rows = [
        {
            "norm": error.operator.module_path,
            "given (% finite)": 100 * float(np.min([finite[read] for read in error.operator.inputs if read in finite])),
            "result (% finite)": 100 * finite[error.operator.name],
            "local error (of what rounding explains)": error.ratio,
        }
        for error in errors
        if _NORM in error.operator.op
    ]
    faults = divergences(reference, trace, errors)
    return {
        "norms": rows,
        "first nonfinite": first_nonfinite(reference, trace).as_dict(),
        "first divergence": faults[0].as_dict() if faults else None,
        "wrong norms": sum(_NORM in fault.tap.op for fault in faults if fault.tap),
        "probe": probe_effect(plain, trace).statement,
    }
