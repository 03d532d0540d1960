import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.padding.padded_text import padded_text


def test_told_the_length_the_text_is_what_it_is_without_padding(narrow, narrow_case):
    told = padded_text(narrow.model, narrow_case, 32)
    assert told.durations
    assert told.worst == max(told.d, told.t_en) <= 1e-5


def test_untold_the_padding_is_read(narrow, narrow_case):
    untold = padded_text(narrow.model, narrow_case, 32, told=False)
    assert untold.d > 1e-3
    assert untold.as_dict()["program"] == "untold"
    assert untold.as_dict()["d (of peak)"] == untold.d


def test_a_text_without_room_is_refused(narrow, narrow_case):
    with pytest.raises(InputError, match="give more room"):
        padded_text(narrow.model, narrow_case, 3)
