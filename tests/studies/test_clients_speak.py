"""What 20 says of what its clients said; the notebook has them say it."""

import numpy as np

from kokoro_nb.studies.clients import agreement

RIGHT = {"durations": "equal", "dB from the same har": 110.0, "between stages": "float32"}


def accepted(between, durations):
    rows = [RIGHT, RIGHT | {"durations": durations, "between stages": between}]
    return [agreement(rows, one)[0] for one in ("float32", "float16")]


def test_what_float16_explains_is_accepted_where_float16_is_handed_on_alone():
    assert accepted("float32", "equal") == [True, False]
    assert accepted("float32", "other") == [False, False]
    assert accepted("float32", "equal after float16") == [False, False]
    assert accepted("float16", "equal after float16") == [True, True]
    assert accepted("float16", "other") == [True, False]


def test_one_wrong_client_makes_the_whole_wrong():
    assert agreement([RIGHT], "float32")[1] == 110
    assert np.isnan(agreement([RIGHT, RIGHT | {"dB from the same har": float("nan")}], "float32")[1])
