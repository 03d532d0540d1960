"""What 05 says of a listener that learnt from people."""

from types import SimpleNamespace

import numpy as np
import pytest
from training.espeak import speak

from kokoro_nb.studies.waveform_spectrum import PACKAGE
from kokoro_nb.studies.whisper.known_sentences import known_sentences
from kokoro_nb.studies.whisper.phrase_versions import PhraseVersions

TEXTS = ("he sleeps often", "susan falls")


@pytest.fixture(scope="module")
def heard():
    own = [speak(text, "en-us", 150).audio for text in TEXTS]
    audio = {PACKAGE: own, "swapped": [np.resize(own[1], own[0].size), np.resize(own[0], own[1].size)]}
    controls = {"backwards (control)": [y[::-1] for y in own]}
    return known_sentences(
        PhraseVersions(tuple(SimpleNamespace(text=text) for text in TEXTS), audio, own, controls, {})
    )


def test_an_export_that_says_another_sentence_is_seen(heard):
    assert heard.choices == 50
    assert heard.shares == {PACKAGE: 1.0, "swapped": 0.0, "backwards (control)": 0.0}
    assert heard.understood
    rows = heard.rows()
    assert [row["version"] for row in rows] == [PACKAGE, "swapped", "backwards (control)"]
    assert rows[1]["STOI against the package (0 to 1)"] < 0.7


def test_a_text_that_the_recogniser_cannot_know_is_a_reason():
    y = [np.ones(24_000, np.float32)]
    made = PhraseVersions((SimpleNamespace(text="zzyzx"),), {PACKAGE: y}, y, {}, {})
    assert known_sentences(made).reason == "the recogniser has no pronunciation of zzyzx"
    assert not known_sentences(made).understood
