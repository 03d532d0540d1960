"""Static shapes that are exact: every part of the model in a buffer, with the true length as an input.

Padding is not neutral. AdaIN takes its mean and variance from whatever is in the buffer, the second direction of an
LSTM begins in the padding, a convolution reads what its layer before made of it, and both ends of the STFT move. The
stages here take ``length``, int64 of shape (1,), and give for the valid part what the module without padding gives,
whatever stands behind it, and zeros behind. Their shapes are static and no operator's choice hangs on a value, so each
exporter takes them; they hold the parts of the model under the names that they have there, and work under any of its
patches. One buffer serves every length from 1 token, or 2 frames, up to its size.

- Over tokens: `PaddedBert`, `PaddedTextEncoder`, `PaddedDurationEncoder`, `PaddedDurations`, and `PaddedDurationStage`,
  which is the four in one.
- Over frames: `PaddedProsody`, `PaddedSourceStage`, `PaddedFromHarStage`, `PaddedDecoderStage`.
- Both, with the alignment between them: `PaddedCompleteStage`, the model in one graph.
- `widened` puts inputs into longer buffers; `Valid`, `of_tokens`, `of_frames` and `within` make other modules exact.
"""

from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import Valid, of_frames, of_tokens
from kokoro_nb.models.padding.padded_complete import PaddedCompleteStage
from kokoro_nb.models.padding.padded_decoder_stage import PaddedDecoderStage, PaddedFromHarStage, PaddedSourceStage
from kokoro_nb.models.padding.padded_encoders import (
    PaddedBert,
    PaddedDurationEncoder,
    PaddedDurations,
    PaddedDurationStage,
    PaddedTextEncoder,
)
from kokoro_nb.models.padding.padded_prosody import PaddedProsody
from kokoro_nb.models.padding.widening import widened

__all__ = [
    "PaddedBert",
    "PaddedCompleteStage",
    "PaddedDecoderStage",
    "PaddedDurationEncoder",
    "PaddedDurationStage",
    "PaddedDurations",
    "PaddedFromHarStage",
    "PaddedProsody",
    "PaddedSourceStage",
    "PaddedTextEncoder",
    "Valid",
    "of_frames",
    "of_tokens",
    "widened",
    "within",
]
