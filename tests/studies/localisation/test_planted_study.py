import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, generate
from kokoro_nb.studies.decoder import spoken_decoder
from kokoro_nb.studies.localisation import METHODS, study, summarise
from kokoro_nb.studies.localisation.study_rows import read_rows

TEXTS = ("nan_channel@conv:conv1d", "sign_flip@:sin", "dropped_bias@conv:conv1d", "short_reduction@:mean")
NEUTRAL = "unclamped@:clamp"  # nothing comes near the limits
FAULTS = [*map(Fault.parse, TEXTS), Fault.parse(NEUTRAL), Fault.parse("perturbed_weight@conv:conv1d")]
METHOD = "first divergence"


@pytest.fixture(scope="module")
def rows(small, tmp_path_factory):
    return study(FAULTS, ["eager"], small, tmp_path_factory.mktemp("rows"))


def test_every_fault_is_named_exactly(rows):
    assert [row.faults for row in rows] == [(), *((str(fault),) for fault in FAULTS)]
    for row, fault in zip(rows[1:], FAULTS, strict=True):
        if str(fault) != NEUTRAL:
            assert row.named[METHOD] == (fault.operator,)
            assert row.verdict(METHOD) == "exact"


def test_the_healthy_program_is_blamed_for_nothing(rows):
    assert rows[0].named == {METHOD: ()}
    assert rows[0].effect == 0


def test_a_fault_without_effect_is_counted_apart(rows):
    neutral = [row.faults for row in rows if row.faults and row.neutral]
    assert neutral == [(NEUTRAL,)]
    (line,) = summarise(rows)
    assert (line["faults"], line["named exactly"]) == (5, 5)
    assert line["neutral"] == 1


def test_an_output_that_is_not_finite_is_no_neutral_one(rows):
    assert rows[1].effect != rows[1].effect  # NaN
    assert not rows[1].neutral


def test_rows_are_kept_and_not_made_again(small, rows, tmp_path):
    calls = []

    def counted(view):
        calls.append(view)
        return METHODS[METHOD](view)

    first = study(FAULTS[:2], ["eager"], small, tmp_path, {METHOD: counted})
    assert len(calls) == 3  # and the healthy program
    again = study(FAULTS[:3], ["eager"], small, tmp_path, {METHOD: counted})
    assert len(calls) == 4
    assert [row.seconds for row in again[:3]] == [row.seconds for row in first]
    (path,) = tmp_path.glob("*.jsonl")
    assert path.name == f"{small.program.content[:12]}-eager.jsonl"
    assert len(read_rows(path)) == 4
    study(FAULTS[:1], ["eager"], small, tmp_path, {METHOD: counted, "other": lambda view: ()})
    assert len(calls) == 6  # a method that was not asked before is asked about the same traces


def test_several_faults_in_one_program_are_all_named(small, tmp_path):
    rows = study(FAULTS, ["eager"], small, tmp_path, together=3)
    assert [len(row.faults) for row in rows] == [0, 1, 3, 2]  # the NaN alone; two at the convolution apart
    assert rows[2].faults == (TEXTS[1], TEXTS[2], TEXTS[3])
    assert set(rows[2].named[METHOD]) == {":sin", "conv:conv1d", ":mean"}
    assert rows[2].verdict(METHOD) == "exact"


def test_a_method_that_names_nothing_or_another_does_not_pass(small, tmp_path):
    methods = {"nothing": lambda view: (), "last": lambda view: (":exp",)}
    lines = summarise(study(FAULTS[:2], ["eager"], small, tmp_path, methods))
    assert [(line["named nothing"], line["named another"], line["named exactly"]) for line in lines] == [
        (2, 0, 0),
        (0, 2, 0),
    ]
    assert [line["healthy blamed"] for line in lines] == [0, 1]


def test_a_backend_that_does_not_execute_is_refused(small, tmp_path):
    with pytest.raises(InputError, match="coreml cannot run here:"):
        study(FAULTS[:1], ["coreml"], small, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eager", "onnxruntime", "coreml-reference-float32", "tvm-unfused"])
def test_thirty_faults_in_the_narrow_decoder_are_named_exactly(name, tmp_path):
    decoder = spoken_decoder("narrow", frames=8)[1]
    rows = study(generate(decoder.specification, 30), [name], decoder, tmp_path)
    (line,) = summarise(rows)
    assert line["faults"] >= 20
    assert line["named exactly"] == line["faults"], [r for r in rows if r.faults and r.verdict(METHOD) != "exact"]
    assert line["healthy blamed"] == line["failed"] == 0
