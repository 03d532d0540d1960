import numpy as np
import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.locate.survey import Row
from kokoro_nb.reporting.logbook import Logbook
from kokoro_nb.reporting.record_checks import record
from kokoro_nb.traces.parity import compare


@pytest.fixture
def log(tmp_path):
    return Logbook("02_x", "seeded", {}, tmp_path)


def row(candidate, drift=0.0):
    found = compare(np.ones(4), np.asarray(candidate, dtype=float))
    return Row("onnxruntime", climb=Climb("onnxruntime", drift=drift), eager32=found, eager64=found, floor=found)


def verdicts(log):
    return [(finding.kind, finding.verdict) for finding in log.findings]


def test_all_checks_of_a_faithful_program(log):
    record(log, row([1, 1, 1, 1]), "The decoder", 1e-4)
    assert verdicts(log) == [("runs", "pass"), ("finite", "pass"), ("repeat", "pass"), ("parity", "pass")]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (row([1, 1, 1, np.nan]), "finite"),
        (row([1, 1, 1, 1], drift=1e-9), "repeat"),
        (row([1, 1, 1, np.nan], drift=np.nan), "finite"),
        (row([1, 1, 1, 1.1]), "parity"),
        (Row("onnxruntime", climb=Climb("onnxruntime", Failure("onnxruntime", "lowered", "E", "m"))), "runs"),
    ],
)
def test_each_check_can_fail(log, bad, kind):
    with pytest.raises(AssertionError, match="The decoder"):
        record(log, bad, "The decoder", 1e-4)
    assert verdicts(log)[-1] == (kind, "fail")


def test_an_absent_runtime_is_one_skip(log):
    record(log, Row("tvm", absent="not installed."), "The decoder", 1e-4)
    assert verdicts(log) == [("runs", "skip")]


def test_what_is_built_for_another_machine_is_built_and_its_run_a_skip(log):
    built = Climb("tvm-metal", unexecuted="needs Metal.")
    record(log, Row("tvm-metal", climb=built), "The decoder", 1e-4)
    assert verdicts(log) == [("built", "pass"), ("runs", "skip")]
