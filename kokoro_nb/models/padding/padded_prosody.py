"""Pitch and energy in a buffer of static length, exact for any number of frames in it."""

from kokoro.modules import ProsodyPredictor
from torch import Tensor

from kokoro_nb.models import steps
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import of_frames


class PaddedProsody(steps.ProsodyStep):
    """The F0 and N predictor of `steps.ProsodyStep`, exact in a buffer of static length."""

    def forward(self, en: Tensor, ref_s: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Return pitch and energy, zeros behind the valid frames.

        Parameters
        ----------
        en : torch.Tensor, shape (1, hidden + 128, frames)
            Features of the duration encoder, each token's repeated for as many frames as it lasts: ``d`` times the
            matrix of `complete.alignment`.
        ref_s : torch.Tensor, shape (1, 256)
            Voice.
        length : torch.Tensor, shape (1,), int64, frames
            How many frames are valid, 2 or more; what stands behind them is not read.

        Returns
        -------
        f0, n : torch.Tensor, shape (1, 2 * frames)
            Pitch (Hz) and energy, 80/s.
        """
        with within(of_frames(en.shape[-1], length)) as valid:
            f0, n = ProsodyPredictor.F0Ntrain(self, valid.zeroed(en), ref_s[:, STYLE:])
            return valid.zeroed(f0), valid.zeroed(n)
