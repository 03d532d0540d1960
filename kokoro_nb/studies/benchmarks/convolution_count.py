"""The decoder's convolutions counted from the shapes of its layers alone, independently of `benchmarks.work`."""

from typing import Any


def convolution_flops(decoder: Any, frames: int) -> int:
    """Return the operations of all convolutions of the decoder from `har`, those of the inverse STFT left out.

    A convolution multiplies and adds each of its weights once for every position that comes out, a transposed one for
    every position that goes in.

    Parameters
    ----------
    decoder : kokoro.istftnet.Decoder
        Of any width.
    frames : int
        Length, 40 to the second.
    """
    generator = decoder.generator
    done = frames * (2 * 3 + _weights(decoder.asr_res[0]))  # of F0 and N three taps each
    for block in (decoder.encode, *decoder.decode):
        upsampled = block.upsample_type != "none"
        done += frames * _weights(block.pool) if upsampled else 0
        within = [block.conv1, block.conv2, *([block.conv1x1] if block.learned_sc else [])]
        done += frames * (1 + upsampled) * sum(map(_weights, within))
    before = 2 * frames
    for place, after in enumerate((20 * frames, 120 * frames + 1)):
        done += before * _weights(generator.ups[place]) + after * _weights(generator.noise_convs[place])
        first = place * generator.num_kernels
        for block in (generator.noise_res[place], *generator.resblocks[first : first + generator.num_kernels]):
            done += after * sum(map(_weights, (*block.convs1, *block.convs2)))
        before = after
    done += before * _weights(generator.conv_post)
    done += before * generator.post_n_fft  # the sum of the squared windows, by which the inverse STFT divides
    return 2 * done


def _weights(layer: Any) -> int:
    """Return the number of a convolution's weights, whether they are normalised or not."""
    return getattr(layer, "weight_v", layer.weight).numel()
