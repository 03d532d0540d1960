import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.padding.padded_text import text_in_buffer


def test_given_the_length_the_text_is_what_it_is_without_padding(narrow, narrow_case):
    found = text_in_buffer(narrow.model, narrow_case, 32)
    assert found.durations
    assert found.worst == max(found.d, found.t_en) <= 1e-5


def test_without_the_length_the_padding_is_read(narrow, narrow_case):
    found = text_in_buffer(narrow.model, narrow_case, 32, given_length=False)
    assert found.d > 1e-3
    assert found.as_dict()["program"] == "not given the length"
    assert found.as_dict()["d (of peak)"] == found.d


def test_a_text_without_room_is_refused(narrow, narrow_case):
    with pytest.raises(InputError, match="give more room"):
        text_in_buffer(narrow.model, narrow_case, 3)
