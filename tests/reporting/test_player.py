import base64
import io
import re

import numpy as np
import pytest
import soundfile
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.embedded import mono, player

SR = 24000


def embedded(html):
    (data,) = re.findall(r'src="data:audio/flac;base64,([^"]*)"', html)
    return soundfile.read(io.BytesIO(base64.b64decode(data)))


def sine(peak, dtype=np.float32):
    return (peak * np.sin(2 * np.pi * 440 * np.arange(2400) / SR)).astype(dtype)


def test_audio_within_full_scale_is_embedded_as_loud_as_it_is():
    shown = player("eager", sine(0.25), SR)
    y, sr = embedded(shown.html)
    assert sr == SR
    assert np.abs(y - sine(0.25)).max() <= 2**-15, "16 bits, no gain"
    assert "dB down" not in shown.html


def test_audio_beyond_full_scale_is_turned_down_and_the_gain_is_stated():
    shown = player("padded", sine(1000), SR)
    y, _ = embedded(shown.html)
    # 20 log10(1000) = 60 dB
    assert "played 60.0 dB down" in shown.html
    assert np.abs(y).max() == pytest.approx(1, abs=1e-3)


def test_audio_that_is_not_finite_is_reported_not_played():
    y = sine(0.5)
    y[:600] = np.nan
    html = player("portable", y, SR).html
    assert "<audio" not in html
    assert "25 % of 2,400 samples are not finite" in html


def test_silence_plays_and_is_named():
    html = player("silent", np.zeros(100, np.float32), SR).html
    assert "<audio" in html
    assert "digital silence" in html


def test_a_label_is_escaped():
    assert "<script" not in player("<script>x</script>", sine(0.1), SR).html


def test_mono_takes_a_tensor_with_axes_of_length_one():
    assert mono(torch.ones(1, 1, 5, requires_grad=True), SR).shape == (5,)


@pytest.mark.parametrize(
    ("y", "sr", "match"),
    [
        (np.zeros((2, 3)), SR, "one channel"),
        (np.zeros(0), SR, "one channel"),
        (np.zeros(3, np.int16), SR, "floating-point"),
        (np.zeros(3), 0, "sampling rate"),
        (np.zeros(3), 24000.5, "sampling rate"),
    ],
)
def test_mono_refuses_what_is_no_audio(y, sr, match):
    with pytest.raises(InputError, match=match):
        mono(y, sr)
