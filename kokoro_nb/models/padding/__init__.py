"""Static shapes that are exact: every part of the model in a buffer, with the true length as an input.

Padding is not neutral. AdaIN takes its mean and variance from whatever is in the buffer, the second direction of an
LSTM begins in the padding, a convolution reads what its layer before made of it, and both ends of the STFT move. A
stage or step that is given ``length``, int64 of shape (1,), gives for the valid part what it gives without padding,
whatever stands behind it, and zeros behind: `stages`, `steps`, `complete.DurationStage`, and `complete.CompleteStage`
with ``exact=True``, which computes the lengths itself. Shapes are static and no operator's choice hangs on a value, so
each exporter takes them, under any of the model's patches. One buffer serves every length from 1 token, or 2 frames, up
to its size.

`Valid`, `of_tokens`, `of_frames` and `within` make other modules exact; `static_buffers.widened` puts inputs into
longer buffers.
"""

from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import Valid, of_frames, of_tokens

__all__ = ["Valid", "of_frames", "of_tokens", "within"]
