"""Two delivered stages against the model that they were made from, text by text and voice by voice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models.case import Case, capture
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.numerics.effects import decode
from kokoro_nb.numerics.parity import compare


@dataclass(frozen=True)
class Told:
    """One text in one voice.

    Attributes
    ----------
    text, voice : str
    frames : int
        How long the original model makes it.
    durations : bool
        Whether the duration of every token is the original's.
    asr, f0, n : float
        Largest error of what the decoder is given, of the peak; NaN where the durations differ.
    distance : float
        Log-spectral distance of the audio to the original's on the same noise, dB.
    floor : float
        The same of the original itself, after its pitch was moved up or down by as much as that of the delivery
        differs at most: atan2 in the source makes as much of any rounding of that size.
    """

    text: str
    voice: str
    frames: int
    durations: bool
    asr: float
    f0: float
    n: float
    distance: float
    floor: float

    @property
    def inputs(self) -> float:
        """The largest of the three errors of the decoder's inputs."""
        return float(np.max([self.asr, self.f0, self.n]))


def against_model(
    speaker: TwoStages, kokoro: Kokoro, texts: Sequence[str], voices: Sequence[str], seed: int = 0
) -> Iterator[Told]:
    """Speak each text in each voice with both, on the same noise.

    Parameters
    ----------
    speaker : TwoStages
        The delivered folder.
    kokoro : Kokoro
        What it was made from; without patches.
    texts, voices : sequence of str
        Each text has room in one piece; the voices are the folder's.
    seed : int
        Seed of the noise.

    Raises
    ------
    InputError
        If a voice or a text is no good, or has no room.
    """
    from tqdm.auto import tqdm

    for text, voice in tqdm([(text, voice) for voice in voices for text in texts], desc="texts", unit="text"):
        yield _told(speaker, kokoro, text, voice, seed)


def _told(speaker: TwoStages, kokoro: Kokoro, text: str, voice: str, seed: int) -> Told:
    case = capture(kokoro, text, voice, seed=seed, g2p=speaker.contract.g2p)  # type: ignore[arg-type]
    made = speaker.predict(speaker.symbols(text), speaker.table(voice))
    if not np.array_equal(made["durations"], case.tensors["durations"].numpy()):
        return Told(text, voice, case.frames, False, *5 * (float("nan"),))
    given = speaker.decoder_inputs(made, lambda frames: case.tensors["harmonic_noise"].numpy())
    errors = {name: _error(case.tensors[name], given[name]) for name in ("asr", "f0", "n")}
    original, moved = decode(kokoro.model, case, EXPORT_PATCHES), _moved(kokoro, case, errors["f0"], seed)
    audio = speaker.sound(given)[: original.size]
    distances = (log_spectral_distance(original, other) for other in (audio, moved))
    return Told(text, voice, case.frames, True, *errors.values(), *distances)


def _error(expected: torch.Tensor, found: np.ndarray) -> float:
    return compare(expected.numpy(), found[..., : expected.shape[-1]]).of_peak


def _moved(kokoro: Kokoro, case: Case, error: float, seed: int) -> np.ndarray:
    """Decode with every pitch `error` of the peak higher or lower."""
    f0 = case.tensors["f0"]
    sign = torch.randn(f0.shape, generator=torch.Generator().manual_seed(seed)).sign()
    moved = {**case.tensors, "f0": f0 + error * f0.abs().max() * sign}
    return decode(kokoro.model, replace(case, tensors=moved), EXPORT_PATCHES)
