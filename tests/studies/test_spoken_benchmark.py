"""What 19 says of the speech that it times; what the comparison itself sees is in tests/studies/two_stage_npu."""

import pytest

from kokoro_nb.studies.two_stage_npu.agreement import INPUTS_LIMIT, TextAgreement

NAN = float("nan")


@pytest.mark.parametrize(
    ("inputs", "distance", "right"),
    [
        (1e-6, 0.3, [True, True]),
        (1e-6, 3.5, [True, False]),  # half as loud again: the length was right, and nothing else was looked at
        (1e-3, 0.3, [False, True]),
        (NAN, NAN, [False, False]),  # other durations
    ],
)
def test_speech_of_the_right_length_that_says_something_else_is_seen(inputs, distance, right):
    spoken = TextAgreement("A dog.", "", 20, True, 1e-7, inputs, 1e-7, 1e-6, distance, 0.2)
    assert [spoken.inputs <= INPUTS_LIMIT, spoken.distance <= spoken.distance_limit] == right
    assert spoken.determined
    assert (INPUTS_LIMIT, spoken.distance_limit) == (2e-5, 1.0)


def test_a_spectrum_that_says_nothing_is_not_checked():
    spoken = TextAgreement("A dog.", "", 20, True, 1e-7, 1e-6, 1e-7, 1e-6, 4.2, 4.0)
    assert not spoken.determined
