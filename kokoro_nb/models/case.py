"""A case: one utterance with everything that passes each cut of the model, computed by the unpatched model itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, patches, voices
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.padding import part_of, widened
from kokoro_nb.models.phonemes import G2P, encode, voice_language
from kokoro_nb.models.weights import Weights


@dataclass(frozen=True)
class Case:
    """One utterance, captured at every cut.

    Attributes
    ----------
    text, phonemes, g2p, voice : str
        The text, its phonemes, what made them, and the voice.
    speed : float
        Divides the durations.
    seed : int
        Seed of the noise.
    weights : Weights
        Weights that computed it.
    tensors : dict
        ``ids`` (1, tokens) int64; ``ref_s`` (1, 256); ``durations`` (tokens,) int64, frames; ``d`` (1, tokens,
        hidden + 128) and ``t_en`` (1, hidden, tokens), the two encoders' outputs; the decoder's inputs ``asr``
        (1, hidden, frames), ``f0`` (1, 2 * frames) Hz, ``n`` (1, 2 * frames), ``s`` (1, 128); the noise
        ``initial_phase``, ``harmonic_noise``, ``branch_noise``, see `noise.Noise`; ``audio`` (600 * frames,) at 24 kHz,
        full scale 1. float32 where not said otherwise.
    """

    text: str
    phonemes: str
    g2p: str
    voice: str
    speed: float
    seed: int
    weights: Weights
    tensors: Mapping[str, Tensor]

    @property
    def frames(self) -> int:
        """Length in frames of `asr`, 40 per second."""
        return self.tensors["asr"].shape[-1]

    @property
    def seconds(self) -> float:
        """Length of the audio in seconds."""
        return self.tensors["audio"].numel() / SAMPLE_RATE

    def noise(self, frames: int | None = None) -> noise.Noise:
        """Return the draw at all three sites, of the first `frames` frames, or of all.

        Raises
        ------
        InputError
            If the utterance has no such frames.
        """
        samples, t = SAMPLES_PER_FRAME * self._count(frames), self.tensors
        return noise.Noise(t["initial_phase"], t["harmonic_noise"][:, :samples], t["branch_noise"][:, :samples])

    def decoder_inputs(self, frames: int | None = None) -> dict[str, Tensor]:
        """Return the inputs of `stages.DecoderStage` by name, for the first `frames` frames, or all.

        Raises
        ------
        InputError
            If the utterance has no such frames.
        """
        given = {name: self.tensors[name] for name in ("asr", "f0", "n", "s", "harmonic_noise")}
        return part_of(given, 0, self._count(frames))

    def _count(self, frames: int | None) -> int:
        """Return `frames`, or as many as there are; refuse what the utterance does not have."""
        frames = self.frames if frames is None else frames
        if not 1 <= frames <= self.frames:
            have = f"Frames 0 to {frames} do not exist, the utterance has {self.frames}"
            raise InputError(f"{have}; choose fewer, or give a longer text.")
        return frames


def capture(kokoro: Kokoro, text: str, voice: str = "", speed: float = 1.0, seed: int = 0, g2p: G2P = "auto") -> Case:
    """Speak `text` with the unpatched model and record the values at each cut.

    The model runs its own `forward_with_tokens`; hooks read its parts, and its random draws are answered from a seeded
    `noise.Noise`. Class-level patches that are on are off meanwhile.

    Parameters
    ----------
    kokoro : Kokoro
        Model and weights.
    text : str
        Up to 510 phonemes, in the language of the voice: by its published name, else English.
    voice : str
        See `voices.load_voice`.
    speed : float
        Above 0; 2 halves the durations.
    seed : int
        Seed of the noise.
    g2p : str
        See `phonemes.phonemise`.

    Raises
    ------
    InputError
        If the text, the voice or the speed cannot be used.
    """
    if not (isinstance(speed, int | float) and 0 < speed < float("inf")):
        raise InputError(f"The speed must be a number above 0, it is {speed}; 1 is normal, 2 is twice as fast.")
    language = kokoro.language or voice_language(voice or kokoro.default_voice)
    phonemes = encode(kokoro.model.vocab, text, g2p, language)
    ref_s = voices.style(voices.load_voice(kokoro, voice), phonemes.symbols)
    model, seen = kokoro.model, dict[str, Tensor]()

    with patches.class_patches(()), noise.replayed() as draws:

        def before_decoder(_module: Any, args: tuple[Tensor, ...]) -> None:
            seen.update(zip(("asr", "f0", "n", "s"), args, strict=True))
            draws.noise = noise.draw(args[0].shape[-1], seed)

        with (
            model.decoder.register_forward_pre_hook(before_decoder),
            model.text_encoder.register_forward_hook(lambda _m, _i, out: seen.update(t_en=out)),
            model.predictor.text_encoder.register_forward_hook(lambda _m, _i, out: seen.update(d=out)),
        ):
            audio, durations = model.forward_with_tokens(phonemes.ids, ref_s, speed)
        drawn = draws.noise
    assert drawn is not None
    seen |= {"ids": phonemes.ids, "ref_s": ref_s, "durations": durations.reshape(-1), "audio": audio.reshape(-1)}
    seen |= {"initial_phase": drawn.initial_phase, "harmonic_noise": drawn.harmonic, "branch_noise": drawn.branch}
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in seen.items()}
    spoken = voice or kokoro.default_voice
    return Case(text, phonemes.symbols, phonemes.g2p, spoken, float(speed), seed, kokoro.weights, tensors)


def decode(
    model: KModel, case: Case, names: Sequence[str] = (), frames: int | None = None, drawn: noise.Noise | None = None
) -> np.ndarray:
    """Decode `case` with the patches `names` on, on the noise of the case, however the model asks for it.

    Parameters
    ----------
    model : kokoro.model.KModel
        The model that the case was captured from.
    case : Case
        Gives the decoder's inputs.
    names : sequence of str
        Keys of `PATCHES`.
    frames : int, optional
        Only the first so many frames.
    drawn : noise.Noise, optional
        Other noise of the same length.

    Returns
    -------
    numpy.ndarray, shape (600 * frames,), float32
        Audio at 24 kHz.
    """
    inputs, drawn = case.decoder_inputs(frames), drawn or case.noise(frames)
    with torch.no_grad(), patches.patched(model, names), noise.replayed(drawn), noise.explicit(drawn):
        audio = model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s")))
    return audio.reshape(-1).numpy()


def complete_inputs(case: Case) -> dict[str, Tensor]:
    """Return the inputs of `speaking.CompleteStage` for an utterance, unpadded, on the noise that was drawn for it."""
    t = case.tensors
    given = {"ids": t["ids"], "attention_mask": torch.ones_like(t["ids"]), "ref_s": t["ref_s"]}
    noises = {name: t[name] for name in ("initial_phase", "harmonic_noise")}
    return {**given, "speed": torch.tensor([case.speed], dtype=t["ref_s"].dtype), **noises}


def static_inputs(case: Case, frames: int, tokens: int | None = None) -> dict[str, Tensor]:
    """Return what the pipeline is given for an utterance, in buffers of fixed length, zeros behind what there is.

    Parameters
    ----------
    case : Case
        The utterance; its noise is used, so far as it reaches.
    frames : int
        Room for frames; a longer utterance is cut there, by the alignment.
    tokens : int, optional
        Room for tokens; as many as there are by default.

    Returns
    -------
    dict
        ``ids`` and ``attention_mask`` (1, tokens) int64, ``ref_s`` (1, 256), ``speed`` (1,), ``harmonic_noise``
        (1, 600 * frames, 9), float32.

    Raises
    ------
    InputError
        If the text has more tokens than there is room for.
    """
    given = complete_inputs(case)
    text = {name: given[name] for name in ("ids", "attention_mask")}
    drawn = {"harmonic_noise": given["harmonic_noise"][:, : frames * SAMPLES_PER_FRAME]}
    room = given["ids"].shape[1] if tokens is None else tokens
    return {**widened(text, room), "ref_s": given["ref_s"], "speed": given["speed"], **widened(drawn, frames)}
