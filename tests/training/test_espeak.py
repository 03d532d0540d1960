import time

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.training.espeak import speak

TEXT = "The old chair is joyful, and the water was cold."


@pytest.mark.parametrize("voice", ["en-us", "en-us+f3"])
def test_events_are_in_order_and_cover_the_audio(voice):
    speech = speak(TEXT, voice)
    assert speech.audio.dtype == np.float32
    assert speech.boundaries[0] == 0
    assert speech.boundaries[-1] == len(speech.audio)
    assert (np.diff(speech.boundaries) >= 0).all()
    assert len(speech.boundaries) == len(speech.phonemes) + 1
    assert "".join(speech.phonemes).startswith("ðɪˈoʊldtʃ")


def test_the_events_stand_where_the_sound_is():
    speech = speak("so", rate=100)
    s, vowel = speech.phonemes.index("s"), speech.phonemes.index("ˈoʊ")
    crossings = {
        i: np.mean(np.diff(np.signbit(speech.audio[speech.boundaries[i] : speech.boundaries[i + 1]])))
        for i in (s, vowel)
    }
    assert crossings[s] > 3 * crossings[vowel], "a fricative crosses zero far more often than a vowel"


def test_the_same_text_gives_the_same_samples():
    first = speak(TEXT, "en-us+f3")
    speak("Something else in between.", "en-us", rate=300, pitch=90)
    time.sleep(1.1)  # espeak would seed itself by the second
    second = speak(TEXT, "en-us+f3")
    np.testing.assert_array_equal(first.audio, second.audio)
    np.testing.assert_array_equal(first.boundaries, second.boundaries)


def test_rate_pitch_and_voice_are_heard():
    plain = speak(TEXT)
    assert len(speak(TEXT, rate=300).audio) < 0.8 * len(plain.audio)
    assert not np.array_equal(speak(TEXT, pitch=90).audio[:10000], plain.audio[:10000])
    assert not np.array_equal(speak(TEXT, "en-us+f3").audio[:10000], plain.audio[:10000])


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="no voice 'xx-none'"):
        speak(TEXT, "xx-none")
    with pytest.raises(InputError, match="nothing to say"):
        speak("  ")
    with pytest.raises(InputError, match="rate=20"):
        speak(TEXT, rate=20)
