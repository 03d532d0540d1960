import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from whisper.tokenizer import get_tokenizer

from kokoro_nb.errors import InputError
from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.listening.transcript import Transcript, doubts, is_speech, transcribe, word_error_rate
from tests.listening.conftest import whisper_checkpoint, whisper_parrot


def loaded(content, path):
    torch.save(content, path)
    return load_whisper(path)


@pytest.fixture
def noise():
    return np.random.default_rng(0).normal(0, 0.1, 24_000)


@pytest.fixture(scope="module")
def parrot(tmp_path_factory):
    tokens = get_tokenizer(False)
    start = tokens.timestamp_begin
    # <|0.00|> hello world <|0.80|> and the end
    said = [start, *tokens.encode(" hello world"), start + 40, tokens.eot, tokens.eot]
    path = tmp_path_factory.mktemp("parrot") / "parrot.pt"
    torch.save(whisper_parrot(said), path)
    return path


@pytest.fixture(scope="module")
def spoken(parrot):
    return load_whisper(parrot)


def test_a_checkpoint_is_loaded_and_its_words_come_through(spoken, noise):
    heard = transcribe(spoken, noise, 24_000, words=True)
    assert heard.text == "hello world"
    assert heard.avg_logprob > -0.1
    assert heard.no_speech_prob < 0.1
    assert is_speech(heard)
    assert word_error_rate("Hello, world!", heard) == 0
    assert word_error_rate("Hello, wide world!", heard) == pytest.approx(1 / 3)
    assert [word.text for word in heard.words] == ["hello", "world"]
    assert all(0 <= word.start <= word.end <= 1 for word in heard.words)
    plain = transcribe(spoken, noise, 24_000)
    assert plain == transcribe(spoken, noise, 24_000), "twice gives the same"


def test_silence_is_not_shown_to_the_model_and_nan_is_refused(spoken, noise):
    heard = transcribe(spoken, np.zeros(24_000), 24_000)
    assert heard.text == ""
    assert doubts(heard) == ("no words were heard",)
    assert math.isnan(word_error_rate("hello world", heard))
    noise[0] = np.nan
    with pytest.raises(InputError, match=r"99\.99 % finite and cannot be transcribed"):
        transcribe(spoken, noise, 24_000)


def test_the_threads_of_pytorch_stay_as_they_are(parrot):
    script = f"""
import numpy as np, torch
from kokoro_nb.listening.recogniser import load_whisper
from kokoro_nb.listening.transcript import transcribe
torch.set_num_threads(7)
noise = np.random.default_rng(0).normal(0, 0.1, 24_000)
heard = transcribe(load_whisper({str(parrot)!r}), noise, 24_000, words=True)
print(len(heard.words), torch.get_num_threads())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "7"], "numba begins its threads once in a process"


def test_random_weights_and_a_repetition_are_not_believed(tmp_path, noise):
    heard = transcribe(loaded(whisper_checkpoint(), tmp_path / "tiny.pt"), noise, 24_000)
    assert not is_speech(heard)
    assert math.isnan(word_error_rate("hello world", heard))
    tokens = get_tokenizer(False)
    stutter = whisper_parrot([tokens.timestamp_begin, *tokens.encode(" you") * 40])
    heard = transcribe(loaded(stutter, tmp_path / "stutter.pt"), noise, 24_000)
    assert heard.text.startswith("you you you")
    assert heard.avg_logprob > -1
    assert "the compression ratio is" in doubts(heard)[0]


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        *(((-0.2, 0.61, 1.0), "no speech"), ((-1.01, 0.1, 1.0), "log probability"), ((-0.2, 0.1, 2.41), "compression")),
        *(((math.nan, 0.1, 1.0), "log probability"), ((-0.2, math.nan, 1.0), "no speech")),
    ],
)
def test_each_doubt_is_enough(figures, reason):
    assert is_speech(Transcript("hello", -1.0, 0.6, 2.4))
    (doubt,) = doubts(Transcript("hello", *figures))
    assert reason in doubt
    assert not is_speech(Transcript("hello", *figures))


def test_error_rates():
    # 1 substitution and 1 insertion over 4 words
    assert word_error_rate("the cat sat down", "the hat sat down there") == 0.5
    assert word_error_rate("the cat", "") == 1
    assert word_error_rate("It's twenty five dollars.", "it is $25") == 0
    for empty in ("", "..."):
        with pytest.raises(InputError, match="no word in the reference"):
            word_error_rate(empty, "hello")
