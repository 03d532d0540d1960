"""The padded tail of a buffer."""

import numpy as np
import pytest

from kokoro_nb.studies.validate_steps.walks import Tail, tail_of, valid_part


def test_a_tail_in_numbers():
    value = np.array([[1.0, 2.0, 0.0, np.nan, -3.0]])
    assert tail_of("audio", np.zeros((1, 600)), {"frames": 1, "tokens": 1}) is None
    assert valid_part("pred_dur", value, {"tokens": 2}).tolist() == [[1.0, 2.0]]
    tail = tail_of("pred_dur", value, {"tokens": 2})
    assert (tail.elements, tail.nonzero, tail.finite) == (3, pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert np.isnan(tail.peak)
    assert tail_of("pred_dur", value[:, :3], {"tokens": 2}) == Tail(1, 0.0, 1.0, 0.0)
    # both axes: all but the corner that is valid
    assert tail_of("alignment", np.ones((1, 2, 3)), {"tokens": 1, "frames": 2}).elements == 4
