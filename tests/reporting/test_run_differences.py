import json

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.findings import Finding, write_findings
from kokoro_nb.reporting.differences import compare_runs
from tests.refusals import refused

ABOUT = {
    "notebook": "03_x",
    "weights": "narrow",
    "commit": "a",
    "parameters": {"frames": 8},
    "versions": {"torch": "2"},
}


def _finding(kind, verdict="pass", value=1.0, relation="<=", **more):
    reason = "why" if verdict in ("skip", "unknown") else ""
    return Finding(
        kind, verdict, f"About {kind}.", "narrow", "eager", value, 10.0, "dB", reason=reason, relation=relation, **more
    )


@pytest.fixture
def runs(tmp_path):
    """Return a function that writes one run and gives its folder."""

    def write(name, findings, **about):
        (tmp_path / name / "03_x").mkdir(parents=True)
        write_findings(tmp_path / name / "03_x" / "findings.json", findings, **(ABOUT | about))
        return tmp_path / name

    return write


def test_every_kind_of_change_and_its_order(runs):
    pairs = {  # before, and after it: None where it is not there
        "new": (None, {}),
        "same": ({}, {"value": 1.9}),  # less than twice
        "worse": ({}, {"value": 2.1}),
        "lower": ({"relation": ">="}, {"value": 0.4, "relation": ">="}),
        "better": ({"value": 8.0}, {}),
        "regressed": ({}, {"verdict": "fail", "value": 11.0}),
        "unknown": ({}, {"verdict": "unknown", "value": None}),
        "skipped": ({}, {"verdict": "skip", "value": None}),
        "missing": ({}, None),
        "fixed": ({"verdict": "fail"}, {}),
        "undecided": ({"verdict": "fail"}, {"verdict": "skip", "value": None}),  # no cure
        "dropped": ({"verdict": "fail"}, None),
    }
    before, after = ([_finding(k, **pair[n]) for k, pair in pairs.items() if pair[n] is not None] for n in (0, 1))
    found = compare_runs(runs("a", before), runs("b", after))
    told = [(one.kind, (one.after or one.before).kind) for one in found.changes]
    names = ["regressed", "unknown", "missing", "skipped", "undecided", "worse", "lower", "fixed", "better", "new"]
    kinds = {"unknown": "regressed", "lower": "worse"}  # the others are of the kind that they are named after
    assert told == [(kinds.get(name, name), name) for name in names]
    assert found.regressed
    assert found.same == 2  # what was dropped had not passed
    assert found.count()["regressed"] == 2


def test_a_run_is_itself_but_for_settings_that_differ(runs):
    before = runs("a", [_finding("same"), _finding("same")])
    found = compare_runs(before, before)
    assert (found.changes, found.settings, found.same, found.regressed) == ((), (), 2, False)
    other = {"weights": "seeded", "parameters": {"frames": 9}, "versions": {"torch": "3", "tvm": "1"}}
    assert compare_runs(before, runs("b", [_finding("same")], **other)).settings == (
        ("03_x: weights", "narrow", "seeded"),
        ("03_x: frames", "8", "9"),
        ("03_x: torch", "2", "3"),
        ("03_x: tvm", "None", "1"),
    )


def test_the_command_fails_on_a_regression_alone(runs, capsys):
    good, bad = runs("a.1", [_finding("one", value=1.0)]), runs("b", [_finding("one", "fail", value=11.0)])
    assert main(["compare", str(good), str(bad)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("regressed: About one. (03_x, eager)\n    pass 1 dB -> fail 11 dB\n")
    assert main(["compare", str(bad), str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"]["fixed"] == 1


def test_bad_input(runs, tmp_path, capsys):
    good = runs("a", [_finding("one")])
    refused("holds no findings; give a folder of runs", compare_runs, good, tmp_path / "none")
    (good / "03_x" / "findings.json").write_text("{")
    assert main(["compare", str(good), str(good)]) == 2
    assert "findings" in capsys.readouterr().err
