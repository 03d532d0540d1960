"""What 01 holds the patches to that change the samples on purpose."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import TorchSTFT

from kokoro_nb.listening.spectrum import TRANSPARENT, log_spectral_distance
from kokoro_nb.listening.waveform import rms_ratio_db
from kokoro_nb.models import rewrites
from kokoro_nb.models.case import decode
from kokoro_nb.models.patches import PATCHES

FRAMES = 12


def _lifted(self, waveform):
    magnitude, phase = rewrites.stft_transform(self, waveform)
    return (magnitude**2 + 0.1).sqrt(), phase


def _louder(self, *spectrum):
    return 1.3 * rewrites.stft_inverse(self, *spectrum)


SPOILT = ("sqrt_epsilon", (CustomSTFT, "transform", _lifted), "spectrum", TRANSPARENT)
LOUDER = ("exact_istft", (CustomSTFT, "inverse", _louder), "level", 1.0)


@pytest.mark.parametrize(("name", "planted", "what", "limit"), [SPOILT, LOUDER])
def test_what_is_spoilt_in_a_patch_is_heard(narrow, narrow_case, monkeypatch, name, planted, what, limit):
    kept = tuple(one for one in PATCHES[name].rewrites if one[:2] != planted[:2])
    monkeypatch.setitem(PATCHES, name, replace(PATCHES[name], rewrites=(*kept, planted)))
    beside = PATCHES[name].requires
    own, without, within = (decode(narrow.model, narrow_case, names, FRAMES) for names in ((), beside, (*beside, name)))
    figures = {"level": abs(rms_ratio_db(own, within)), "spectrum": log_spectral_distance(without, within)}
    assert figures[what] > limit


def test_level_of_the_plain_inverse():
    # inner bins are counted once in place of twice (1/2), and Hann squared at a quarter hop adds up to 3/2: 3/4
    tone = torch.from_numpy(np.sin(2 * np.pi * 5 / 20 * np.arange(4000))).float()[None]  # bin 5 of 20, an inner one
    spectrum = TorchSTFT(20, 5, 20).transform(tone)
    right, found = (stft(20, 5, 20).inverse(*spectrum) for stft in (TorchSTFT, CustomSTFT))
    assert float(found.norm() / right.norm()) == pytest.approx(0.75, rel=0.01)
