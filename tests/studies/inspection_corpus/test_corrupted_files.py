"""Damaged files end in one sentence or a report: a sample here, all hundred where it is slow."""

import sys

import numpy as np
import pytest

from kokoro_nb.studies.inspection_corpus import corrupted_rows, run_corpus, summed
from kokoro_nb.studies.inspection_corpus.corrupted_entries import CORRUPTED, FORMATS
from kokoro_nb.studies.inspection_corpus.corrupted_rows import CorruptedRow, inspected

FEW = (
    *("onnx-input_without_end-0", "onnx-bits_flipped-2", "onnx-wrong_extension-0", "onnx-weights_shorter-0"),
    *("onnx-shape_without_end-6", "onnx-nested_deep-1", "onnx-nan_constants-0", "pt2-bomb-0"),
)


def test_there_are_a_hundred_of_all_formats():
    assert len(CORRUPTED) == len({one.name for one in CORRUPTED}) == 100
    assert {one.suffix for one in CORRUPTED} == set(FORMATS)


def test_a_few_end_in_a_sentence_or_a_report(tmp_path):
    found = run_corpus("corrupted", FEW, tmp_path)
    assert len(found) == len(FEW)
    assert [row for row in found if not row.sound] == []
    total = summed(found)[-1]
    assert (total["sentence"], total["report"]) == (6, 2)


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("import time; time.sleep(60)", "hang"),
        ("raise ValueError('a traceback')", "wrong"),
        ("print('m.onnx: nothing wrong was found; 1 of 2 nodes judged on a runtime.')", "wrong"),
        ("print('m.onnx: fine; 1 of 2 nodes judged on a runtime.\\n  not judged: /a (Neg): why')", "report"),
        ("import sys; print('kokoro-nb: bad.', file=sys.stderr); sys.exit(2)", "sentence"),
        ("import sys; print('kokoro-nb: bad.\\nand more', file=sys.stderr); sys.exit(2)", "wrong"),
    ],
)
def test_what_ends_otherwise_is_red(program, outcome, tmp_path, monkeypatch):
    monkeypatch.setattr(corrupted_rows, "SECONDS", 1.0 if outcome == "hang" else 30.0)
    assert inspected(tmp_path / "m.onnx", [sys.executable, "-c", program])[0] == outcome


def test_the_memory_is_the_commands_own_and_not_that_of_who_starts_it(tmp_path):
    held = np.ones(90_000_000)  # 0.72 GB here
    program = "import time; x = b'1' * 300_000_000; time.sleep(0.3)"
    memory = inspected(tmp_path / "m.onnx", [sys.executable, "-c", program])[2]
    assert 0.3 <= memory < held.nbytes / 1e9


def test_what_takes_too_much_is_red():
    assert CorruptedRow("a", "b", "sentence", 1.0, 0.5, "").sound
    assert not CorruptedRow("a", "b", "sentence", 1.0, 4.1, "").sound
    assert not CorruptedRow("a", "b", "report", 61.0, 0.5, "").sound


@pytest.mark.slow
def test_all_of_them(tmp_path):
    assert [row for row in run_corpus("corrupted", (), tmp_path) if not row.sound] == []
