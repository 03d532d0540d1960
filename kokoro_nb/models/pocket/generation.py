"""PocketTTS from ids to audio by its steps alone, in NumPy: whatever runs the steps, no PyTorch is needed here.

A step is any callable from arrays by name to arrays by name, the `run` of an exported program for one. The noise is
an input, so that two runtimes can be compared.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kokoro_nb.errors import InputError

Values = Mapping[str, np.ndarray]
Step = Callable[[Values], Values]
Steps = Mapping[str, Step]  # the names are those of `pocket_steps.step_modules`


@dataclass(frozen=True)
class Host:
    """What a host needs of a model beside its steps.

    Attributes
    ----------
    first : numpy.ndarray, shape (1, 1, latent width), float32
        What stands for the latent before the first.
    language, decoder : dict
        Empty states: see `transformer.flow_lm_state` and `transformer.mimi_state`.
    room : int
        Tokens that one call of the steps ``text`` and ``conditioning`` takes.
    positions : int
        By how many a frame moves the position of Mimi's decoder.
    stop_above : float
        Logit above which speech ends.
    earliest : int
        Frames on which the end is not listened to yet, from the first.
    rate : int
        Hz.
    """

    first: np.ndarray
    language: Values
    decoder: Values
    room: int
    positions: int
    stop_above: float
    earliest: int
    rate: int


@dataclass(frozen=True)
class Utterance:
    """What is to be said.

    Attributes
    ----------
    ids : numpy.ndarray, shape (1, tokens), int64
        Of the text.
    voice : numpy.ndarray, shape (1, length, width), float32
        Embeddings of the voice, which are read before the text.
    noise : numpy.ndarray, shape (frames, latent width), float32
        Where the sampler begins: a row for each frame that there may be.
    after_stop : int
        Frames spoken from the one on that says that speech ends, that one included.
    sampler : int
        Steps of the sampler.
    """

    ids: np.ndarray
    voice: np.ndarray
    noise: np.ndarray
    after_stop: int = 1
    sampler: int = 1


@dataclass(frozen=True)
class Speech:
    """What came out.

    Attributes
    ----------
    latents : numpy.ndarray, shape (frames, latent width), float32
        As the sampler left them.
    stops : numpy.ndarray, shape (frames or one more,), float32
        Logits of the end of speech; one more where that ended it.
    frames : numpy.ndarray, shape (frames, samples), float32
        Audio of each frame, as Mimi's decoder left it.
    read : dict
        State of the language model after voice and text.
    language, decoder : dict
        States at the end.
    rate : int
        Hz.
    """

    latents: np.ndarray
    stops: np.ndarray
    frames: np.ndarray
    read: Values
    language: Values
    decoder: Values
    rate: int

    @property
    def audio(self) -> np.ndarray:
        """The whole, full scale 1; its first 5 ms are faded in as the package does it, for Mimi begins with a click."""
        samples, ramp = self.frames.flatten(), self.rate // 200
        samples[:ramp] *= np.linspace(0, 1, ramp, dtype=np.float32)[: samples.size]
        return samples


def embed(steps: Steps, host: Host, utterance: Utterance) -> np.ndarray:
    """Return what the language model reads before it speaks, (1, length, width): the voice, then the text."""
    parts = [utterance.voice]
    for ids, count in _chunks(utterance.ids, host.room):
        parts.append(steps["text"]({"ids": ids})["embeddings"][:, :count])
    return np.concatenate(parts, axis=1)


def speak(
    steps: Steps, host: Host, utterance: Utterance, embeddings: np.ndarray | None = None, one_by_one: bool = False
) -> Speech:
    """Say `utterance`.

    Parameters
    ----------
    steps : mapping
        ``text``, ``conditioning`` or ``conditioning step``, ``language``, ``flow`` and ``mimi``: see
        `pocket_steps.step_modules`.
    host : Host
        Of the model that the steps are of.
    utterance : Utterance
        What is to be said.
    embeddings : numpy.ndarray, shape (1, length, width), float32, optional
        What is read before; by default `embed` makes it.
    one_by_one : bool
        Whether that is read by ``conditioning step``, an embedding at a time.

    Returns
    -------
    Speech
        Until the end that the model announces, or until the noise is used up.

    Raises
    ------
    InputError
        If the caches have too little room: a static graph would lose what goes beyond, without a word.
    """
    if embeddings is None:
        embeddings = embed(steps, host, utterance)
    _require_room(host, embeddings.shape[1], len(utterance.noise))
    read = language = _read(steps, host, embeddings, one_by_one)
    decoder, latent, end = host.decoder, host.first, len(utterance.noise)
    latents, stops, frames = [], [], []
    for frame, noise in enumerate(utterance.noise):
        made = steps["language"]({"latent": latent, **language})
        language = {name: made[name] for name in language}
        stops.append(made["stop"].reshape(()))
        if end == len(utterance.noise) and frame >= host.earliest and stops[-1] > host.stop_above:
            end = min(end, frame + utterance.after_stop)
        if frame >= end:
            break
        latent = _sampled(steps["flow"], made["condition"], noise[None], utterance.sampler)[:, None]
        made = steps["mimi"]({"latent": latent, **decoder})
        decoder = {name: made[name] for name in decoder}
        latents.append(latent[0, 0])
        frames.append(made["audio"].flatten())
    return Speech(np.stack(latents), np.stack(stops), np.stack(frames), read, language, decoder, host.rate)


def _sampled(flow: Step, condition: np.ndarray, x: np.ndarray, count: int) -> np.ndarray:
    """Take `x`, (1, latent width), from noise to a latent."""
    for i in range(count):
        times = {"s": np.full((1, 1), i / count, np.float32), "t": np.full((1, 1), (i + 1) / count, np.float32)}
        x = x + flow({"c": condition, **times, "x": x})["direction"] / np.float32(count)
    return x


def _read(steps: Steps, host: Host, embeddings: np.ndarray, one_by_one: bool) -> dict[str, np.ndarray]:
    """Read `embeddings` into an empty state."""
    state = dict(host.language)
    for part, count in _chunks(embeddings, 1 if one_by_one else host.room):
        if one_by_one:
            made = steps["conditioning step"]({"embedding": part, **state})
        else:
            length = np.array([count], np.int64)
            made = steps["conditioning"]({"embeddings": part, "length": length, **state})
        state = {name: made[name] for name in state}
    return state


def _chunks(values: np.ndarray, room: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yield `values`, (1, length, ...), in parts of `room`, the last padded with zeros, and how many are real."""
    for start in range(0, values.shape[1], room):
        part = values[:, start : start + room]
        spare = [(0, 0), (0, room - part.shape[1])] + [(0, 0)] * (values.ndim - 2)
        yield np.pad(part, spare), part.shape[1]


def _require_room(host: Host, tokens: int, frames: int) -> None:
    language, decoder = host.language["cache"].shape[2], host.decoder["cache"].shape[2]
    if tokens + frames > language:
        needed = (
            f"{tokens} tokens and {frames} frames need as many positions, the language model's cache has {language}"
        )
        raise InputError(f"{needed}; export the steps with a larger one, or give noise for fewer frames.")
    if host.positions * frames > decoder:
        needed = f"{frames} frames need {host.positions * frames} positions, the cache of Mimi's decoder has {decoder}"
        raise InputError(f"{needed}; export the step with a larger one, or give noise for fewer frames.")
