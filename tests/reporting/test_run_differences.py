import json

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, write_findings
from kokoro_nb.reporting.run_differences import compare_runs

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
    before = [
        _finding("same"),
        _finding("worse"),
        _finding("lower", relation=">="),
        _finding("better", value=8.0),
        _finding("regressed"),
        _finding("unknown"),
        _finding("skipped"),
        _finding("missing"),
        _finding("fixed", "fail"),
        _finding("dropped", "fail"),
    ]
    after = [
        _finding("new"),
        _finding("same", value=1.9),  # less than twice
        _finding("worse", value=2.1),
        _finding("lower", value=0.4, relation=">="),
        _finding("better", value=1.0),
        _finding("regressed", "fail", value=11.0),
        _finding("unknown", "unknown", value=None),
        _finding("skipped", "skip", value=None),
        _finding("fixed"),
    ]
    found = compare_runs(runs("a", before), runs("b", after))
    told = [(one.kind, (one.after or one.before).kind) for one in found.changes]
    assert told == [
        *(("regressed", "regressed"), ("regressed", "unknown"), ("missing", "missing"), ("skipped", "skipped")),
        *(("worse", "worse"), ("worse", "lower"), ("fixed", "fixed"), ("better", "better"), ("new", "new")),
    ]
    assert found.regressed
    assert found.same == 2  # what was dropped had not passed
    assert found.count()["regressed"] == 2


def test_a_run_is_itself(runs):
    found = compare_runs(
        runs("a", [_finding("same"), _finding("same")]), runs("b", [_finding("same"), _finding("same")])
    )
    assert (found.changes, found.settings, found.same, found.regressed) == ((), (), 2, False)


def test_settings_that_differ_are_reported(runs):
    before = runs("a", [_finding("same")])
    after = runs(
        "b", [_finding("same")], weights="seeded", parameters={"frames": 9}, versions={"torch": "3", "tvm": "1"}
    )
    assert compare_runs(before, after).settings == (
        ("03_x: weights", "narrow", "seeded"),
        ("03_x: frames", "8", "9"),
        ("03_x: torch", "2", "3"),
        ("03_x: tvm", "None", "1"),
    )


def test_the_command_fails_on_a_regression_alone(runs, capsys):
    good, bad = runs("a", [_finding("one", value=1.0)]), runs("b", [_finding("one", "fail", value=11.0)])
    assert main(["compare", str(good), str(bad)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("regressed: About one. (03_x, eager)\n    pass 1 dB -> fail 11 dB\n")
    assert main(["compare", str(bad), str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"]["fixed"] == 1


def test_bad_input(runs, tmp_path, capsys):
    good = runs("a", [_finding("one")])
    with pytest.raises(InputError, match="holds no findings; give a folder of runs"):
        compare_runs(good, tmp_path / "none")
    (good / "03_x" / "findings.json").write_text("{")
    assert main(["compare", str(good), str(good)]) == 2
    assert "findings" in capsys.readouterr().err
