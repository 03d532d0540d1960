"""The drawings of results of the general parts: traces, localisation, listening. `show` imports them when needed."""

from collections.abc import Mapping, Sequence
from typing import Any

from kokoro_nb.listening.transcript import Transcript, Word
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.markup import Fragment, table
from kokoro_nb.reporting.drawn import drawn, drawn_together
from kokoro_nb.reporting.explorer import explore
from kokoro_nb.reporting.localisation_figures import bisections, local_error_profile
from kokoro_nb.traces.trace import Trace


@drawn.register(Trace)
@drawn.register(Investigation)
def _explorer(result: Any, label: str, caption: str) -> Any:
    return explore(result)


@drawn.register
def _bisection(result: Bisection, label: str, caption: str) -> Any:
    return bisections(result, caption or f"Bisection on {result.backend}", label)


@drawn.register
def _transcript(result: Transcript, label: str, caption: str) -> Fragment:
    return table(_words(result.words) or [_heard(result)], caption or result.text)


@drawn_together.register
def _transcripts(first: Transcript, results: Any, label: str, caption: str) -> Fragment:
    if isinstance(results, Mapping):
        return table([{"name": name, **_heard(one)} for name, one in results.items()], caption)
    return table([_heard(one) for one in results], caption)


@drawn_together.register
def _diagnoses(first: Diagnosis, results: Any, label: str, caption: str) -> Fragment:
    named = results if isinstance(results, Mapping) else {one.backend: one for one in results}
    return table([_diagnosis(name, one) for name, one in named.items()], caption)


@drawn_together.register
def _profiles(first: Investigation, results: Any, label: str, caption: str) -> Any:
    """Draw the local errors of all; the order is that of the program that was right."""
    named = results if isinstance(results, Mapping) else {one.backend: one for one in results}
    errors = {name: one.errors for name, one in named.items()}
    operators = first.reference.requested or tuple(tap.operator for tap in first.reference.taps)
    return local_error_profile(
        errors, [one.name for one in operators], caption or "Error of each operator by itself", label
    )


@drawn_together.register
def _profile(first: LocalError, results: Sequence[LocalError], label: str, caption: str) -> Any:
    order = [one.operator.name for one in results]
    return local_error_profile({"local error": results}, order, caption or "Error of each operator by itself", label)


def _diagnosis(name: str, found: Diagnosis) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "verdict": found.verdict, "method": found.method}
    if found.failure is not None:
        return row | found.failure.as_dict()
    first, worst = found.first, next(iter(found.ranked), None)
    row["first wrong operator"] = first.tap.name if first is not None and first.tap is not None else "none"
    if worst is not None and worst.tap is not None:
        row |= {"largest effect": worst.tap.name, "line of the model": worst.source, "mechanism": worst.mechanism.name}
    return (
        row | (found.investigation.as_dict() if found.investigation is not None else {}) | {"result": found.statement}
    )


def _heard(transcript: Transcript) -> dict[str, Any]:
    return {
        "heard": transcript.text,
        "mean log probability": transcript.avg_logprob,
        "probability of no speech": transcript.no_speech_prob,
        "compression ratio": transcript.compression_ratio,
    }


def _words(words: Sequence[Word]) -> list[dict[str, Any]]:
    return [
        {"word": one.text, "start (s)": one.start, "end (s)": one.end, "probability": one.probability} for one in words
    ]
