"""`CustomSTFT` compared with `torch.stft` and `torch.istft`: amplitude, edges and phase, each as a number."""

from dataclasses import dataclass

import numpy as np
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import TorchSTFT

from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import patched
from kokoro_nb.traces.statistics import Parity, compare

TURN = 2 * np.pi


@dataclass(frozen=True)
class StftGap:
    """How far `CustomSTFT` is from torch's on one signal.

    Attributes
    ----------
    magnitude : Parity
        Of the forward transform, all frames but those that read the padding.
    magnitude_edges : Parity
        Of the frames that read the padding.
    phase_flips : float
        Share of the bins, all frames, whose phase differs by more than half a turn: the branch cut of atan2.
    phase : float
        Largest difference of the phase, wrapped to half a turn, over bins above -60 dB of the maximum; radians.
    inverse : Parity
        Of the inverse transform of torch's own spectrum.
    inverse_rms_ratio : float
        Its root mean square over torch's.
    """

    magnitude: Parity
    magnitude_edges: Parity
    phase_flips: float
    phase: float
    inverse: Parity
    inverse_rms_ratio: float

    def as_dict(self) -> dict[str, float]:
        """Return the figures with what they are in words, for a table."""
        return {
            "magnitude, inner frames (of peak)": self.magnitude.of_peak,
            "magnitude, edge frames (of peak)": self.magnitude_edges.of_peak,
            "phase flips (% of bins)": 100 * self.phase_flips,
            "phase, bins above -60 dB (rad)": self.phase,
            "inverse, error (of peak)": self.inverse.of_peak,
            "inverse, RMS ratio": self.inverse_rms_ratio,
        }


def stft_gaps(case: Case) -> dict[str, StftGap]:
    """Measure the gap on the audio of `case`, without the patch ``exact_istft`` and with it."""
    audio = case.tensors["audio"].numpy()
    return {"CustomSTFT": stft_gap(audio), "with exact_istft": stft_gap(audio, exact=True)}


def stft_gap(samples: np.ndarray, n_fft: int = 20, hop_length: int = 5, exact: bool = False) -> StftGap:
    """Compare both transforms on `samples`, and both inverses on torch's spectrum of it.

    Parameters
    ----------
    samples : numpy.ndarray, shape (n,), float32
        A signal, at any rate.
    n_fft, hop_length : int
        In samples; Kokoro's are 20 and 5.
    exact : bool
        With the patch ``exact_istft``.
    """
    import torch

    theirs, ours = TorchSTFT(n_fft, hop_length, n_fft), CustomSTFT(n_fft, hop_length, n_fft)
    signal = torch.from_numpy(np.asarray(samples, dtype=np.float32))[None]
    with torch.no_grad(), patched(ours, ("exact_istft",) if exact else ()):
        magnitude, phase = (tensor.double().numpy() for tensor in theirs.transform(signal))
        magnitude2, phase2 = (tensor.double().numpy() for tensor in ours.transform(signal))
        spectrum = torch.from_numpy(magnitude).float(), torch.from_numpy(phase).float()
        back = theirs.inverse(*spectrum).reshape(-1).double().numpy()
        back2 = ours.inverse(*spectrum).reshape(-1).double().numpy()
    edge = -(-(n_fft // 2) // hop_length)  # frames whose window reaches past the ends
    edges = np.r_[0:edge, magnitude.shape[-1] - edge : magnitude.shape[-1]]
    turned = np.abs(phase2 - phase)
    loud = magnitude > 1e-3 * magnitude.max()
    wrapped = np.minimum(turned, TURN - turned)
    return StftGap(
        magnitude=compare(magnitude[..., edge:-edge], magnitude2[..., edge:-edge]),
        magnitude_edges=compare(magnitude[..., edges], magnitude2[..., edges]),
        phase_flips=float(np.mean(turned > np.pi)),
        phase=float(wrapped[..., edge:-edge][loud[..., edge:-edge]].max()),
        inverse=compare(back, back2),
        inverse_rms_ratio=float(np.sqrt(np.mean(back2**2) / np.mean(back**2))),
    )
