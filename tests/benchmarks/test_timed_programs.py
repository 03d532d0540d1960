"""The shallow decoder and two stages measured on ONNX Runtime: short, and the figures are true."""

import math
import subprocess
import sys

import psutil
import pytest

from kokoro_nb.benchmarks import SUITES, interleaved, suite, timed_programs
from kokoro_nb.benchmarks.profiles import profile, summed
from kokoro_nb.benchmarks.suite import BenchmarkOptions, run
from tests.refusals import refused

LENGTH = 0.2


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # other tests run beside this one
        patch.setattr(interleaved, "busy", lambda *_: False)
        patch.setenv("KOKORO_NB_CACHE", str(tmp_path_factory.mktemp("cache")))
        return timed_programs.decoder_times(shallow, LENGTH, ["onnxruntime", "coreml"], 3, with_memory=False)


def test_every_program_is_timed_beside_eager(measured):
    rows = {row.program: row for row in measured.rows}
    assert list(rows) == ["eager", "eager, 1 thread", "onnxruntime", "eager, again"]
    assert rows["eager"].ratio.median == 1
    assert all(row.seconds.rounds == 3 and row.seconds.median > 0 for row in rows.values())
    assert rows["onnxruntime"].real_time == rows["onnxruntime"].seconds.median / LENGTH
    assert rows["onnxruntime"].as_dict()["size (MB)"] > 1
    assert "Core ML predicts on macOS only" in measured.decoder.skipped["coreml"]


def test_a_busy_machine_gives_no_ratio_and_says_so(shallow, tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    monkeypatch.setattr(suite, "load_model", lambda *_: shallow)
    endless = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(psutil.cpu_count())]
    try:
        _, tables = run(["decoders"], BenchmarkOptions(lengths=[LENGTH], backends=["coreml"], rounds=2))
    finally:
        for process in endless:
            process.kill()
            process.wait()
    times = tables["decoders"][0]
    assert times.caption.endswith("the machine was busy with other work: no ratio is given")
    assert all(math.isnan(row["x eager"]) and row["run (s)"] > 0 for row in times.rows)


def test_families_add_up_to_the_sum_of_the_profile(measured):
    known = {name: profile(program, measured.decoder.inputs) for name, program in measured.decoder.programs.items()}
    assert list(known) == ["eager", "onnxruntime"]
    for each in known.values():
        assert sum(each.seconds.values()) == pytest.approx(each.total)
        assert 0 < each.total <= 1.1 * each.wall
        assert each.seconds["convolution"] > 0
        assert (each.seconds.get("STFT", 0) > 0) == (each is not known["onnxruntime"])  # it packs the kernel away
        assert each.seconds.get("other", 0) < 0.1 * each.total
        assert sum(share for name, share in each.as_dict().items() if "(%)" in name) == pytest.approx(100)


def test_events_are_summed_for_each_call():
    events = [("Conv", (11, 1, 20), 1.0), ("Conv", (4, 3, 5), 2.0), ("Sin", (), 1.0), ("dropout.out", (), 4.0)]
    found = summed(events * 2, 20.0, calls=2)
    assert dict(found.seconds) == {"convolution": 2.0, "STFT": 1.0, "elementwise": 1.0, "other": 4.0}
    assert (found.total, found.wall) == (8.0, 10.0)


def test_the_whole_model_is_inspected_on_so_many_tokens(shallow):
    row = suite.of_inspection(shallow, 8, seed=2)  # on the ids of 0 a bin of nothing turns with rounding
    assert (row["tokens"], row["verdict"]) == (8, "pass")
    assert row["x one evaluation in float64"] > 1
    assert row["memory run (MB)"] > row["memory loaded (MB)"] > 0


def test_an_unknown_suite_and_no_length_are_one_sentence():
    refused("no suite 'speed' to measure; give some of decoders", run, ["speed"], BenchmarkOptions("narrow"))
    refused("cannot be timed", run, ["decoders"], BenchmarkOptions("narrow", [math.nan]))


@pytest.mark.slow
def test_the_whole_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    label, tables = run(list(SUITES), BenchmarkOptions("narrow", [1.0], ["onnxruntime"], rounds=2, tokens=32))
    assert "narrow" in label
    assert list(tables) == list(SUITES)
    assert all(table.rows for each in tables.values() for table in each)
    (spoken,) = tables["text-to-audio"]
    exports = spoken.rows[1:-1]
    assert [row["program"] for row in exports] == ["onnxruntime", "onnxruntime, any length"]
    assert all(row[timed_programs.SAME_LENGTH] and row["audio (s)"] <= 1 for row in spoken.rows)
    for row in (*spoken.rows[:-1], *tables["decoders"][0].rows[:1]):
        memory = [row[f"memory {name} (MB)"] for name in ("imported", "loaded", "run", "process")]
        assert 0 < memory[0] <= memory[1] <= memory[2] < memory[3]
    assert all(row["load and first call (s)"] > row["run (s)"] and row["on disk (MB)"] > 15 for row in exports)
