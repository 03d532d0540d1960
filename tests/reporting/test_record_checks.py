from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate import investigate
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.locate.tapping import History
from kokoro_nb.reporting.logbook import Logbook
from kokoro_nb.reporting.record_checks import _culprits, _diagnosis
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
    log.record(row([1, 1, 1, 1.1], drift=None), "Without a limit and a repetition the decoder")
    assert verdicts(log)[8:] == [("runs", "pass"), ("finite", "pass")]
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


def test_several_rows_are_recorded_one_after_another_and_anything_else_is_refused(log):
    absent = SurveyRow("tvm", absent="not installed.")
    log.record([absent, absent])
    log.record({"first": absent})
    assert verdicts(log) == [("runs", "skip")] * 3
    log.record(SurveyRow("tvm-metal", climb=Climb("tvm-metal", unexecuted="needs Metal.")), "The decoder", 1e-4)
    assert verdicts(log)[3:] == [("built", "pass"), ("runs", "skip")]
    log.record(row([1, 1, 1, np.nan]), "The decoder")
    assert ("finite", "fail") in verdicts(log)
    assert log.findings[-3].diagnosis is not None, "without a limit, too, it is a wrong export"
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


@pytest.mark.parametrize(("verdict", "traced"), [("pass", SimpleNamespace()), ("unknown", None), ("fail", None)])
def test_a_diagnosis_by_bisection_is_one_finding_after_a_trace_too(log, verdict, traced):
    given = ("tvm", "bisection", "a delegate", verdict, (), ":exp is wrong")
    parts = {"bisection": Bisection("tvm", 2, "pass"), "investigation": traced}
    log.record(Diagnosis(*given, **parts), "The net")
    assert verdicts(log) == [("bisection", verdict)]
    if verdict == "fail":
        with pytest.raises(AssertionError, match=":exp is wrong"):
            log.close()


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


def test_the_first_operator_and_the_one_with_the_largest_effect_are_recorded_once_each(log):
    first, largest = (
        SimpleNamespace(
            tap=SimpleNamespace(name=name),
            mechanism=SimpleNamespace(name="another constant"),
            finding=lambda weights, name=name: Finding("divergence", "fail", f"{name} is wrong", weights),
            **{"inherited_error": None, "effect": effect, "source": "", "reason": ""},
        )
        for name, effect in (("a:mul", 0.1), ("b:add", 0.9))
    )
    for ranked in ((largest, first), (first, largest)):
        _culprits(SimpleNamespace(culprits=(first, largest), ranked=ranked), log)
    assert [one.statement[:5] for one in log.findings] == ["a:mul", "b:add", "a:mul"]
    assert log.findings[1].reason == "mechanism: another constant; 90 % of the output's error"


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
