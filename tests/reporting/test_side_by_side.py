import base64
import io

import numpy as np
import pytest
import soundfile
import torch
from bs4 import BeautifulSoup
from PIL import Image

from kokoro_nb.reporting.cells import sanitise
from kokoro_nb.reporting.side_by_side import (
    BLOCKS,
    BROKEN,
    FLOOR_DB,
    HOP,
    MELS,
    SHADES,
    envelope,
    mono,
    side_by_side,
    spectrograms,
)
from tests.refusals import refused

SR = 24_000
BAD = "<script>alert(1)</script>"


def figure(versions, **more):
    return BeautifulSoup(side_by_side(versions, SR, **more).html, "html.parser").figure


def sound(row):
    data = row.audio["src"].removeprefix("data:audio/flac;base64,")
    return soundfile.read(io.BytesIO(base64.b64decode(data)))[0]


def test_every_version_has_its_spectrogram_player_and_curves(voice):
    made = figure({"eager": voice, "tvm": 1.01 * voice}, title="Both")
    first, second = made(class_="knb-version")
    assert [row.img["alt"] for row in (first, second)] == ["Mel spectrogram of eager", "Mel spectrogram of tvm"]
    assert first.find(class_="knb-difference") is None
    assert "+0.09 dB in level" in second.text  # 20 log10(1.01)
    difference = second.find(class_="knb-difference")
    assert float(difference["data-peak"]) == pytest.approx(0.01 * np.abs(voice).max())
    assert "Difference to eager: at most" in difference.text
    assert np.abs(sound(second) - 1.01 * voice).max() <= 2**-15


def test_one_gain_for_all_keeps_their_ratio_and_is_stated(voice):
    loud = 4 * voice / np.abs(voice).max()
    made = figure({"quiet": loud / 8, "loud": loud})
    quiet, turned = (sound(row) for row in made(class_="knb-version"))
    assert np.abs(turned).max() == pytest.approx(1, abs=1e-3)
    assert np.abs(quiet).max() == pytest.approx(1 / 8, abs=1e-3)
    # 20 log10(4)
    assert "At one gain, 12.0 dB down, for 'loud' is beyond full scale" in made.text
    first, second = figure({"quiet": voice, "mad": 1e9 * voice})(class_="knb-version")
    assert "plays as silence" in first.text
    assert "plays as silence" not in second.text


def test_what_is_identical_silent_or_nowhere_finite_says_so(voice):
    row = figure({"a": voice, "b": voice.copy()})(class_="knb-version")[1]
    assert "equally loud" in row.text
    difference = row.find(class_="knb-difference")
    assert difference.text == "Difference to a: exactly 0"
    nothing = np.full(voice.size, np.nan)
    made = figure({"a": nothing, "b": nothing})
    assert made("audio") == []
    assert "nowhere finite" in made.text
    assert "digital silence" in figure({"a": np.zeros(500)}).text
    first, _ = figure({"a": voice, "b": 2 * voice}, reference="b")(class_="knb-version")
    assert "Difference to b" in first.text
    assert "-6.02 dB in level" in first.text
    long = np.tile(voice, 20)
    made = figure({"a": long, "b": 0.5 * long})
    assert int(made.img["width"]) <= 1001, "as many columns and blocks as short audio"
    assert len(base64.b64decode(made.find(class_="knb-difference")["data-values"])) <= 2 * BLOCKS


def test_a_version_that_is_not_finite_is_drawn_and_has_no_player(voice, broken):
    first, second = figure({"eager": voice, "portable": broken})(class_="knb-version")
    assert second.audio is None
    assert second.find(class_="knb-fail").text == "not finite"
    assert "25 % of the samples are not finite, the first at 0.1250 s, sample 3,000" in second.text
    assert first.audio is not None
    assert "data-values" not in first.find(class_="knb-waveform").attrs, "the sound holds it"


def test_the_sanitiser_leaves_it_as_it_is(voice, broken):
    versions = {BAD: torch.tensor(voice)[None], '" onload="x': broken, "c": voice / 3}
    shown = side_by_side(versions, SR, title=BAD)
    assert BAD in BeautifulSoup(shown.html, "html.parser").text
    clean = sanitise(shown._repr_html_())
    assert BeautifulSoup(clean, "html.parser").figure.prettify() == figure(versions, title=BAD).prettify()
    assert "<script" not in clean
    assert shown._repr_html_().count("<script>") == 1, "in JupyterLab it comes along"


@pytest.mark.parametrize(
    ("versions", "reference", "match"),
    [
        ({"a": np.zeros(5), "b": np.zeros(6)}, None, "one length, but 'a' has 5, 'b' has 6 samples"),
        ({"a": np.zeros(5)}, "b", "'b' is no version; give one of a"),
    ],
)
def test_what_cannot_be_set_side_by_side_is_refused(versions, reference, match):
    refused(match, side_by_side, versions, SR, reference)


def shades(png):
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        return np.asarray(image)


def drawn(**samples):
    return spectrograms({name: np.asarray(y, np.float64) for name, y in samples.items()}, next(iter(samples)), SR, HOP)


def test_mono_refuses_what_is_no_audio():
    assert mono(torch.ones(1, 1, 5, requires_grad=True), SR).shape == (5,), "axes of length 1 are dropped"
    for y, sr, match in (
        (np.zeros((2, 3)), SR, "one channel"),
        (np.zeros(0), SR, "is empty"),
        (np.zeros(3, np.int16), SR, "floating-point"),
        (np.zeros(3), 24000.5, "sampling rate"),
    ):
        refused(match, mono, y, sr)


def test_all_versions_have_one_scale_that_reaches_up_to_the_loudest(voice):
    made = drawn(reference=voice, louder=10 * voice, quieter=voice / 100)
    # ten times the amplitude is 20 dB
    assert made["top_db"] == pytest.approx(20)
    step = (made["top_db"] - FLOOR_DB) / (SHADES - 1)
    pixels = {name: shades(png).astype(float) for name, png in made["images"].items()}
    assert pixels["louder"].shape == (MELS, 1 + voice.size // HOP) == (MELS, made["columns"])
    assert pixels["louder"][-20:].max() == SHADES - 1, "low frequencies are at the bottom"
    inside = (pixels["quieter"] > 0) & (pixels["louder"] < SHADES - 1)
    assert inside.any()
    # 60 dB from a hundredth to ten times, rounded to a shade at each end
    assert np.abs((pixels["louder"] - pixels["quieter"])[inside] * step - 60).max() <= step


def test_frames_that_touch_a_nan_are_striped_and_no_other(voice, broken):
    pixels = shades(drawn(reference=voice, broken=broken)["images"]["broken"])
    striped = (pixels >= SHADES).all(axis=0)
    assert ((pixels >= SHADES).any(axis=0) == striped).all()
    # frame t covers 512 samples to either side of t * HOP
    centres = np.arange(pixels.shape[1]) * HOP
    np.testing.assert_array_equal(striped, (centres + 512 > 3000) & (centres - 512 < 6000))
    assert {SHADES, SHADES + 1} <= set(pixels[:, striped].ravel()), "two colours, or it would be no stripe"


@pytest.mark.parametrize("fill", [0, np.nan])
def test_a_reference_that_is_silent_or_nan_leaves_the_scale_to_the_others(voice, fill):
    made = drawn(reference=np.full(voice.size, fill), voice=voice)
    assert made["about"] == "the loudest of all"
    assert shades(made["images"]["voice"]).max() == SHADES - 1


def test_an_envelope_has_the_smallest_and_the_largest_of_each_block_and_marks_what_is_not_finite():
    made = envelope(np.array([0.0, 0.5, -1.0, 0.25, np.inf, -0.25, 0.5]), 3)
    assert (made.block, made.peak) == (3, 1.0)
    # 127 times -1 and 0.5; broken; 0.5 alone
    assert made.values.tolist() == [-127, 64, BROKEN, BROKEN, 64, 64]
    assert np.frombuffer(base64.b64decode(made.text), np.int8).tolist() == made.values.tolist()
    made = [envelope(np.array(y), 2) for y in ([0.0] * 4, [np.nan] * 4, [0, np.nan], [0, 2e-7])]
    extents = ["exactly 0", "nowhere finite", "exactly 0 where it is finite", "at most 2e-7"]
    assert [one.extent for one in made] == extents
    assert [one.silent for one in made] == [True, False, False, False]
