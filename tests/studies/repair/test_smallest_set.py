"""The search for the smallest set of patches: on oracles that need no runtime, then on one that does."""

import json
from types import SimpleNamespace

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.storage import json_ready
from kokoro_nb.studies.repair import smallest_set as module
from kokoro_nb.studies.repair.patch_trials import FELL, UNFAITHFUL, WORKS, PatchTrial, StageOutcome
from kokoro_nb.studies.repair.smallest_set import PatchRepair, repair, search


class Oracle:
    """Fails a set with the first of its rules that it breaks; `whole` only shows on the largest stages."""

    def __init__(self, part, whole=lambda names: True):
        self.part, self.whole, self.asked = part, whole, []

    def __call__(self, names, confirm):
        self.asked.append((names, confirm))
        kinds = {"part": WORKS if self.part(set(names)) else FELL}
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
    assert [row["outcome"] for row in found.proof()] == [FELL, FELL]
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
    assert [trial.kind for trial in found.left_out] == [FELL, UNFAITHFUL]
    assert found.left_out[1].how == "whole: unfaithful!"
    assert found.proven


def test_a_patch_that_spoils_the_full_set_is_named():
    oracle = Oracle(lambda names: "custom_stft" in names and "two_pass_norm" not in names)
    found = search("x", oracle)
    assert found.minimal == ("custom_stft",)
    assert found.start.how == "part: fell!"
    assert found.as_dict()["all of them"] == "part: fell!"


def test_where_no_set_works_nothing_is_claimed():
    found = search("x", Oracle(lambda _: False))
    assert found.minimal is None
    assert not found.proven
    assert found.verdict == "fail"
    assert found.proof() == []
    # the parts work and the whole never does: that is no repair either
    assert search("x", Oracle(lambda _: True, lambda _: False)).minimal is None


def test_bad_input_is_refused_and_an_absent_backend_told(narrow, narrow_case, monkeypatch):
    with pytest.raises(InputError, match="There is no patch 'faster'"):
        repair(narrow.model, narrow_case, "onnxruntime", patches=("faster",))
    with pytest.raises(InputError, match="There is no backend 'nothing'"):
        repair(narrow.model, narrow_case, "nothing")

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
