"""Five mistakes that a port of PocketTTS made, as switches: what each does, which check sees it, and where it begins.

Each changes one thing of what `generation.speak` is given. They are those of the trial log of a Core ML port
(FluidInference/mobius, ``models/tts/pocket_tts/coreml/TRIALS.md``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.generation import Host, Speech, Steps, Utterance, Values, embed, speak
from kokoro_nb.models.pocket.pocket_steps import StepModule, eager_steps
from kokoro_nb.studies.pockettts.step_loops import PackageReference, StepCall, StepRecorder
from kokoro_nb.traces.statistics import Parity, compare

MISTAKE_FRAMES, SAMPLERS = 12, (1, 2, 8)


@dataclass(frozen=True)
class Attempt:
    """All that `generation.speak` is given.

    Attributes
    ----------
    steps, host, utterance
        See `generation`.
    embeddings : numpy.ndarray, shape (1, length, width), float32
        What is read before the first frame.
    """

    steps: Steps
    host: Host
    utterance: Utterance
    embeddings: np.ndarray

    def speak(self) -> Speech:
        """Say it."""
        return speak(self.steps, self.host, self.utterance, self.embeddings)


@dataclass(frozen=True)
class Bug:
    """One mistake.

    Attributes
    ----------
    title : str
        What is done wrong.
    apply : callable
        From an attempt to the same with the mistake in it.
    hidden : callable or None
        From an attempt to one at settings where the mistake cannot show, or to None if it is too short; None where
        there are no such settings.
    setting : str
        Those settings, in words.
    check : str
        The test that would have caught it.
    caught : callable
        That test: of a `BugEffect` its figure, 0 but for rounding where all is well.
    """

    title: str
    apply: Callable[[Attempt], Attempt]
    hidden: Callable[[Attempt], Attempt | None] | None
    setting: str
    check: str
    caught: Callable[[Any], float]


def attempt(steps: Steps, host: Host, utterance: Utterance) -> Attempt:
    """Return the attempt without a mistake."""
    return Attempt(steps, host, utterance, embed(steps, host, utterance))


def _padding_counted(given: Values) -> Values:
    return {**given, "length": np.full_like(given["length"], given["embeddings"].shape[1])}


def _nan_cache(right: Attempt) -> Attempt:
    language = {**right.host.language, "cache": np.full_like(right.host.language["cache"], np.nan)}
    return replace(right, host=replace(right.host, language=language))


def _text_first(right: Attempt) -> Attempt:
    voice = right.utterance.voice.shape[1]
    turned = np.concatenate([right.embeddings[:, voice:], right.embeddings[:, :voice]], axis=1)
    return replace(right, embeddings=turned)


def _full_chunks(right: Attempt) -> Attempt | None:
    """Cut what is read so that the last call of the step has no room to spare."""
    length = right.embeddings.shape[1] // right.host.room * right.host.room
    return replace(right, embeddings=right.embeddings[:, :length]) if length else None


def _without_voice(right: Attempt) -> Attempt:
    voice = right.utterance.voice
    return attempt(right.steps, right.host, replace(right.utterance, voice=voice[:, :0]))


def _with_step(right: Attempt, name: str, change: Callable[[Values], Values]) -> Attempt:
    """Change what a step is given, behind the back of whoever watches: as if it were done inside of the step."""
    step = right.steps[name]
    return replace(right, steps={**right.steps, name: lambda given: step(change(given))})


BUGS: Mapping[str, Bug] = {
    "start_at_zero": Bug(
        "start time fixed at 0",
        lambda right: _with_step(right, "flow", lambda given: {**given, "s": np.zeros_like(given["s"])}),
        lambda right: replace(right, utterance=replace(right.utterance, sampler=1)),
        "one step of the sampler",
        "latents against the package's, at two steps of the sampler or more (of peak)",
        lambda effect: effect.latents.of_peak,
    ),
    "end_off_by_one": Bug(
        "end time of a sampler step is its start time",
        lambda right: _with_step(right, "flow", lambda given: {**given, "t": given["s"]}),
        None,
        "none: it shows at any number of sampler steps",
        "latents against the package's (of peak)",
        lambda effect: effect.latents.of_peak,
    ),
    "padding_counted": Bug(
        "zero-padded conditioning that advances the position",
        lambda right: _with_step(right, "conditioning", _padding_counted),
        _full_chunks,
        "as many tokens as there is room for",
        "position after reading, against the number of tokens (positions)",
        lambda effect: float(abs(effect.position)),
    ),
    "nan_cache": Bug(
        "cache filled with NaN, and no scrub",
        _nan_cache,
        None,
        "none in a static graph: the package, which reads only what is written, never shows it",
        "share of the cache after reading that is not finite",
        lambda effect: 1 - effect.read.finite,
    ),
    "text_first": Bug(
        "text before voice",
        _text_first,
        _without_voice,
        "no voice prompt",
        "cache after reading, against the package's (of peak)",
        lambda effect: effect.read.of_peak,
    ),
}


@dataclass(frozen=True)
class BugEffect:
    """One mistake at one setting, compared with the same without it.

    Attributes
    ----------
    bug : Bug
    setting : str
        At which it was made, in words.
    read, written, latents, audio : Parity
        Of the language model's cache after voice and text, of the same at the end, of the latents and of the audio;
        of caches the slots that the right run has written.
    position : int
        By how much the position after reading is off.
    """

    bug: Bug
    setting: str
    read: Parity
    written: Parity
    latents: Parity
    audio: Parity
    position: int

    @property
    def check(self) -> float:
        """Figure of the check that is made for the mistake; of the right run against itself it is 0."""
        return self.bug.caught(self)

    @property
    def hidden(self) -> bool:
        """Whether nothing at all shows."""
        parts = (self.read, self.written, self.latents, self.audio)
        return self.position == 0 and all(part.max_error == 0 for part in parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"mistake": self.bug.title, "setting": self.setting}
        row |= {"position off by": self.position, "KV cache after reading (of peak)": self.read.of_peak}
        row |= {"finite (%)": 100 * self.read.finite, "KV cache at the end (of peak)": self.written.of_peak}
        row |= {"latents (of peak)": self.latents.of_peak, "audio (of peak)": self.audio.of_peak}
        return {**row, "audio finite (%)": 100 * self.audio.finite, "its check says": self.check}


def effect(bug: Bug, right: Attempt, setting: str) -> BugEffect:
    """Measure `bug` at the settings of `right`."""
    return compared(bug, right.speak(), bug.apply(right).speak(), setting)


def compared(bug: Bug, expected: Speech, found: Speech, setting: str) -> BugEffect:
    """Compare the speech with `bug` with the one without."""
    read, end = (int(state["position"][0]) for state in (expected.read, expected.language))
    return BugEffect(
        bug,
        setting,
        compare(expected.read["cache"][:, :, :read], found.read["cache"][:, :, :read]),
        compare(expected.language["cache"][:, :, :end], found.language["cache"][:, :, :end]),
        compare(expected.latents, found.latents),
        compare(expected.audio, found.audio),
        int(found.read["position"][0]) - read,
    )


def effects(bug: Bug, right: Attempt, samplers: Sequence[int]) -> tuple[BugEffect, ...]:
    """Measure `bug` at several numbers of sampler steps, and where it is known to be hidden, if anywhere."""
    found = []
    for count in samplers:
        given = replace(right, utterance=replace(right.utterance, sampler=count))
        found.append(effect(bug, given, f"{count} sampler step{'s' if count > 1 else ''}"))
    hidden = bug.hidden(right) if bug.hidden else None
    return (*found, effect(bug, hidden, bug.setting)) if hidden else tuple(found)


@dataclass(frozen=True)
class FirstDifference:
    """Where two runs part.

    Attributes
    ----------
    place : str
        The first call that differs; empty if none does.
    given, made : tuple of str
        Inputs and outputs of that call that differ.
    operator : str
        The first operator in it whose result differs.
    """

    place: str = ""
    given: tuple[str, ...] = ()
    operator: str = ""
    made: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        row = {"first call": self.place or "none", "given": ", ".join(self.given)}
        return {**row, "first operator": self.operator, "made": ", ".join(self.made)}


def recorded(attempt: Attempt, bug: Bug | None = None) -> tuple[Speech, tuple[StepCall, ...]]:
    """Speak, with a mistake or without, and record every call.

    The mistake may be in what the host does or within a step: a call is recorded as the step without it was called.
    """
    recorder = StepRecorder(attempt.steps)
    listened = replace(attempt, steps=recorder.steps)
    speech = (bug.apply(listened) if bug else listened).speak()
    return speech, tuple(recorder.calls)


def first_difference(
    right: tuple[StepCall, ...], wrong: tuple[StepCall, ...], modules: Mapping[str, StepModule]
) -> FirstDifference:
    """Return where `wrong` parts from `right`, two runs of the same programs on one machine: any bit counts.

    Parameters
    ----------
    right, wrong : tuple of StepCall
        See `recorded`.
    modules : mapping
        The steps, whose operators are then traced on both inputs.

    Raises
    ------
    InputError
        If the two do not call the same steps up to there.
    """
    for one, other in zip(right, wrong, strict=False):
        if one.place != other.place:
            raise InputError(f"One run calls '{one.place}' where the other calls '{other.place}'; compare like runs.")
        given, made = _differing(one.inputs, other.inputs), _differing(one.outputs, other.outputs)
        if given or made:
            return FirstDifference(one.place, given, _first_operator(modules[one.step].module, one, other), made)
    return FirstDifference()


def _first_operator(module: nn.Module, one: StepCall, other: StepCall) -> str:
    """Return the name of the first operator that gives another result on the inputs of `other`."""
    exported = export_program(module, one.inputs)
    if isinstance(exported, Failure):
        raise InputError(f"The step at '{one.place}' cannot be exported and traced: {exported}")
    eager = Eager("eager")
    program = eager.load(eager.export(exported, one.inputs))
    right, wrong = (program.trace(call.inputs, keep="full").values for call in (one, other))
    return next((name for name, value in right.items() if not np.array_equal(value, wrong[name])), "")


def _differing(one: Values, other: Values) -> tuple[str, ...]:
    return tuple(name for name in one if not np.array_equal(one[name], other[name]))


@dataclass(frozen=True, eq=False)
class Mistakes:
    """Each mistake of the earlier port, made on purpose.

    Attributes
    ----------
    frames : int
        Length of the utterance.
    effects : tuple of BugEffect
        What each does, at several settings.
    origins : dict of str to FirstDifference
        Key of `BUGS` -> where the run with the mistake first differs from the one without.
    """

    frames: int
    effects: tuple[BugEffect, ...]
    origins: Mapping[str, FirstDifference]

    def check_rows(self) -> list[dict[str, Any]]:
        """Return a row for each mistake: where it cannot be seen, and the test that sees it."""
        return [{"mistake": bug.title, "invisible at": bug.setting, "seen by": bug.check} for bug in BUGS.values()]

    def origin_rows(self) -> list[dict[str, Any]]:
        """Return a row for each mistake: where the two runs first differ."""
        return [{"mistake": BUGS[name].title, **origin.as_dict()} for name, origin in self.origins.items()]


def mistakes(right: PackageReference) -> Mistakes:
    """Make each mistake by itself in at most 12 frames, and find the first tensor that differs, call by call."""
    few = replace(right.utterance, noise=right.utterance.noise[:MISTAKE_FRAMES])
    tried = attempt(eager_steps(right.modules), right.host, few)
    measured = tuple(row for bug in BUGS.values() for row in effects(bug, tried, SAMPLERS))
    short = replace(tried, utterance=replace(few, sampler=2, noise=few.noise[:1]))
    expected = recorded(short)[1]
    origins = {name: first_difference(expected, recorded(short, bug)[1], right.modules) for name, bug in BUGS.items()}
    return Mistakes(len(few.noise), measured, origins)
