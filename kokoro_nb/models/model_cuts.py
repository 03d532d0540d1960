"""The cuts of the model, each once: BERT, encoders, durations, alignment; prosody, trunk, source, generator, STFT.

Each function computes what the package's module of the same weights computes, in operators that exporters take: no
packed sequences, no writes in place, no indexing with values that the graph itself computes.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import Decoder, Generator, TorchSTFT
from kokoro.model import KModel
from kokoro.modules import CustomAlbert, DurationEncoder, ProsodyPredictor, TextEncoder
from torch import Tensor, nn

from kokoro_nb.models import noise, rewrites
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.padding import EVERYTHING, Valid, of_frames, within

HIDDEN = -1e4  # added to the attention scores of padding: exp(-1e4) is 0, and float16 holds the number


def contextual(bert: CustomAlbert, ids: Tensor, mask: Tensor) -> Tensor:
    """Run BERT with an attention mask of our own in place of the one that `transformers` derives from the data.

    Parameters
    ----------
    ids : torch.Tensor, shape (1, tokens), int64
        Token ids.
    mask : torch.Tensor, shape (1, tokens), bool
        True where there is a token.

    Returns
    -------
    torch.Tensor, shape (1, tokens, width)
        The last hidden state.
    """
    return attended(bert, ids, torch.where(mask, 0.0, HIDDEN))


def attended(bert: CustomAlbert, ids: Tensor, scores: Tensor) -> Tensor:
    """Run BERT with `scores`, (1, tokens), added to those of attention: 0 where there is a token, else `HIDDEN`."""
    table = bert.embeddings
    # every token is of type 0, and token i stands at position i: rows of two tables, without a look-up
    rows = table.position_embeddings.weight[: ids.shape[1]] + table.token_type_embeddings.weight[0]
    embedded = table.LayerNorm(table.word_embeddings(ids) + rows)
    scores = scores.to(embedded.dtype)[:, None, None, :]
    return bert.encoder(embedded, scores.expand(1, 1, ids.shape[1], ids.shape[1])).last_hidden_state


def text_features(encoder: TextEncoder, ids: Tensor, padding: Tensor) -> Tensor:
    """Run the text encoder with an unpacked LSTM.

    Parameters
    ----------
    ids : torch.Tensor, shape (1, tokens), int64
        Token ids.
    padding : torch.Tensor, shape (1, tokens), bool
        True where there is no token.

    Returns
    -------
    torch.Tensor, shape (1, hidden, tokens)
    """
    hidden = padding[:, None]
    x = encoder.embedding(ids).transpose(1, 2).masked_fill(hidden, 0.0)
    for block in encoder.cnn:
        x = block(x).masked_fill(hidden, 0.0)
    x, _ = encoder.lstm(x.transpose(1, 2))
    return x.transpose(1, 2).masked_fill(hidden, 0.0)


def duration_features(encoder: DurationEncoder, x: Tensor, style: Tensor, padding: Tensor) -> Tensor:
    """Run the duration encoder with unpacked LSTMs.

    Parameters
    ----------
    x : torch.Tensor, shape (1, tokens, hidden)
        BERT's features after their projection.
    style : torch.Tensor, shape (1, 128)
        Style of the predictor, ``ref_s[:, 128:]``.
    padding : torch.Tensor, shape (1, tokens), bool
        True where there is no token.

    Returns
    -------
    torch.Tensor, shape (1, tokens, hidden + 128)
    """
    styles, hidden = style[:, None].expand(-1, x.shape[1], -1), padding[:, :, None]
    x = torch.cat([x, styles], dim=2).masked_fill(hidden, 0.0)
    for block in encoder.lstms:
        if isinstance(block, nn.LSTM):
            x, _ = block(x)
        else:
            x = torch.cat([block(x, style), styles], dim=2).masked_fill(hidden, 0.0)
    return x


def durations(predictor: ProsodyPredictor, d: Tensor, speed: Tensor, padding: Tensor) -> Tensor:
    """Return how long each token lasts.

    Parameters
    ----------
    d : torch.Tensor, shape (1, tokens, hidden + 128)
        Features of the duration encoder.
    speed : torch.Tensor, shape (1,)
        Divides the durations.
    padding : torch.Tensor, shape (1, tokens), bool
        True where there is no token.

    Returns
    -------
    torch.Tensor, shape (1, tokens), int64, frames
        At least 1 for a token, 0 for padding.
    """
    return torch.round(lasting(predictor, d, speed)).clamp(min=1).masked_fill(padding, 0.0).to(torch.int64)


def lasting(predictor: ProsodyPredictor, d: Tensor, speed: Tensor) -> Tensor:
    """Return how long each token lasts before that is rounded, (1, tokens) frames: see `durations`."""
    x, _ = predictor.lstm(d)
    return torch.sigmoid(predictor.duration_proj(x)).sum(dim=-1) / speed


def alignment(lasting: Tensor, frames: int) -> Tensor:
    """Return the matrix that repeats each token for as many frames as it lasts.

    A token covers the frames from the sum of the durations before it up to that sum with its own; both are compared
    with the numbers of all frames. A product with it equals `torch.repeat_interleave`, filled with zeros or cut to
    `frames`.

    Parameters
    ----------
    lasting : torch.Tensor, shape (1, tokens), int64, frames
        Durations.
    frames : int
        Number of columns.

    Returns
    -------
    torch.Tensor, shape (1, tokens, frames), bool

    Examples
    --------
    >>> alignment(torch.tensor([[2, 1]]), 4).int().tolist()
    [[[1, 1, 0, 0], [0, 0, 1, 0]]]
    """
    ends = lasting.cumsum(dim=1)
    frame, begins = torch.arange(frames)[None, None], ends - lasting  # whole numbers, which float16 cannot round
    return torch.logical_and(frame >= begins[:, :, None], frame < ends[:, :, None])


def predicted(
    model: KModel, ids: Tensor, style: Tensor, speed: Tensor, mask: Tensor | None = None, length: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Run all that precedes the number of frames: durations, features of the duration encoder, text features.

    Parameters
    ----------
    model : kokoro.model.KModel
        Or any module that holds its parts under the names that they have there.
    ids, style, speed
        See `contextual`, `duration_features` and `durations`.
    mask : torch.Tensor, shape (1, tokens), int64, optional
        1 for each token, 0 for padding: hides the padding from attention and zeroes it, but the second direction of
        each LSTM still begins in it.
    length : torch.Tensor, shape (1,), int64, optional
        How many tokens there are: the same in place of the mask, and nothing reads the padding.

    Returns
    -------
    tuple of torch.Tensor
        (1, tokens) int64, frames; (1, tokens, hidden + 128); (1, hidden, tokens).
    """
    room = ids.shape[1]
    with within(model, Valid(room, length)) as valid:
        inside = valid.inside(room)[None] if mask is None or length is not None else mask > 0
        padding = torch.logical_not(inside)
        encoded = model.bert_encoder(contextual(model.bert, ids, inside))
        d = duration_features(model.predictor.text_encoder, encoded, style, padding)
        return durations(model.predictor, d, speed, padding), d, text_features(model.text_encoder, ids, padding)


def prosody(
    predictor: ProsodyPredictor, en: Tensor, style: Tensor, length: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return pitch (Hz) and energy, (1, 2 * frames) each.

    Parameters
    ----------
    en : torch.Tensor, shape (1, hidden + 128, frames)
        Features of the duration encoder, each token's repeated for as many frames as it lasts.
    style : torch.Tensor, shape (1, 128)
        Style of the predictor, ``ref_s[:, 128:]``.
    length : torch.Tensor, shape (1,), int64, frames, optional
        How many frames are valid, 2 or more.
    """
    with within(predictor, of_frames(en.shape[-1], length)) as valid:
        f0, n = ProsodyPredictor.F0Ntrain(predictor, valid.zeroed(en), style)
        return valid.zeroed(f0), valid.zeroed(n)


def trunk(decoder: Decoder, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor) -> Tensor:
    """Run the decoder up to its generator: `Decoder.forward` without its last line.

    Parameters
    ----------
    asr : torch.Tensor, shape (1, channels, frames)
        Text features, 40 frames/s.
    f0, n : torch.Tensor, shape (1, 2 * frames)
        Pitch (Hz) and energy, 80/s.
    s : torch.Tensor, shape (1, 128)
        Style of the decoder, ``ref_s[:, :128]``.

    Returns
    -------
    torch.Tensor, shape (1, channels, 2 * frames)
    """
    f0_frames, n_frames = decoder.F0_conv(f0.unsqueeze(1)), decoder.N_conv(n.unsqueeze(1))
    x = decoder.encode(torch.cat([asr, f0_frames, n_frames], dim=1), s)
    residual = decoder.asr_res(asr)
    joined = True
    for block in decoder.decode:
        if joined:
            x = torch.cat([x, residual, f0_frames, n_frames], dim=1)
        x = block(x, s)
        joined = joined and block.upsample_type == "none"
    return x


def excitation(generator: Generator, f0: Tensor) -> Tensor:
    """Return the source's signal, the sum of the harmonics and noise: (1, 2 * frames) Hz -> (1, 600 * frames)."""
    curve = generator.f0_upsamp(f0[:, None]).transpose(1, 2)
    signal, _, _ = generator.m_source(curve)
    return signal.transpose(1, 2).squeeze(1)


def harmonics(generator: Generator, f0: Tensor, valid: Valid = EVERYTHING) -> Tensor:
    """Return `har`, the source's magnitude and phase: (1, 2 * frames) Hz -> (1, 22, 120 * frames + 1).

    Without pitch in the padding the phase stands still there, which is how the up-sampling of the phase goes on behind
    the last frame. The signal is extended as the STFT extends it.
    """
    signal = excitation(generator, valid.zeroed(f0))
    if valid.length is not None:
        signal = extended(generator.stft, signal, valid.length)
    magnitude, phase = generator.stft.transform(signal)
    return valid.zeroed(torch.cat([magnitude, phase], dim=1))


def filtered(generator: Generator, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
    """Run the generator from `har` to the output of its last convolution: log magnitude and phase before the sine."""
    return generator.conv_post(before_last(generator, x, s, har))


def before_last(generator: Generator, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
    """Run the generator from `har` to the input of its last convolution, (1, channels, 120 * frames + 1)."""
    sources = (generator.noise_res[i](generator.noise_convs[i](har), s) for i in range(generator.num_upsamples))
    return F.leaky_relu(resonated(generator, x, s, sources))


def resonated(generator: Generator, x: Tensor, s: Tensor, sources: Iterator[Tensor]) -> Tensor:
    """Run the generator to what its last convolution reads, on what it adds at each rate, computed when its turn comes.

    Parameters
    ----------
    x : torch.Tensor, shape (1, channels, 2 * frames)
    s : torch.Tensor, shape (1, 128)
    sources : iterator of torch.Tensor
        (1, channels, 20 * frames), then (1, channels, 120 * frames + 1).
    """
    for i in range(generator.num_upsamples):
        x = F.leaky_relu(x, negative_slope=0.1)
        x_source = next(sources)
        x = generator.ups[i](x)
        if i == generator.num_upsamples - 1:
            x = generator.reflection_pad(x)
        x = x + x_source
        first = i * generator.num_kernels
        total = generator.resblocks[first](x, s)
        for j in range(first + 1, first + generator.num_kernels):
            total = total + generator.resblocks[j](x, s)  # by index: of a slice, an export would not know the path
        x = total / generator.num_kernels
    return x


def spectrum(generator: Generator, x_pre: Tensor) -> tuple[Tensor, Tensor]:
    """Return magnitude and phase (radians) out of the last convolution: the exponential and the sine."""
    bins = generator.post_n_fft // 2 + 1
    return torch.exp(x_pre[:, :bins, :]), torch.sin(x_pre[:, bins:, :])


def waveform(generator: Generator, magnitude: Tensor, phase: Tensor, valid: Valid = EVERYTHING) -> Tensor:
    """Return the audio, (1, samples), whichever STFT the generator holds; zeros behind the valid part."""
    stft, length = generator.stft, valid.length
    if length is None:
        return stft.inverse(magnitude, phase).flatten(1)
    audio = stft.inverse(magnitude * valid.mask(magnitude.shape[-1], magnitude.dtype), phase)
    frames = audio.reshape(1, -1, SAMPLES_PER_FRAME)
    number = torch.arange(frames.shape[1])[None, :, None]
    if is_exact(stft):
        ending = torch.logical_and(number == length - 1, length < frames.shape[1])
        # no torch.where: coremltools declares its result in the shape of the gain
        frames = frames * (1 + ending.to(audio.dtype) * (end_gain(stft, audio.dtype) - 1))
    return frames.masked_fill(number >= length, 0.0).reshape(1, -1)


def from_har(
    decoder: Decoder, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, har: Tensor, valid: Valid = EVERYTHING
) -> Tensor:
    """Run the decoder from `har` on: the inputs of `trunk` and `har`, zeros behind what is valid, to the audio."""
    generator = decoder.generator
    x_pre = filtered(generator, trunk(decoder, asr, f0, n, s), s, har)
    return waveform(generator, *spectrum(generator, x_pre), valid)


def decoded(
    decoder: Decoder, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, drawn: noise.Noise, length: Tensor | None = None
) -> Tensor:
    """Run the whole decoder on noise that is given to it, for which it needs the patch ``explicit_noise``.

    Parameters
    ----------
    asr, f0, n, s
        See `trunk`.
    drawn : noise.Noise
        Of as many frames.
    length : torch.Tensor, shape (1,), int64, frames, optional
        How many frames are valid, 2 or more. Without it the package's own `forward` runs, under whose paths its
        operators are known.

    Returns
    -------
    torch.Tensor, shape (1, 600 * frames)
    """
    with noise.explicit(drawn), within(decoder, of_frames(asr.shape[-1], length)) as valid:
        if length is None:
            return decoder(asr, f0, n, s).flatten(1)
        asr, f0, n = (valid.zeroed(x) for x in (asr, f0, n))
        return from_har(decoder, asr, f0, n, s, harmonics(decoder.generator, f0, valid), valid)


def is_exact(stft: TorchSTFT | CustomSTFT) -> bool:
    """Say whether `stft` reflects at its ends and divides by the windows, as PyTorch's own does."""
    return not isinstance(stft, CustomSTFT) or "exact_istft" in rewrites.ON


def extended(stft: TorchSTFT | CustomSTFT, signal: Tensor, length: Tensor) -> Tensor:
    """Return `signal`, (1, 600 * frames), with what the STFT would put behind ``600 * length`` samples put there."""
    frames = signal.reshape(1, -1, SAMPLES_PER_FRAME)
    number, reach = torch.arange(frames.shape[1])[None, :, None], stft.filter_length // 2
    last = (number == length - 1).to(signal.dtype).transpose(1, 2) @ frames.masked_fill(number >= length, 0.0)
    edge = F.pad(last, (0, reach), mode="reflect" if is_exact(stft) else stft.pad_mode)[..., SAMPLES_PER_FRAME:]
    behind = F.pad(edge, (0, SAMPLES_PER_FRAME - reach))
    return torch.where(number < length, frames, (number == length).to(signal.dtype) * behind).reshape(1, -1)


def end_gain(stft: TorchSTFT | CustomSTFT, dtype: torch.dtype) -> Tensor:
    """Return by how much each sample of the last valid frame is to be multiplied, (600,): 1 but for the last few.

    An exact inverse divides by the sum of the squared windows that cover a sample. In a longer buffer the windows
    behind the end are in that sum, though what is in them is silent.
    """
    squared, hop, reach = (stft.window**2).to(dtype)[None, None], stft.hop_length, stft.filter_length // 2
    overlapping = stft.filter_length // hop
    begin = (overlapping - 1) * hop  # of the last valid window, in whose middle the audio ends
    sums = [
        F.conv_transpose1d(torch.ones(1, 1, windows, dtype=dtype), squared, stride=hop)[0, 0, begin : begin + reach]
        for windows in (2 * overlapping, overlapping)
    ]
    return F.pad(sums[0] / sums[1], (SAMPLES_PER_FRAME - reach, 0), value=1.0)
