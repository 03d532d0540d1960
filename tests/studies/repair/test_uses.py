"""What is said of a repair, in tables and as JSON."""

import json

from kokoro_nb.models.patches import PATCHES
from kokoro_nb.storage import json_ready
from kokoro_nb.studies.repair.patch_trials import FELL, WORKS, PatchTrial, StageOutcome
from kokoro_nb.studies.repair.smallest_set import search
from kokoro_nb.studies.repair.uses import PatchRepair, disagreements, uses_table


def _oracle(rule):
    """Return an attempt that works where `rule` says so of the set of names."""
    outcomes = {True: StageOutcome("part", WORKS, seconds=0.5), False: StageOutcome("part", FELL, "fell!")}
    return lambda names, _: PatchTrial(names, (outcomes[rule(set(names))],))


def test_a_proof_in_which_a_set_works_is_no_proof():
    good = _oracle(lambda _: True)
    found = PatchRepair("x", found=good(("floor_phase",), True), left_out=(good((), True),))
    assert not found.proven
    assert found.verdict == "fail"


def test_the_table_is_patches_by_backends_and_says_where_the_catalogue_is_wrong():
    tvm = search("tvm", _oracle(lambda names: "sqrt_epsilon" in names))
    coreml = search("coreml-reference", _oracle(lambda names: {"constant_scale", "floor_phase"} <= names))
    absent = PatchRepair("onnxruntime", absent="not installed.")
    table = uses_table([tvm, coreml, absent])
    assert [row["patch"] for row in table] == list(PATCHES)
    assert all(list(row) == ["patch", "tvm", "coreml-reference"] for row in table)
    assert next(row["tvm"] for row in table if row["patch"] == "sqrt_epsilon") == "needed: fell"
    assert next(row["tvm"] for row in table if row["patch"] == "floor_phase") == "pass: harmless"
    spoilt = search("tvm", _oracle(lambda names: "floor_phase" in names and "two_pass_norm" not in names))
    assert uses_table([spoilt])[9] == {"patch": "two_pass_norm", "tvm": "fail: with it: fell"}
    nothing = search("tvm", _oracle(lambda _: False))
    assert uses_table([nothing])[0]["tvm"] == "unknown: nothing works: fell"
    found = {(row["backend"], row["patch"]): row for row in disagreements([tvm, coreml])}
    assert found["tvm", "sqrt_epsilon"]["catalogue"] == "not needed"
    assert found["tvm", "where_phase"]["tried"] == "harmless, a call takes 1 times as long with it"
    # the interpreter is held to what is said of the backend that writes its file
    assert ("coreml-reference", "floor_phase") not in found
    assert found["coreml-reference", "custom_stft"]["catalogue"] == "needed"
    assert absent.verdict == "skip"
    assert absent.as_dict()["how"] == "not installed."


def test_it_can_be_written_as_json():
    found = search("x", _oracle(lambda names: "floor_phase" in names))
    told = json.loads(json.dumps(json_ready(found.as_json())))
    assert told["minimal"] == ["floor_phase"]
    assert told["proven"] is True
