"""What 20 says of what its clients said; the notebook has them say it."""

import numpy as np
import pytest

from kokoro_nb.studies.clients import ClientSpeech


def speech(between, durations, level=115.0):
    right = {"durations": "equal", "dB from the same har": 110.0, "between stages": "float32"}
    other = {"durations": durations, "dB from the same har": level, "between stages": between}
    return ClientSpeech({}, [right, other], {})


@pytest.mark.parametrize(
    ("between", "durations", "equal", "explained"),
    [
        ("float32", "equal", True, False),
        ("float32", "other", False, False),
        ("float32", "equal after float16", False, False),
        ("float16", "equal after float16", True, True),
        ("float16", "other", True, False),
    ],
)
def test_what_float16_explains_is_accepted_where_float16_is_handed_on_alone(between, durations, equal, explained):
    found = speech(between, durations)
    assert (found.durations_equal, found.durations_explained) == (equal, explained)


def test_one_wrong_client_makes_the_whole_wrong():
    assert speech("float32", "equal").worst == 110
    assert np.isnan(speech("float32", "other", float("nan")).worst)


def test_versions_of_another_length_stand_by_themselves():
    versions = {"PyTorch": np.zeros(8), "short": np.zeros(6), "also": np.zeros(8)}
    assert [list(group) for group in ClientSpeech(versions, [], {}).of_one_length] == [["PyTorch", "also"], ["short"]]
