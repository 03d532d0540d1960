"""Five mistakes that a port of PocketTTS made, as switches: each changes one thing of what `generation.speak` is given.

They are those of the trial log of a Core ML port (FluidInference/mobius, ``models/tts/pocket_tts/coreml/TRIALS.md``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.models.pocket.generation import Host, Speech, Steps, Utterance, Values, Watch, embed, speak


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

    def speak(self, watch: Watch | None = None) -> Speech:
        """Say it."""
        return speak(self.steps, self.host, self.utterance, self.embeddings, watch=watch)


@dataclass(frozen=True)
class Bug:
    """One mistake.

    Attributes
    ----------
    name, title : str
        Its key, and what is done wrong.
    apply : callable
        From an attempt to the same with the mistake in it.
    hidden : callable
        From an attempt to one at settings where the mistake cannot show, or None where there are none.
    setting : str
        Those settings, in words.
    check : str
        The test that would have caught it.
    caught : callable
        That test: of a `BugEffect` its figure, 0 but for rounding where all is well.
    """

    name: str
    title: str
    apply: Callable[[Attempt], Attempt]
    hidden: Callable[[Attempt], Attempt | None]
    setting: str
    check: str
    caught: Callable[[Any], float]


def attempt(steps: Steps, host: Host, utterance: Utterance) -> Attempt:
    """Return the attempt without a mistake."""
    return Attempt(steps, host, utterance, embed(steps, host, utterance))


def _padding_counted(right: Attempt) -> Attempt:
    def counted(given: Values) -> Values:
        return {**given, "length": np.full_like(given["length"], given["embeddings"].shape[1])}

    return _with_step(right, "conditioning", counted)


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
    one.name: one
    for one in (
        Bug(
            "start_at_zero",
            "start time fixed at 0",
            lambda right: _with_step(right, "flow", lambda given: {**given, "s": np.zeros_like(given["s"])}),
            lambda right: replace(right, utterance=replace(right.utterance, sampler=1)),
            "one step of the sampler",
            "latents against the package's, at two steps of the sampler or more (of peak)",
            lambda effect: effect.latents.of_peak,
        ),
        Bug(
            "end_off_by_one",
            "end time of a sampler step is its start time",
            lambda right: _with_step(right, "flow", lambda given: {**given, "t": given["s"]}),
            lambda _: None,
            "none: it shows at any number of sampler steps",
            "latents against the package's (of peak)",
            lambda effect: effect.latents.of_peak,
        ),
        Bug(
            "padding_counted",
            "zero-padded conditioning that advances the position",
            _padding_counted,
            _full_chunks,
            "as many tokens as there is room for",
            "position after reading, against the number of tokens (positions)",
            lambda effect: float(abs(effect.position)),
        ),
        Bug(
            "nan_cache",
            "cache filled with NaN, and no scrub",
            _nan_cache,
            lambda _: None,
            "none in a static graph: the package, which reads only what is written, never shows it",
            "share of the cache after reading that is not finite",
            lambda effect: 1 - effect.read.finite,
        ),
        Bug(
            "text_first",
            "text before voice",
            _text_first,
            _without_voice,
            "no voice prompt",
            "cache after reading, against the package's (of peak)",
            lambda effect: effect.read.of_peak,
        ),
    )
}
