"""The corpora: a few cheap rows, that a wrong answer turns a row red, and all of them where there is time."""

from dataclasses import replace

import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.backends import BACKENDS
from kokoro_nb.errors import InputError
from kokoro_nb.studies.diagnosis_corpus import run_corpus, table_row
from kokoro_nb.studies.diagnosis_corpus.corpus_entries import HEALTHY, SICK
from kokoro_nb.studies.diagnosis_corpus.corpus_rows import _expected, sick_row

CHEAP = next(one for one in SICK if one.name == "phase_of_an_offset-onnxruntime")


def test_the_corpora_are_as_large_as_they_have_to_be():
    assert len(SICK) >= 16
    assert len(HEALTHY) >= 24
    assert len({one.backend for one in HEALTHY}) >= 3
    assert len({one.name for one in SICK}) == len(SICK)
    assert {one.backend for one in HEALTHY} <= {*BACKENDS}


def test_a_sick_export_is_named_and_a_wrong_expectation_is_red():
    row = sick_row(CHEAP, 0)
    assert (row.culprit, row.named, row.exit_status) == (True, ":atan2", 1)
    other = sick_row(replace(CHEAP, culprits=("after:conv1d",), mechanism="stale memory"), 0)
    assert (other.culprit, other.mechanism, other.sound) == (False, False, False)


def test_what_is_wrong_besides_may_be_named_after_the_culprit_and_nothing_else():
    two = replace(CHEAP, culprits=("a:mean",), also=("*:atan2",))
    assert _expected(two, ["a:mean", "b:atan2"])
    assert not _expected(two, ["b:atan2", "a:mean"])
    assert not _expected(two, ["a:mean", "b:sin"])
    assert not _expected(two, [])


def test_a_row_that_is_there_is_not_made_again(tmp_path):
    made = []
    for _ in range(2):
        run_corpus("healthy", (0,), ["conformer_convolution-onnxruntime"], tmp_path, made.append)
    assert made[0] == made[1]
    assert made[0].sound
    assert table_row(made[0])["time (s)"] == made[0].seconds


def test_a_corpus_or_an_export_that_there_is_not_is_bad_input():
    with pytest.raises(InputError, match="There is no corpus 'ill'"):
        run_corpus("ill")
    with pytest.raises(InputError, match="has nothing called nowhere"):
        run_corpus("sick", only=["nowhere"])


def test_the_command_prints_each_row(tmp_path, capsys):
    arguments = ["study", "diagnosis", "--healthy", "--only", "conformer_convolution-onnx", "--seeds", "0"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "conformer_convolution-onnxruntime seed 0; pass" in printed
    assert "1 of 1 as they have to be" in printed


@pytest.mark.slow
@pytest.mark.parametrize("one", HEALTHY, ids=lambda one: one.name)
def test_no_healthy_export_is_accused(one):
    assert [row for row in run_corpus("healthy", only=[one.name]) if not row.sound] == []


@pytest.mark.slow
@pytest.mark.parametrize("one", SICK, ids=lambda one: one.name)
def test_every_sick_export_is_diagnosed(one):
    assert [row for row in run_corpus("sick", only=[one.name]) if not row.sound] == []
