from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import History, investigate
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.reporting.logbook import Logbook
from kokoro_nb.traces.statistics import compare
from tests.refusals import refused


@pytest.fixture
def log(tmp_path):
    return Logbook("02_x", "seeded", {}, tmp_path)


def row(candidate, drift=0.0):
    found = compare(np.ones(4), np.asarray(candidate, dtype=float))
    return SurveyRow("onnxruntime", climb=Climb("onnxruntime", drift=drift), eager32=found, eager64=found, floor=found)


def verdicts(log):
    return [(finding.kind, finding.verdict) for finding in log.findings if finding.diagnosis is None]


def test_all_checks_of_a_faithful_program(log):
    log.record(row([1, 1, 1, 1]), "The decoder", 1e-4)
    assert verdicts(log) == [("runs", "pass"), ("finite", "pass"), ("repeat", "pass"), ("parity", "pass")]
    log.record(row([1, 1, 1, 1.1], drift=None), "Without a limit and a repetition the decoder")
    assert verdicts(log)[4:] == [("runs", "pass"), ("finite", "pass")]
    assert len(verdicts(log)) == len(log.findings), "none is a wrong export"


@pytest.mark.parametrize(
    ("bad", "kind", "sick"),
    [
        (row([1, 1, 1, np.nan]), "finite", True),
        (row([1, 1, 1, 1], drift=1e-9), "repeat", False),
        (row([1, 1, 1, 1.1]), "parity", True),
        (SurveyRow("tvm", climb=Climb("tvm", Failure("tvm", "lowered", "E", "m"))), "runs", True),
    ],
)
def test_each_check_can_fail_and_what_is_beyond_its_limit_is_a_wrong_export(log, bad, kind, sick):
    log.record(bad, "The decoder", 1e-4)
    assert next(one for one in verdicts(log) if one[1] == "fail") == (kind, "fail")
    assert len([one for one in log.findings if one.diagnosis is not None]) == sick
    with pytest.raises(AssertionError, match="The decoder"):
        log.close()


def test_a_failure_names_the_line_where_it_is_known(log):
    message = 'no.\nOriginal traceback:\nFile "/net.py", line 7, in forward\n    return x.cumprod(1)\n'
    log.record(Failure("tvm", "lowered", "E", message), "The decoder")
    (found,) = [one for one in log.findings if one.diagnosis is None]
    assert found.reason.endswith("; at net.py:7, in forward: return x.cumprod(1)")


def test_several_rows_are_recorded_one_after_another_and_anything_else_is_refused(log):
    absent = SurveyRow("tvm", absent="not installed.")
    log.record([absent, absent])
    log.record({"first": absent})
    assert verdicts(log) == [("runs", "skip")] * 3
    log.record(SurveyRow("coreml", climb=Climb("coreml", unexecuted="needs macOS.")), "The decoder", 1e-4)
    assert verdicts(log)[3:] == [("built", "pass"), ("runs", "skip")]
    refused("No checks are known for a set", log.record, [{1}])


def test_an_investigation_says_that_tapping_and_history_change_nothing(log):
    weights = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval()
    given = {"input": torch.ones(2, 4)}
    found = investigate(export_program(weights, given), given, "eager")
    log.record({"eager": found})
    passed = [(kind, "pass") for kind in ("runs", "probe_effect", "history", "finite", "local_error")]
    assert verdicts(log) == passed
    log.record(replace(found, history=History({"zeros": 0.5})))
    assert [kind for kind, verdict in verdicts(log) if verdict == "fail"] == ["history"]
    with pytest.raises(AssertionError, match="after poisoned and constant ones"):
        log.close()


@pytest.mark.parametrize("verdict", ["pass", "unknown", "fail"])
def test_a_diagnosis_by_bisection_is_one_finding(log, verdict):
    given = ("tvm", "bisection", "a delegate", verdict, (), ":exp is wrong")
    log.record(Diagnosis(*given, bisection=Bisection("tvm", 2, "pass")), "The net")
    assert verdicts(log) == [("bisection", verdict)]
    if verdict == "fail":
        with pytest.raises(AssertionError, match=":exp is wrong"):
            log.close()


class Norm(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.instance_norm(x).sin()


def test_a_real_nan_is_recorded_with_operator_mechanism_and_both_errors(log):
    torch.manual_seed(0)
    given = {"x": 10 + 0.01 * torch.randn(1, 256, 3840)}
    log.record(diagnose(Norm(), given, "tvm-unfused"), "The norm")
    failed = {finding.kind: finding for finding in log.findings if finding.verdict == "fail"}
    assert set(failed) == {"diagnosis", "finite", "local_error", "divergence", "tracing"}
    assert all(finding.tap.startswith(":instance_norm") for finding in failed.values())
    named = failed["divergence"]
    assert "mechanism: one-pass variance; inherited error" in named.reason
    assert "test_record_checks.py:" in named.reason
    assert failed["diagnosis"].diagnosis["culprits"][0]["mechanism"]["name"] == "one-pass variance"
    cure = failed["diagnosis"].diagnosis["remedies"][-1]
    assert (cure["verdict"], cure["output before (of peak)"]) == ("pass", "nan"), "it is applied and measured"
    with pytest.raises(AssertionError, match=r"4 of 7 checks failed:\n- .*:instance_norm"):
        log.close()
