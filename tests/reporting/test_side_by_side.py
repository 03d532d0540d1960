import base64
import io

import numpy as np
import pytest
import soundfile
import torch
from bs4 import BeautifulSoup

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.cells import sanitise
from kokoro_nb.reporting.side_by_side import BLOCKS, side_by_side

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
    with pytest.raises(InputError, match=match):
        side_by_side(versions, SR, reference)
