"""The corpora of inspection: a sample of each here, the whole where it is slow; rows are saved and taken up again."""

import json
from dataclasses import replace

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import inspect
from kokoro_nb.studies.inspection_corpus import inspection_corpora as rows
from kokoro_nb.studies.inspection_corpus import run_corpus, summed
from kokoro_nb.studies.inspection_corpus.blame_entries import KNOWN
from kokoro_nb.studies.inspection_corpus.budget_rows import QUANTISERS, budget_row
from kokoro_nb.studies.inspection_corpus.fault_entries import PlantedFault, named
from kokoro_nb.studies.inspection_corpus.foresight_rows import FORESEEN, foresight_row
from kokoro_nb.studies.inspection_corpus.zoo_entries import ZOO

FEW = ("loop_onnx", "branch_onnx", "function_onnx", "bfloat16_onnx", "attention-legacy_onnx")


def test_every_form_is_in_the_zoo():
    assert len(ZOO) >= 40
    assert len({one.name for one in ZOO}) == len(ZOO)
    assert len(KNOWN) == 100


def test_a_few_of_the_zoo_are_judged_and_not_accused(tmp_path):
    found = run_corpus("zoo", FEW, tmp_path)
    assert [row.case for row in found if not row.sound] == []
    (total,) = summed(found)
    assert total["judged"] == total["nodes"] > 30
    assert total["accused"] == 0


def test_blame_of_each_kind_once(tmp_path):
    found = run_corpus("blame", [f"{one.plant.__name__}-0" for one in KNOWN], tmp_path)
    assert len(found) == 20
    assert [(row.case, row.right, row.said) for row in found if not row.sound] == []


@pytest.fixture
def one_base(monkeypatch):
    from kokoro_nb.studies.inspection_corpus import fault_entries

    name = "attention-dynamo_onnx"
    monkeypatch.setattr(fault_entries, "BASES", {name: fault_entries.BASES[name]})


def test_a_few_faults_are_named(one_base, tmp_path):
    found = run_corpus("faults", (), tmp_path, wanted=7)
    assert {row.kind for row in found} >= {"constant", "one_channel", "axis", "overflowing_cast", "masked"}
    assert [(row.case, row.planted, row.named) for row in found if not row.sound] == []


@pytest.mark.parametrize(
    ("base", "kinds"),
    [
        ("attention-pt2", ("constant", "axis", "masked")),
        ("attention-float32_mlpackage", ("one_channel", "attribute", "overflowing_cast", "infinity_less_infinity")),
        ("attention-quantised_mlpackage", ("permuted_scale", "zero_point")),
        ("hifigan_like-quantised_pte", ("one_channel", "permuted_scale", "saturation")),
    ],
)
def test_faults_of_every_format_are_named_and_the_healthy_file_is_not_accused(base, kinds, tmp_path):
    for kind in kinds:
        fault = PlantedFault(base, kind, 0)
        path = fault.path(tmp_path)
        key = fault.planted(path)
        assert named(fault, fault.inspected(path)) == key != ""
        assert inspect(fault.healthy, fault.inputs, against=fault.healthy).findings == ()


def test_layers_and_nodes_are_held_against_what_is_true(monkeypatch):
    from kokoro_nb.studies.inspection_corpus import foresight_rows

    qoperator = next(one for one in QUANTISERS if one.name == "qoperator_onnx")
    few = replace(qoperator, files=tuple(one for one in qoperator.files if one.name.startswith("attention")))
    row = budget_row(few)  # of which two layers multiply activations by activations
    assert (row.layers, row.within, row.unpaired, row.sound) == (4, 4, 0, True)
    (attention,) = (one for one in FORESEEN if one.name.startswith("attention"))
    foreseen = foresight_row(attention)
    assert (foreseen.within, foreseen.sound) == (foreseen.nodes, True)
    assert foreseen.nodes > 15
    real = foresight_rows.float16_foresight

    def doubled(*given):
        return tuple(replace(one, noise=2 * one.noise) for one in real(*given))

    monkeypatch.setattr(foresight_rows, "float16_foresight", doubled)
    assert foresight_row(attention).within == 0


def test_rows_are_taken_up_again_and_damaged_ones_made_anew(tmp_path, monkeypatch):
    first = run_corpus("blame", ["nan_input-0", "scaled_kernel-0"], tmp_path)
    path = tmp_path / "blame" / "nan_input-0.json"
    path.write_text(path.read_text(encoding="utf-8")[:20], encoding="utf-8")
    made = []
    real = rows.blame_row
    monkeypatch.setattr(rows, "blame_row", lambda known: made.append(known.name) or real(known))
    assert run_corpus("blame", ["nan_input-0", "scaled_kernel-0"], tmp_path) == first
    assert made == ["nan_input-0"]
    saved = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**saved, "code": "another"}), encoding="utf-8")
    assert run_corpus("blame", ["nan_input-0", "scaled_kernel-0"], tmp_path) == first
    assert made == ["nan_input-0"] * 2


def test_a_row_that_is_not_right_is_red(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(rows, "blame_row", lambda known: rows.BlameRow(known.name, "k", "file /a", "runtime /a"))
    assert main(["study", "inspection", "--of", "blame", "--only", "nan_input-0", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "WRONG nan_input-0" in told
    assert "blame: kind k, right 0, of 1" in told


def test_what_there_is_not_is_refused(tmp_path):
    with pytest.raises(InputError, match="There is no corpus 'zooo'"):
        run_corpus("zooo")
    with pytest.raises(InputError, match="nothing called no such"):
        run_corpus("blame", ["no such"], tmp_path)


@pytest.mark.slow
def test_the_whole_zoo(tmp_path):
    found = run_corpus("zoo", (), tmp_path)
    assert [row.case for row in found if not row.sound] == []
    (total,) = summed(found)
    assert total["judged"] >= 0.99 * total["nodes"]


@pytest.mark.slow
def test_all_faults_and_all_blame(tmp_path):
    found = run_corpus("faults", (), tmp_path)
    assert len(found) == 300
    assert sum(row.sound for row in found) >= 297
    blame = run_corpus("blame", (), tmp_path)
    assert sum(row.sound for row in blame) >= 98
    assert all(row.sound or row.said.startswith("unknown") for row in blame)
