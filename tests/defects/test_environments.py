"""Defects in other environments: what is said of each, and what a user is advised."""

import sys

import pytest

from kokoro_nb.defects import defect, repro
from kokoro_nb.defects.environments import ComparedDefect, DefectOutcome, Environment, compare_environments, environment
from kokoro_nb.defects.other_environment import MARK
from kokoro_nb.errors import InputError

HAS = {"torch": "2.13.0", "numpy": "2.4.6", "safetensors": "0.8.0", "onnx": "1.23.2", "onnxscript": "0.7.2"}
GELU, UNSIGNED = "torch_gelu_infinity", "onnx_verification_unsigned"


def _place(python="python", **packages):
    return Environment(python, "3.11.7", "Linux", {**HAS, **packages})


def _compared(*columns):
    known = defect("onnx_log_sigmoid")
    places = tuple(_place(onnxruntime=version) for version, _ in columns)
    return ComparedDefect(known, places, tuple(DefectOutcome(outcome) for _, outcome in columns))


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        ([("1.31.1", "reproduced"), ("1.23.2", "reproduced")], "patch: the negative softplus of the opposite"),
        ([("1.31.1", "fixed"), ("1.23.2", "could not run")], "nothing to do"),
        ([("1.31.1", "not applicable"), ("1.23.2", "could not run")], "not judged in any environment"),
        ([("1.9.0", "reproduced"), ("1.31.1", "fixed")], "upgrade to onnxruntime 1.31.1, or patch: "),  # 31 is above 9
        ([("1.31.1", "reproduced"), ("1.23.2", "fixed")], "pin to onnxruntime 1.23.2, or patch: "),
        ([("1.31.1", "reproduced"), ("1.31.1", "fixed")], "(the versions are equal, and something else decides)"),
    ],
)
def test_the_advice_is_to_upgrade_to_pin_or_to_patch(columns, advice):
    assert advice in _compared(*columns).advice


def test_this_interpreter_runs_a_defect_in_a_process_of_its_own(measured):
    here = environment()
    (found,) = compare_environments([defect(UNSIGNED)], [here])
    (outcome,) = found.outcomes
    assert outcome.outcome == {"present": "reproduced", "gone": "fixed"}[measured(UNSIGNED).state]
    assert outcome.broken == measured(UNSIGNED).broken


def test_what_is_not_an_interpreter_is_refused(tmp_path):
    for python in (tmp_path / "absent", "/bin/true"):
        with pytest.raises(InputError, match="is not a Python interpreter that can be started"):
            environment(python)


def test_a_tool_that_is_not_there_is_named_and_nothing_is_run():
    (found,) = compare_environments([defect("tvm_ignored_alpha")], [_place("/bin/false")])
    assert found.outcomes == (DefectOutcome("not applicable", reason="apache-tvm is not installed there"),)


@pytest.fixture
def speaking(tmp_path):
    """An interpreter that says what it is told of the scripts that it is given, and ends with a status."""

    def make(script):
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\nimport json, sys\nscripts = sys.argv[3:]\n{script}")
        path.chmod(0o755)
        return _place(str(path), onnxruntime="1.31.1")

    return make


SAY = f"""
def say(**values):
    print({MARK!r} + json.dumps(values), flush=True)
def figure(script, *wrong):
    forms = [dict(wrong=one, error=0.5, seen="1", expected="2") for one in wrong]
    say(script=script, broken=forms[0], mended=forms[1])
"""


def test_what_ends_the_process_could_not_run_and_the_others_are_run_again(speaking):
    script = f"{SAY}\nfor script in scripts:\n    if {GELU!r} in script:\n        sys.exit(9)\n"
    script += "    figure(script, 1.0, 0.0)\n"
    names = [GELU, "onnx_atan2_nan", UNSIGNED]
    found = compare_environments([defect(name) for name in names], [speaking(script)])
    assert [one.outcomes[0].outcome for one in found] == ["could not run", "reproduced", "reproduced"]
    assert found[0].outcomes[0].reason == "the process ended with 9"
    assert found[1].outcomes[0].broken == repro.Figure(1.0, 0.5, "1", "2")


@pytest.mark.parametrize(
    ("forms", "outcome", "reason"),
    [
        ("figure(script, 1.0, 0.0)", "reproduced", ""),
        ("figure(script, 0.0, 0.0)", "fixed", "seen with AVX-512"),
        ("figure(script, 1.0, 1.0)", "could not run", "its control is wrong there as well"),
        ("say(script=script, broken=dict(raised='No: x'), mended={})", "could not run", "No: x"),
        ("say(missing='torch')", "could not run", "torch is not installed there"),
    ],
)
def test_what_is_said_of_a_defect(speaking, forms, outcome, reason):
    script = f"{SAY}\nfor script in scripts:\n    {forms}\n"
    (found,) = compare_environments([defect(GELU)], [speaking(script)])
    assert found.outcomes[0].outcome == outcome
    assert reason in found.outcomes[0].reason
