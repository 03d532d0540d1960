import numpy as np
import pytest

from kokoro_nb.delivery.export import Delivery, deliver
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.listening.delivered import against_model

TEXT = "Hi."


@pytest.fixture(scope="module")
def speaker(narrow, tmp_path_factory):
    place = tmp_path_factory.mktemp("delivered") / "narrow"
    deliver(narrow, Delivery("onnxruntime", tokens=12, seconds=(1.5,)), place)
    return TwoStages(place)


def test_the_delivery_says_what_the_model_says(speaker, narrow):
    (told,) = against_model(speaker, narrow, [TEXT], ["seeded"])
    assert told.durations
    assert told.inputs <= 1e-5
    assert told.inputs == max(told.asr, told.f0, told.n)
    assert 0 < told.rounding <= 1e-5
    assert told.distance <= 1
    assert told.floor > 0


def test_another_voice_is_noticed(speaker, narrow, monkeypatch):
    table = speaker.table()
    monkeypatch.setattr(speaker, "table", lambda voice: np.roll(table, 1, axis=1))
    (told,) = against_model(speaker, narrow, [TEXT], ["seeded"])
    assert not told.durations or told.inputs > 1e-3


def test_other_durations_leave_no_figure(speaker, narrow, monkeypatch):
    predict = speaker.predict
    monkeypatch.setattr(speaker, "predict", lambda *given: predict(*given) | {"durations": np.array([1])})
    (told,) = against_model(speaker, narrow, [TEXT], ["seeded"])
    assert not told.durations
    assert np.isnan(told.inputs)
    assert np.isnan(told.distance)


def test_a_decoder_that_is_wrong_is_heard(speaker, narrow, monkeypatch):
    sound = speaker.sound
    monkeypatch.setattr(speaker, "sound", lambda given: 0.5 * sound(given))
    (told,) = against_model(speaker, narrow, [TEXT], ["seeded"])
    assert told.durations
    assert told.distance > 3
