import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.studies import padding
from kokoro_nb.studies.padding import decoder_in_buffers, on_runtime, text_in_buffer


def test_with_the_length_a_runtime_computes_what_it_computes_without_padding(narrow, narrow_case):
    found = on_runtime(narrow.model, narrow_case, "eager", 6, 12, calls=1)
    assert found.errors["plain"] == 0
    assert found.errors["exact"] <= 1e-5 < found.errors["naive"]
    assert found.as_dict()["naive: error (of peak)"] == found.errors["naive"]


def test_an_absent_runtime_has_a_reason_and_no_figures(narrow, narrow_case, monkeypatch):
    monkeypatch.setattr(padding, "survey", lambda *_: (SurveyRow("broken", absent="it is not installed"),))
    found = on_runtime(narrow.model, narrow_case, "broken", 6, 12)
    assert found.as_dict() == {"backend": "broken", "not measured": "SKIP: it is not installed"}


def test_a_text_without_room_and_an_unknown_noise_are_refused(narrow, narrow_case):
    with pytest.raises(InputError, match="no noise 'pink'; use one of gaussian, zero, tonal, signal"):
        decoder_in_buffers(narrow.model, narrow_case, 6, [12], kinds=["pink"])
    with pytest.raises(InputError, match="give more room"):
        text_in_buffer(narrow.model, narrow_case, 3)
