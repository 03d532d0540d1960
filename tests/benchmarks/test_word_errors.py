"""What a listener makes of fewer bits: the small voice and the small ear, on one phrase."""

import math

import pytest

from kokoro_nb.benchmarks import word_errors
from kokoro_nb.benchmarks.decoders import BASE
from kokoro_nb.benchmarks.reduction import INT4, INT8, RUNTIME, STATIC
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
    return {row.program: row for row in word_errors.measure(mini, [RUNTIME, STATIC, INT8, INT4], 1, folder=folder)}


def test_eager_comes_first_and_is_what_the_others_are_held_against(heard):
    assert list(heard) == [BASE, RUNTIME, STATIC, INT8, INT4]
    assert (heard[BASE].points, heard[BASE].distance, heard[BASE].furthest) == (0, 0, 0)


def test_the_small_ear_understands_the_small_voice_in_float32(heard):
    assert heard[BASE].error_rate <= 0.2
    assert heard[RUNTIME].error_rate == heard[BASE].error_rate


def test_fewer_bits_are_further_away(heard):
    assert heard[RUNTIME].distance < 0.01 < heard[INT8].distance < heard[INT4].distance
    assert heard[STATIC].distance > heard[INT8].distance


def test_words_that_are_lost_are_counted(mini, monkeypatch):
    monkeypatch.setattr(word_errors.Reduction, "call", lambda self, name: (_silent if name == INT8 else _told, None))
    monkeypatch.setattr(word_errors, "heard_in", lambda ear, audio, sr: [_transcript(each) for each in audio])
    eager, silent = word_errors.measure(mini, [INT8], 1)
    assert (eager.error_rate, silent.error_rate, silent.points) == (0, 1, 100)


def _told(inputs):
    return inputs["f0"].repeat(1, 300).numpy()  # 600 samples of a frame, not silent


def _silent(inputs):
    return 0 * _told(inputs)


def _transcript(audio):
    return Transcript(phrases(1)[0] if audio.any() else "", -0.1, 0.0, 0.9)


def test_the_row_of_a_table_tells_percent():
    row = word_errors.Understood(INT8, 0.25, 12.5, 0.5, 0.7, 4).as_dict()
    assert (row["word error rate (%)"], row["points more"], row["phrases"]) == (25, 12.5, 4)
    assert not any(math.isnan(each) for each in row.values() if isinstance(each, float))


@pytest.mark.parametrize("count", [0, 51])
def test_a_wrong_number_of_phrases_is_one_sentence(mini, count):
    with pytest.raises(InputError, match=f"{count} phrases are asked for"):
        word_errors.measure(mini, [INT8], count)


def test_an_unknown_precision_is_one_sentence(mini):
    with pytest.raises(InputError, match="There is no precision 'int2'"):
        word_errors.measure(mini, ["int2"])
