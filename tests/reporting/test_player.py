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
    shown = player("padded <script>", sine(1000), SR)
    y, _ = embedded(shown.html)
    # 20 log10(1000) = 60 dB
    assert "played 60.0 dB down" in shown.html
    assert np.abs(y).max() == pytest.approx(1, abs=1e-3)
    assert "<script" not in shown.html
    html = player("silent", np.zeros(100, np.float32), SR).html
    assert "<audio" in html
    assert "digital silence" in html
    html = player("portable", np.where(np.arange(2400) < 600, np.nan, sine(0.5)), SR).html
    assert "<audio" not in html
    assert "25 % of 2,400 samples are not finite" in html


def test_mono_refuses_what_is_no_audio():
    assert mono(torch.ones(1, 1, 5, requires_grad=True), SR).shape == (5,), "axes of length 1 are dropped"
    for y, sr, match in (
        (np.zeros((2, 3)), SR, "one channel"),
        (np.zeros(0), SR, "one channel"),
        (np.zeros(3, np.int16), SR, "floating-point"),
        (np.zeros(3), 0, "sampling rate"),
        (np.zeros(3), 24000.5, "sampling rate"),
    ):
        with pytest.raises(InputError, match=match):
            mono(y, sr)
