"""The corpora of inspection: a sample of each here, the whole where it is slow; rows are saved and taken up again."""

import json

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.errors import InputError
from kokoro_nb.studies.inspection_corpus import inspection_corpora as rows
from kokoro_nb.studies.inspection_corpus import run_corpus, summed
from kokoro_nb.studies.inspection_corpus.blame_entries import KNOWN
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
