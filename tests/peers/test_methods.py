"""What each peer says is what it says as it is shipped, its mistakes included."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from kokoro_nb.studies.localisation import TracePair
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap, Trace

_SPEC = importlib.util.spec_from_file_location("peers_methods", Path(__file__).with_name("methods.py"))
peers = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(peers)
PEERS = peers.PEERS
HEALTHY = np.linspace(1, 2, 100, dtype=np.float32).reshape(1, 5, 20)


def _trace(**values):
    taps = [
        Tap(Operator(name, "aten.mul.Tensor", "", (), value.shape, str(value.dtype)), describe(value), value)
        for name, value in values.items()
    ]
    return Trace("eager", tuple(taps))


def _spoilt(index, value):
    array = HEALTHY.copy()
    array.reshape(-1)[index] = value
    return array


def _named(**values):
    """Return what each peer names when the healthy tensors a, b and c are replaced by these."""
    view = TracePair(
        _trace(a=HEALTHY, b=HEALTHY, c=HEALTHY), _trace(**{"a": HEALTHY, "b": HEALTHY, "c": HEALTHY, **values})
    )
    return {name: "".join(method(view)) for name, method in PEERS.items()}


def test_nobody_names_anything_in_a_healthy_run():
    assert set(_named().values()) == {""}


def test_everybody_names_an_error_at_the_front_that_does_not_grow():
    validate = "polygraphy --validate"  # looks for NaN and infinity alone
    assert _named(b=_spoilt(0, 9)) == {name: "" if name == validate else "b" for name in PEERS}


def test_head_and_tail_miss_what_is_between():
    named = _named(b=_spoilt(50, 9), c=_spoilt(0, 9))
    assert named["head and tail"] == "c"
    assert named["first difference"] == named["polygraphy run"] == "b"


def test_the_largest_error_is_where_an_error_grows():
    named = _named(b=_spoilt(50, 3), c=HEALTHY * 5)
    largest = ["largest output error", "numeric gap, MSE", "numeric gap, L1", "numeric gap, SNR"]
    assert {named[name] for name in largest} == {"c"}
    assert named["first difference"] == "b"


def test_nan_is_taken_for_zero_by_the_numeric_gap_and_for_nothing_by_the_verification():
    named = _named(b=_spoilt(0, np.nan), c=_spoilt(0, 9))
    assert named["numeric gap, MSE"] == named["numeric gap, L1"] == named["numeric gap, SNR"] == "c"
    assert named["torch.onnx.verification"] == "c"
    assert named["polygraphy --validate"] == named["largest output error"] == named["head and tail"] == "b"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_validate_names_what_is_not_finite(value):
    assert _named(b=_spoilt(0, value))["polygraphy --validate"] == "b"


def test_what_was_not_captured_is_not_compared():
    view = TracePair(_trace(a=HEALTHY, b=HEALTHY), _trace(b=HEALTHY * 2))
    assert PEERS["first difference"](view) == ("b",)
