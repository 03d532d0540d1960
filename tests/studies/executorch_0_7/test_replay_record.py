import json
import math
from dataclasses import replace

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.findings import write_findings
from kokoro_nb.studies.executorch_0_7.replay_plan import CONTROLS, LARGE, LAYOUT, MENDED, NORM, SYMPTOM, TRIALS
from kokoro_nb.studies.executorch_0_7.replay_record import (
    Replay,
    ReplayCall,
    ReplayOutcome,
    read_replay,
    recorded,
    write_replay,
)
from kokoro_nb.studies.executorch_0_7.replay_tables import Replays

NAN = float("nan")
RIGHT = (ReplayCall("itself", 0, 1.0, 1e-6, 110.0, 0.0), ReplayCall("itself", 1, 1.0, 1e-6, 110.0, 0.0))


def _outcome(*calls, error=""):
    return ReplayOutcome(NORM, 1.0, error, tuple(calls), 1, 0)


def _replay(*outcomes):
    versions = {"executorch": "0.7.0", "torch": "2.8.0"}
    return Replay(
        versions, "Linux x86_64", "2026-11-21", "narrow", 8, outcomes, ({"call": 0.0, "from eager": NAN},), {}
    )


def test_what_is_written_is_read_again_nan_and_infinity_too(tmp_path):
    call = ReplayCall("zeros", 1, 0.25, NAN, -math.inf, NAN)
    found = read_replay(write_replay(tmp_path / "replay.json", _replay(_outcome(*RIGHT, call))))
    last = found.outcomes[0].calls[-1]
    assert math.isnan(last.of_peak)
    assert math.isnan(last.change)
    assert last.snr_db == -math.inf
    assert math.isnan(found.predicted[0]["from eager"])
    assert found.outcomes[0].calls[:2] == RIGHT
    assert found.recorded
    assert "recorded on 2026-11-21, Linux x86_64" in found.label
    assert "recorded" not in replace(found, recorded=False).label


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ((), "no result"),
        (RIGHT, "right"),
        ((*RIGHT, ReplayCall("zeros", 1, 1.0, 0.1, 20.0, 0.1)), "depends on history"),
        ((*RIGHT, ReplayCall("zeros", 1, 0.0, NAN, NAN, NAN)), "depends on history"),
        ((ReplayCall("itself", 0, 0.0, NAN, NAN, 0.0), ReplayCall("itself", 1, 0.0, NAN, NAN, 0.0)), "not finite"),
        ((ReplayCall("itself", 0, 0.99, NAN, NAN, 0.0),), "not finite"),
        ((ReplayCall("itself", 0, 1.0, 0.02, 30.0, 0.0),), "wrong"),
    ],
)
def test_verdicts(calls, verdict):
    assert _outcome(*calls).verdict == verdict


def test_a_nan_is_the_largest_change_whatever_follows():
    later = [ReplayCall("zeros", number, 1.0, NAN, NAN, change) for number, change in ((1, 0.1), (2, NAN), (3, 0.2))]
    changes = _outcome(*RIGHT, *later).history.changes
    assert changes["itself"] == 0
    assert math.isnan(changes["zeros"])
    assert math.isnan(_outcome(*RIGHT, later[1], later[2]).history.changes["zeros"])
    assert _outcome(later[0], later[2]).history.changes["zeros"] == 0.2


def test_a_trial_that_was_not_replayed_is_reported():
    with pytest.raises(InputError, match="'XNNPACK as it is' was not replayed"):
        _replay(_outcome(*RIGHT)).outcome(SYMPTOM)


def test_files_that_are_no_replay_are_refused(tmp_path):
    path = write_replay(tmp_path / "replay.json", _replay(_outcome(*RIGHT)))
    whole = path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="There is no recorded replay"):
        read_replay(tmp_path / "absent.json")
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        read_replay(path)
    with pytest.raises(InputError, match="is no replay of schema"):
        read_replay(write_findings(tmp_path / "findings.json", []))
    with pytest.raises(InputError, match="is no replay of schema"):
        read_replay(_changed(path, whole, lambda values: values.update(schema=99)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda values: values.pop("weights"),
        lambda values: values.update(more=1),
        lambda values: values["versions"].pop("executorch"),
        lambda values: values["outcomes"][0]["calls"][0].pop("change"),
        lambda values: values["outcomes"][0]["calls"][0].update(finite="much"),
        lambda values: values["outcomes"][0]["trial"].update(cut=None, depth=3),
        lambda values: values.update(outcomes=None),
    ],
)
def test_a_damaged_replay_is_refused(tmp_path, spoil):
    path = write_replay(tmp_path / "replay.json", _replay(_outcome(*RIGHT)))
    with pytest.raises(InputError, match="damaged"):
        read_replay(_changed(path, path.read_text(encoding="utf-8"), spoil))


def _changed(path, whole, spoil):
    values = json.loads(whole)
    spoil(values)
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_the_replay_that_comes_with_the_project():
    found = recorded()
    assert (found.versions["executorch"], found.versions["torch"]) == ("0.7.0", "2.8.0")
    assert "narrow" in found.weights
    assert [outcome.trial for outcome in found.outcomes][: len(TRIALS)] == list(TRIALS)
    assert {outcome.trial for outcome in found.outcomes[len(TRIALS) :]} <= set(LARGE)
    assert all(outcome.eager_finite == 1 for outcome in found.outcomes)
    verdicts = {outcome.trial: outcome.verdict for outcome in found.outcomes}
    assert verdicts[SYMPTOM] == "not finite"
    assert verdicts[NORM] == "depends on history"
    assert verdicts[MENDED] == "right"
    written = ["two_pass_norm" in trial.patches for trial in CONTROLS]
    assert [verdicts[trial] == "right" for trial in CONTROLS] == written
    assert [verdicts[trial] for trial in LAYOUT] == ["no result", "right", "right"]
    assert "dim order" in found.outcome(LAYOUT[0]).error
    assert math.isnan(found.outcome(SYMPTOM).first.of_peak)


def test_both_replays_are_shown_beside_each_other():
    old = recorded()
    today = _replay(_outcome(*RIGHT))
    found = Replays(old, today, "", {})
    assert [(trial, one) for trial, one in found.known((NORM, SYMPTOM))] == [(NORM, old), (NORM, today), (SYMPTOM, old)]
    assert [row["verdict"] for row in found.rows([NORM])] == ["depends on history", "right"]
    table = Replays(old, old, "", {}).controls().verdicts
    assert [trial.name for trial in CONTROLS] == list(table)
    assert table[MENDED.name] == {old.label: "right"}
