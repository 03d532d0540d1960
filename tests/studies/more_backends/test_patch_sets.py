"""The control of 23: what the unpatched decoder has to show."""

import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.studies.more_backends.patch_sets import PatchSets
from kokoro_nb.traces.parity import Parity

FAR = Parity(1.0, 1.0, 0.36, 8.0, 0.9)  # two right runtimes are as far apart: the phase of the source turns
FELL = Failure("onnxruntime", "lowered", "RuntimeError", "complex numbers")


@pytest.mark.parametrize(
    ("taken", "unfit"),
    [
        (
            Climb("onnxruntime", drift=0.0),
            False,
        ),  # it gives the same audio at each call: passed before, by its distance
        (Climb("onnxruntime", drift=None), False),  # one call shows nothing
        (Climb("onnxruntime", drift=0.1), True),
        (Climb("onnxruntime", drift=float("nan")), True),
        (Climb("onnxruntime", FELL), True),
    ],
)
def test_a_decoder_that_needs_no_patch_is_no_control(taken, unfit):
    row = SurveyRow("onnxruntime", climb=taken, eager32=FAR, eager64=FAR, floor=FAR)
    absent = SurveyRow("tvm", absent="not installed")
    assert PatchSets({"none": (row, absent), "all": (row,)}).unfit() == {"onnxruntime": unfit}


def test_what_is_built_for_another_machine_shows_nothing():
    built = SurveyRow("coreml", climb=Climb("coreml", unexecuted="no Mac"))
    assert PatchSets({"none": (built,)}).unfit() == {}
