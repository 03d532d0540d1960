"""One trial of a set of patches, and the search for the smallest: on oracles that need no runtime, then on one."""

import copy
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.ladder import Climb
from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.storage import json_ready
from kokoro_nb.studies import repair as module
from kokoro_nb.studies.repair import PatchBench, PatchRepair, PatchTrial, StageOutcome, judged, repair, search
from kokoro_nb.studies.validate_steps import planted
from tests.refusals import refused

WORKS, FAILED, SHAPE = module.WORKS, module.FAILED, module.SHAPE
NONFINITE, UNSTEADY, UNFAITHFUL = module.NONFINITE, module.UNSTEADY, module.UNFAITHFUL
EXPECTED = np.array([1.0, -2.0, 0.5])


def _stage(floor=1e-7):
    return module.TrialStage("part", lambda model: model, {}, {"output": EXPECTED}, floor, lambda outputs: outputs)


def _climb(output, drift=0.0):
    return Climb("x", calls=(0.2, 0.1), outputs={"output": np.asarray(output)}, drift=drift)


@pytest.mark.parametrize(
    ("taken", "kind", "how"),
    [
        (_climb(EXPECTED), WORKS, ""),
        (_climb(EXPECTED * 1.0009), WORKS, ""),
        (_climb(EXPECTED * 1.0011), UNFAITHFUL, "error 0.0011 of the peak, above 0.001"),
        (_climb([1.0, np.nan, np.inf]), NONFINITE, "only 33.3 % finite"),
        (_climb(EXPECTED, drift=0.25), UNSTEADY, "a later call differs by 0.25"),
        (_climb(EXPECTED, drift=float("nan")), UNSTEADY, "a later call differs by nan"),
        (_climb([1.0, -2.0]), SHAPE, "gives {'output': (2,)}"),
        (Climb("x", Failure("x", "lowered", "E", "no such thing")), FAILED, "failed when lowered: E: no such thing"),
        (Climb("x", unexecuted="made for a phone."), WORKS, ""),
    ],
)
def test_an_outcome_is_judged_by_the_first_thing_that_is_wrong(taken, kind, how):
    outcome = judged(_stage(), taken, 1e-3)
    assert (outcome.kind, outcome.how) == (kind, how)


def test_where_eager_itself_is_off_by_more_a_runtime_may_be_too():
    assert judged(_stage(floor=5e-4), _climb(EXPECTED * 1.0019), 1e-3).kind == WORKS
    assert judged(_stage(floor=5e-4), _climb(EXPECTED * 1.0021), 1e-3).how == "error 0.0021 of the peak, above 0.002"


def test_where_the_numbers_are_ill_conditioned_they_are_reported_and_not_judged():
    outcome = judged(_stage(floor=None), _climb(EXPECTED * 2), 1e-3)
    assert outcome.kind == WORKS
    assert outcome.of_peak == 1
    assert judged(_stage(floor=None), _climb(EXPECTED * np.nan), 1e-3).kind == NONFINITE


def test_a_trial_fails_with_its_first_stage_that_does():
    bad = StageOutcome("two", NONFINITE, "only 0 % finite")
    trial = PatchTrial(("a",), (StageOutcome("one", WORKS), bad))
    assert (trial.works, trial.kind, trial.how) == (False, NONFINITE, "two: only 0 % finite")
    assert PatchTrial((), ()).works


@pytest.fixture(scope="module")
def bench(narrow, narrow_case, tmp_path_factory):
    return PatchBench(narrow.model, narrow_case, "eager", folder=tmp_path_factory.mktemp("repair"))


@pytest.mark.parametrize(
    ("left_out", "kind", "stage"),
    [("explicit_noise", UNSTEADY, "excitation"), ("exact_istft", UNFAITHFUL, "transform")],
)
def test_what_is_left_out_shows_at_its_stage(bench, left_out, kind, stage):
    trial = bench.trial([name for name in EXPORT_PATCHES if name != left_out])
    assert (trial.kind, trial.outcomes[-1].stage) == (kind, stage)
    assert left_out not in trial.patches


def test_a_fault_in_the_copy_that_is_tried_shows(narrow, bench):
    # the reference was taken before: what breaks afterwards is the export's fault
    with planted(narrow.model, "decoder.encode.conv1.bias", 0):
        trial = bench.trial(EXPORT_PATCHES)
    assert trial.kind == NONFINITE
    assert trial.how.startswith("decoder block: only ")


def test_an_outcome_is_kept_and_not_tried_again(bench, monkeypatch):
    fresh = copy.copy(bench)
    fresh._known = {}
    first = fresh.trial(("explicit_noise",))
    monkeypatch.setattr("kokoro_nb.studies.repair.climb", None)  # nothing can be run any more
    assert fresh.trial(("explicit_noise",)) == first
    # a patch that no part feels makes no new trial; one that a part feels does
    assert fresh.trial(("explicit_noise", "where_phase", "sqrt_epsilon")).outcomes == first.outcomes
    with pytest.raises(TypeError):
        fresh.trial(("explicit_noise", "floor_phase"))
    with planted(fresh.model, "decoder.encode.conv1.bias", 0, 1.0), pytest.raises(TypeError):
        fresh.trial(("explicit_noise",))  # other weights


def test_where_rounding_hides_every_error_nothing_is_tried(narrow, narrow_case, bench, tmp_path, monkeypatch):
    stages = [replace(bench.stages[0], floor=0.02), *bench.stages[1:]]
    monkeypatch.setattr("kokoro_nb.studies.repair.trial_stages", lambda *_: stages)
    with pytest.raises(InputError, match=r"Of 'excitation' eager float32 is 2.0e-02 .* take fewer frames"):
        PatchBench(narrow.model, narrow_case, "eager", folder=tmp_path)
    with patched(narrow.model, ("floor_phase",)), pytest.raises(InputError, match="'floor_phase' is on"):
        PatchBench(narrow.model, narrow_case, "eager", folder=tmp_path)


class Oracle:
    """Fails a set with the first of its rules that it breaks; `whole` only shows on the largest stages."""

    def __init__(self, part, whole=lambda names: True):
        self.part, self.whole, self.asked = part, whole, []

    def __call__(self, names, confirm):
        self.asked.append((names, confirm))
        kinds = {"part": WORKS if self.part(set(names)) else FAILED}
        if confirm and kinds["part"] == WORKS:
            kinds["whole"] = WORKS if self.whole(set(names)) else UNFAITHFUL
        outcomes = tuple(StageOutcome(s, k, "" if k == WORKS else f"{k}!") for s, k in kinds.items())
        return PatchTrial(names, outcomes)


def test_the_needed_are_found_and_each_is_proven():
    oracle = Oracle(lambda names: {"explicit_noise", "floor_phase"} <= names)
    found = search("coreml", oracle)
    assert found.minimal == ("explicit_noise", "floor_phase")
    assert found.proven
    assert found.verdict == "pass"
    assert [trial.patches for trial in found.left_out] == [("floor_phase",), ("explicit_noise",)]
    assert [row["outcome"] for row in found.proof()] == [FAILED, FAILED]
    assert found.found.outcomes[-1].stage == "whole"
    assert len(oracle.asked) == len(set(oracle.asked))
    assert sum(confirm for _, confirm in oracle.asked) == 1, "the largest stages are left for few sets"
    assert json.loads(json.dumps(json_ready(found.as_json())))["proven"] is True


def test_without_need_nothing_is_patched():
    found = search("eager", Oracle(lambda _: True))
    assert found.minimal == ()
    assert found.proven
    assert found.as_dict()["patches"] == "none is needed"
    assert found.unpatched.works


def test_what_fails_only_on_the_whole_is_searched_there():
    oracle = Oracle(lambda names: "custom_stft" in names, lambda names: "two_pass_norm" in names)
    found = search("tvm", oracle)
    assert found.minimal == ("custom_stft", "two_pass_norm")
    assert [trial.kind for trial in found.left_out] == [FAILED, UNFAITHFUL]
    assert found.left_out[1].how == "whole: unfaithful!"
    assert found.proven


def test_a_patch_that_spoils_the_full_set_is_named():
    oracle = Oracle(lambda names: "custom_stft" in names and "two_pass_norm" not in names)
    found = search("x", oracle)
    assert found.minimal == ("custom_stft",)
    assert found.start.how == "part: no output!"
    assert found.as_dict()["all of them"] == "part: no output!"


def test_where_no_set_works_nothing_is_claimed():
    found = search("x", Oracle(lambda _: False))
    assert found.minimal is None
    assert not found.proven
    assert found.verdict == "fail"
    assert found.proof() == []
    # the parts work and the whole never does: that is no repair either
    assert search("x", Oracle(lambda _: True, lambda _: False)).minimal is None


def test_bad_input_is_refused_and_an_absent_backend_told(narrow, narrow_case, monkeypatch):
    refused("There is no patch 'faster'", repair, narrow.model, narrow_case, "onnxruntime", patches=("faster",))
    refused("There is no backend 'nothing'", repair, narrow.model, narrow_case, "nothing")

    monkeypatch.setattr(module, "backend", lambda _: SimpleNamespace(available=lambda: "not installed."))
    assert repair(narrow.model, narrow_case, "tvm").absent == "not installed."

    # a proof in which a set works is no proof
    good = Oracle(lambda _: True)
    found = PatchRepair("x", found=good(("floor_phase",), True), left_out=(good((), True),))
    assert not found.proven
    assert found.verdict == "fail"
    absent = PatchRepair("onnxruntime", absent="not installed.")
    assert absent.verdict == "skip"
    assert absent.as_dict()["how"] == "not installed."
