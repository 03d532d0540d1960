"""What an inspection of an ONNX file says of it: everything that was seen, put into a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding, node_findings
from kokoro_nb.inspection.body_runs import body_findings, body_runs
from kokoro_nb.inspection.compared_program import ComparedProgram
from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.float16_foresight import HalfPrecisionNode, float16_foresight, foreseen
from kokoro_nb.inspection.input_maker import MadeInputs, made_inputs
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, nodes_of
from kokoro_nb.inspection.onnx_session import run_ways
from kokoro_nb.inspection.references import varied
from kokoro_nb.inspection.semantics.onnx_call import Arrays, Tell
from kokoro_nb.inspection.whole_file import constants_noted, has_halves, summaries, whole_findings
from kokoro_nb.listening.speech_checks import speech_checks

SAMPLE_RATE, SAMPLES_PER_FRAME = 24_000, 600  # Hz, and samples: of every Kokoro
HEAVY = 128 * 2**20  # bytes of a file of which float16 is foreseen on two inputs alone


def onnx_report(file: OnnxFile, made: MadeInputs, seen: FileRun, tell: Tell) -> InspectionReport:
    """Return the report of a file that was run.

    Parameters
    ----------
    file : OnnxFile
        The file as it is.
    made : MadeInputs
        What went into it, and where that is from.
    seen : FileRun
        What was seen of its nodes.
    tell : callable
        Is given a line on how far it is.
    """

    def others() -> Arrays | None:
        try:
            return made_inputs(file, seed=1).arrays
        except InputError:
            return None

    findings, notes = node_findings(seen, others)
    bodies, unrun = body_runs(seen)
    findings = (*findings, *body_findings(bodies, seen.nodes))
    runs = seen.others or run_ways(seen.file.model, seen.inputs)[1]
    outputs = summaries(seen, file, runs)
    more, noted = whole_findings(seen, runs, outputs, bool(findings))
    ahead = _foresight(seen, others, tell)
    late = () if seen.complete else (f"The time was up after {len(seen.judgements):,} of {len(seen.nodes):,} nodes.",)
    said = (*late, *notes, *unrun, *noted, *_drawing(seen.nodes), *_unlike(seen.unlike))
    report = InspectionReport(
        file.path,
        _runtime(),
        (*findings, *more),
        (*file.notes, *said, *foreseen(ahead), *seen.budget.stated()),
        seen.judgements,
        outputs,
        made.how,
        len(seen.nodes),
        graph=file.model.graph.name or "<main>",
        foresight=ahead,
        bodies=bodies,
        budget=seen.budget,
        places=dict(zip((node.key for node in seen.nodes), file.places, strict=False)),
    )
    return heard(report, seen)


def _foresight(seen: FileRun, others: Callable[[], Arrays | None], tell: Tell) -> tuple[HalfPrecisionNode, ...]:
    """Return what float16 would do, over three inputs: given, varied and other valid ones; of heavy files two."""
    if not seen.complete or has_halves(seen):
        return ()
    heavy = seen.file.model.ByteSize() > HEAVY
    more = [one for one in (varied(seen.inputs, 1), None if heavy else others()) if one is not None]
    return float16_foresight(seen.file, seen.inputs, tell, more)


def _drawing(nodes: Sequence[OnnxNode]) -> tuple[str, ...]:
    """Return in a sentence which nodes draw at random."""
    drawing = [node.key for node in nodes if node.is_random]
    return (f"{len(drawing)} nodes draw at random: {', '.join(drawing[:5])}.",) if drawing else ()


def _unlike(nodes: Mapping[str, str]) -> tuple[str, ...]:
    """Return in a sentence for each other run which nodes differ there though they are given the same."""
    found = []
    for run in dict.fromkeys(nodes.values()):
        keys = [key for key, one in nodes.items() if one == run]
        more = f" and {len(keys) - 5:,} more" if len(keys) > 5 else ""
        found.append(f"Given the same, these nodes give something else in {run}: {', '.join(keys[:5])}{more}.")
    return tuple(found)


def heard(report: InspectionReport, seen: FileRun, known: ComparedProgram | None = None) -> InspectionReport:
    """Add the audible checks of a Kokoro: against another program, both in float64, or against its own float64.

    A Kokoro is a file with an audio and the whole frames of each token among its outputs.
    """
    right: dict[str, Any] = dict(seen.true)
    given: Mapping[str, Any] = seen.outputs
    if known is not None:
        ends, values = set(known.outputs), {}
        named = dict(zip(known.inputs, seen.inputs.values(), strict=False))
        known.compute(named, lambda name, value: values.update({name: value}) if name in ends else None)
        given, right = right, values
    (audio, frames), (other, counts) = spoken(right), spoken(given)
    if audio is None or other is None or frames is None or counts is None:
        return report
    checks = speech_checks(audio, other, SAMPLE_RATE, (frames.tolist(), counts.tolist()))
    wrong = [one for one in checks if one.verdict == "fail"] if known is not None else []
    found = [
        InspectionFinding("audible", "file", f"Heard against what is right: {one}.", proof=("Both were in float64.",))
        for one in wrong
    ]
    return replace(report, findings=(*report.findings, *found), checks=checks)


def spoken(outputs: Mapping[str, Any]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the audio and the durations among a Kokoro's outputs: the longest of floats, and whole frames by token."""
    arrays = [np.asarray(value).reshape(-1) for value in outputs.values() if isinstance(value, np.ndarray)]
    floats = sorted((one for one in arrays if one.dtype.kind == "f" and one.size), key=lambda one: one.size)
    if not floats or floats[-1].size < SAMPLES_PER_FRAME:
        return None, None
    audio = floats[-1]
    others = [one for one in arrays if one is not audio and one.size and np.isfinite(one).all()]
    whole = [one.astype(np.int64) for one in others if (one == np.rint(one)).all()]
    fits = [one for one in whole if one.sum() > 0 and audio.size == int(one.sum()) * SAMPLES_PER_FRAME]
    return audio, fits[0] if fits else None


def static_report(file: OnnxFile) -> InspectionReport:
    """Return what the file says without being run."""
    nodes = nodes_of(file.model.graph)
    notes = [*file.notes, *constants_noted(file), *_drawing(nodes)]
    findings = [
        InspectionFinding("constant", "file", f"The constant '{name}' holds NaN.")
        for name, array in file.constants.items()
        if array.dtype.kind == "f" and np.isnan(array).any()
    ]
    graph = file.model.graph.name or "<main>"
    return InspectionReport(
        file.path, "nothing: not run", tuple(findings), tuple(notes), (), (), {}, len(nodes), graph=graph
    )


def _runtime() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"
