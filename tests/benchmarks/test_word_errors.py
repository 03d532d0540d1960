"""Word error rate in fewer bits: the small voice and the small ear, on one phrase."""

import pytest

from kokoro_nb.benchmarks import word_errors
from kokoro_nb.benchmarks.precision_programs import INT4, INT8, RUNTIME, STATIC
from kokoro_nb.benchmarks.subjects import BASE
from kokoro_nb.benchmarks.word_errors import ERROR_RATE, MEAN, MORE, WORST
from kokoro_nb.errors import InputError
from kokoro_nb.listening.phrases import phrases
from kokoro_nb.listening.transcript import Transcript
from kokoro_nb.models.kokoro import load_model


@pytest.fixture(scope="module")
def mini():
    return load_model("mini")


@pytest.fixture(scope="module")
def heard(mini, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artefacts")
    return {row["program"]: row for row in word_errors.measure(mini, [RUNTIME, STATIC, INT8, INT4], 1, folder=folder)}


def test_eager_comes_first_and_is_what_the_others_are_compared_with(heard):
    assert list(heard) == [BASE, RUNTIME, STATIC, INT8, INT4]
    assert [heard[BASE][name] for name in (MORE, MEAN, WORST)] == [0, 0, 0]


def test_the_small_ear_understands_the_small_voice_in_float32(heard):
    assert heard[BASE][ERROR_RATE] <= 20
    assert heard[RUNTIME][ERROR_RATE] == heard[BASE][ERROR_RATE]


def test_fewer_bits_are_further_away(heard):
    assert heard[RUNTIME][MEAN] < 0.01 < heard[INT8][MEAN] < heard[INT4][MEAN]
    assert heard[STATIC][MEAN] > heard[INT8][MEAN]


def test_words_that_are_lost_are_counted(mini, monkeypatch):
    monkeypatch.setattr(
        word_errors.PrecisionPrograms, "call", lambda self, name: (_silent if name == INT8 else _voiced, None)
    )
    monkeypatch.setattr(word_errors, "heard_in", lambda ear, audio, sr: [_transcript(each) for each in audio])
    eager, silent = word_errors.measure(mini, [INT8], 1)
    assert (eager[ERROR_RATE], silent[ERROR_RATE], silent[MORE]) == (0, 100, 100)


def _voiced(inputs):
    return inputs["f0"].repeat(1, 300).numpy()  # 600 samples of a frame, not silent


def _silent(inputs):
    return 0 * _voiced(inputs)


def _transcript(audio):
    return Transcript(phrases(1)[0] if audio.any() else "", -0.1, 0.0, 0.9)


@pytest.mark.parametrize("count", [0, 51])
def test_a_wrong_number_of_phrases_is_one_sentence(mini, count):
    with pytest.raises(InputError, match=f"{count} phrases are requested"):
        word_errors.measure(mini, [INT8], count)


def test_an_unknown_precision_is_one_sentence(mini):
    with pytest.raises(InputError, match="There is no precision 'int2'"):
        word_errors.measure(mini, ["int2"])
