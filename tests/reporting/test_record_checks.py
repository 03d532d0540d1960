from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.errors import InputError
from kokoro_nb.locate import diagnose, investigate
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.locate.tapping import History
from kokoro_nb.reporting.logbook import Logbook
from kokoro_nb.reporting.record_checks import _diagnosis
from kokoro_nb.traces.parity import compare


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
    log.record(row([1, 1, 1, 1 + 2**-13]), "At the limit the decoder", 2**-13)
    assert len(verdicts(log)) == len(log.findings) == 8, "none is a sick export"


def test_what_was_not_measured_is_no_check(log):
    log.record(row([1, 1, 1, 1.1], drift=None), "The decoder")
    assert [(one.kind, one.verdict) for one in log.findings] == [("runs", "pass"), ("finite", "pass")]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (row([1, 1, 1, np.nan]), "finite"),
        (row([1, 1, 1, 1], drift=1e-9), "repeat"),
        (row([1, 1, 1, np.nan], drift=np.nan), "finite"),
        (row([1, 1, 1, 1.1]), "parity"),
        (SurveyRow("onnxruntime", climb=Climb("onnxruntime", Failure("onnxruntime", "lowered", "E", "m"))), "runs"),
    ],
)
def test_each_check_can_fail(log, bad, kind):
    log.record(bad, "The decoder", 1e-4)
    assert next(one for one in verdicts(log) if one[1] == "fail") == (kind, "fail")
    with pytest.raises(AssertionError, match="The decoder"):
        log.close()


def test_what_is_beyond_the_limit_is_a_sick_export(log):
    log.record(row([1, 1, 1, 1.1]), "The decoder", 1e-4)
    assert len([one for one in log.findings if one.diagnosis is not None]) == 1


def test_what_is_not_finite_is_a_sick_export_without_a_limit_too(log):
    log.record(row([1, 1, 1, np.nan]), "The decoder")
    assert [one.verdict for one in log.findings if one.diagnosis is not None] != []
    assert ("finite", "fail") in verdicts(log)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("nobody has seen this", ""),
        ("Unsupported function types ['cumprod.default']", "; operator: cumprod.default"),
        (
            'no.\nOriginal traceback:\nFile "/net.py", line 7, in forward\n    return x.cumprod(1)\n',
            "; at net.py:7, in forward: return x.cumprod(1)",
        ),
    ],
)
def test_a_failure_names_operator_and_line_where_they_are_known(log, message, reason):
    failure = Failure("tvm", "lowered", "E", message)
    log.record(failure, "The decoder")
    (found,) = [one for one in log.findings if one.diagnosis is None]
    assert (found.verdict, found.reason) == ("fail", f"{failure}{reason}")


def test_an_absent_runtime_is_one_skip(log):
    log.record(SurveyRow("tvm", absent="not installed."), "The decoder", 1e-4)
    assert verdicts(log) == [("runs", "skip")]


def test_what_is_built_for_another_machine_is_built_and_its_run_a_skip(log):
    built = Climb("tvm-metal", unexecuted="needs Metal.")
    log.record(SurveyRow("tvm-metal", climb=built), "The decoder", 1e-4)
    assert verdicts(log) == [("built", "pass"), ("runs", "skip")]


def test_several_rows_are_recorded_one_after_another_and_anything_else_is_refused(log):
    absent = SurveyRow("tvm", absent="not installed.")
    log.record([absent, absent])
    log.record({"first": absent})
    assert verdicts(log) == [("runs", "skip")] * 3
    with pytest.raises(InputError, match="No checks are known for a set"):
        log.record([{1}])


def test_an_investigation_says_that_tapping_and_history_change_nothing(log):
    weights = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval()
    given = {"input": torch.ones(2, 4)}
    found = investigate(export_program(weights, given), given, "eager")
    log.record({"eager": found})
    passed = [(kind, "pass") for kind in ("runs", "probe_effect", "history", "finite", "local_error")]
    assert verdicts(log) == passed
    log.record(diagnose(weights, given, "eager", method="tracing"))
    assert verdicts(log) == passed * 2
    spoilt = replace(found, history=History({"zeros": 0.5}))
    log.record(spoilt)
    assert [kind for kind, verdict in verdicts(log) if verdict == "fail"] == ["history"]
    with pytest.raises(AssertionError, match="after poisoned and constant ones"):
        log.close()


@pytest.mark.parametrize(("verdict", "recorded"), [("pass", "pass"), ("unknown", "unknown")])
def test_a_diagnosis_by_bisection_is_one_finding(tmp_path, verdict, recorded):
    log = Logbook("01_x", "mini", {}, tmp_path)
    given = ("tvm", "bisection", "a delegate", verdict, (), "what was found")
    found = Diagnosis(*given, bisection=Bisection("tvm", 2, ()), output=SimpleNamespace(verdict=verdict))
    log.record(found, "The net")
    assert [(one.kind, one.verdict) for one in log.findings] == [("bisection", recorded)]


def test_where_parts_were_compiled_after_a_trace_their_answer_is_recorded(log):
    given = ("tvm", "bisection", "a delegate", "pass", (), "each part is right")
    log.record(Diagnosis(*given, investigation=SimpleNamespace(), bisection=Bisection("tvm", 2, ())), "The net")
    assert verdicts(log) == [("bisection", "pass")]


def _diagnosed(**known):
    """Return with which target a card was made of a diagnosis by bisection, and whether remedies were tried."""
    tried, cards = [], []
    about = {
        **{"failure": None, "verdict": "fail", "output": SimpleNamespace(verdict="fail"), "bisection": "parts"},
        **{"culprits": ("one",), "subject": "a module", "remedies": (), "ranked": (), "investigation": None},
        **{"method": "bisection", "backend": "tvm", "statement": "one is wrong", "why": "it is not known"},
    }
    found = SimpleNamespace(**about | known)
    found.try_remedies = lambda: tried.append(found) or found
    quiet = dict.fromkeys(("claim", "note"), lambda *given: None)
    log = SimpleNamespace(diagnosis=lambda given, name: cards.append(name), weights="none", **quiet)
    _diagnosis(found, log, "The net", None)
    return cards, bool(tried)


@pytest.mark.parametrize("known", [{"culprits": ()}, {"subject": None}, {"remedies": ("tried",)}, {"output": None}])
def test_remedies_are_tried_once_and_where_there_is_what_to_cure(known):
    assert _diagnosed() == (["The net"], True)
    assert _diagnosed(**known) == (["The net"], False)


def test_a_diagnosis_by_bisection_that_names_an_operator_fails(tmp_path):
    log = Logbook("01_x", "mini", {}, tmp_path)
    found = Diagnosis("tvm", "bisection", "a delegate", "fail", (), ":exp is wrong", bisection=Bisection("tvm", 2, ()))
    log.record(found, "The net")
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
    for finding in failed.values():
        assert finding.tap.startswith(":instance_norm"), finding.kind
    named = failed["divergence"]
    assert "is the first operator that is wrong" in named.statement
    assert "mechanism: one-pass variance; inherited error" in named.reason
    assert "test_record_checks.py:" in named.reason
    assert failed["diagnosis"].diagnosis["culprits"][0]["mechanism"]["name"] == "one-pass variance"
    cure = failed["diagnosis"].diagnosis["remedies"][-1]
    assert (cure["verdict"], cure["output before (of peak)"]) == ("pass", "nan"), "it is applied and measured"
    with pytest.raises(AssertionError, match=r"4 of 7 checks failed:\n- .*:instance_norm"):
        log.close()
