"""What runs over tokens, exact for any length of the text: BERT, the two encoders, and the durations."""

import torch
from torch import Tensor

from kokoro_nb.models import complete, steps
from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import of_tokens


class PaddedTextEncoder(steps.TextEncoderStep):
    """`steps.TextEncoderStep`, exact in a buffer of static length."""

    def forward(self, ids: Tensor, length: Tensor) -> Tensor:
        """Return text features, zeros behind the text.

        Parameters
        ----------
        ids : torch.Tensor, shape (1, tokens), int64
            Token ids; behind the text any that there are.
        length : torch.Tensor, shape (1,), int64, tokens
            How many tokens the text has, the two that frame it among them.

        Returns
        -------
        torch.Tensor, shape (1, hidden, tokens)
        """
        with within(of_tokens(ids.shape[1], length)) as valid:
            return complete.text_features(self.text_encoder, ids, valid.outside(ids.shape[1])[None])


class PaddedBert(steps.BertStep):
    """`steps.BertStep`, whose attention never was told of the padding: the length in place of the mask."""

    def forward(self, ids: Tensor, length: Tensor) -> Tensor:
        """Return contextual features, (1, tokens, hidden), zeros behind the text: see `PaddedTextEncoder`."""
        valid = of_tokens(ids.shape[1], length)
        encoded = self.bert_encoder(complete.contextual(self.bert, ids, valid.inside(ids.shape[1])[None]))
        return valid.zeroed(encoded, axis=1)


class PaddedDurationEncoder(steps.DurationEncoderStep):
    """`steps.DurationEncoderStep`, exact in a buffer of static length: three LSTMs with AdaLayerNorm between them."""

    def forward(self, encoded: Tensor, ref_s: Tensor, length: Tensor) -> Tensor:  # type: ignore[override]
        """Return features with style, zeros behind the text.

        Parameters
        ----------
        encoded : torch.Tensor, shape (1, tokens, hidden)
            BERT's features after their projection; what stands behind the text is not read.
        ref_s : torch.Tensor, shape (1, 256)
            Voice.
        length : torch.Tensor, shape (1,), int64, tokens
            How many tokens the text has.

        Returns
        -------
        torch.Tensor, shape (1, tokens, hidden + 128)
        """
        with within(of_tokens(encoded.shape[1], length)) as valid:
            padding = valid.outside(encoded.shape[1])[None]
            return complete.duration_features(self.text_encoder, encoded, ref_s[:, steps.STYLE :], padding)


class PaddedDurations(steps.DurationsStep):
    """`steps.DurationsStep`, exact in a buffer of static length."""

    def forward(self, d: Tensor, speed: Tensor, length: Tensor) -> Tensor:  # type: ignore[override]
        """Return how long each token lasts.

        Parameters
        ----------
        d : torch.Tensor, shape (1, tokens, hidden + 128)
            Features of the duration encoder; what stands behind the text is not read.
        speed : torch.Tensor, shape (1,)
            Divides the durations.
        length : torch.Tensor, shape (1,), int64, tokens
            How many tokens the text has.

        Returns
        -------
        torch.Tensor, shape (1, tokens), int64, frames
            At least 1 for a token, 0 behind the text.
        """
        with within(of_tokens(d.shape[1], length)) as valid:
            padding = valid.outside(d.shape[1])[None]
            return complete.durations(self, valid.zeroed(d, axis=1), speed, padding)


class PaddedDurationStage(torch.nn.Module):
    """Token ids to durations and features in one program: all that is done before the number of frames is known.

    Parameters
    ----------
    model : kokoro.model.KModel
        Its parts are shared, not copied, under the names that they have there.
    """

    output_names = ("pred_dur", "d", "t_en")

    def __init__(self, model: complete.KModel):
        super().__init__()
        self.bert, self.bert_encoder = model.bert, model.bert_encoder
        self.predictor, self.text_encoder = model.predictor, model.text_encoder

    def forward(self, ids: Tensor, length: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Predict durations and what they spread over the frames.

        Parameters
        ----------
        ids, length
            See `PaddedTextEncoder.forward`.
        ref_s : torch.Tensor, shape (1, 256)
            Voice.
        speed : torch.Tensor, shape (1,)
            Divides the durations.

        Returns
        -------
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            0 behind the text.
        d : torch.Tensor, shape (1, tokens, hidden + 128)
            Features of the duration encoder, zeros behind the text.
        t_en : torch.Tensor, shape (1, hidden, tokens)
            Text features, zeros behind the text.
        """
        room = ids.shape[1]
        with within(of_tokens(room, length)) as valid:
            mask, padding = valid.inside(room)[None], valid.outside(room)[None]
            encoded = self.bert_encoder(complete.contextual(self.bert, ids, mask))
            d = complete.duration_features(self.predictor.text_encoder, encoded, ref_s[:, steps.STYLE :], padding)
            lasting = complete.durations(self.predictor, d, speed, padding)
            return lasting, d, complete.text_features(self.text_encoder, ids, padding)
