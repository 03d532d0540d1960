import time

import pytest

from kokoro_nb.benchmarks import session_process, sessions
from kokoro_nb.benchmarks.sessions import APART, TOGETHER, measure
from kokoro_nb.errors import InputError


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    """Return the rows of one and two sessions."""
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("artefacts")
    rows, skipped = measure(shallow, 0.1, ("onnxruntime",), counts=(2,), rounds=1, folder=folder)
    assert skipped == {}
    return {(row.program, row.sessions, row.place): row for row in rows}


def test_every_number_is_measured_in_one_process_and_in_several(measured):
    ways = (1, TOGETHER), (2, TOGETHER), (2, APART)
    assert set(measured) == {(name, *way) for name in ("eager", "onnxruntime") for way in ways}
    assert all(row.throughput.low > 0 for row in measured.values())
    assert all(row.throughput.rounds == 1 for row in measured.values())


def test_one_session_gains_nothing_over_itself(measured):
    for name in ("eager", "onnxruntime"):
        one = measured[name, 1, TOGETHER]
        assert one.gain.median == 1.0


@pytest.mark.parametrize("name", ["eager", "onnxruntime"])
def test_processes_hold_more_than_one_process_does(measured, name):
    one, together, apart = (measured[name, *way].memory for way in ((1, TOGETHER), (2, TOGETHER), (2, APART)))
    assert 50 < one < together < apart < 4 * one


def test_units_are_in_the_names(measured):
    row = measured["onnxruntime", 2, APART].as_dict()
    assert row["memory per session (MB)"] == row["memory (MB)"] / 2
    assert {"audio per second (s)", "x one session", "threads each"} <= set(row)


def test_all_sessions_compute_at_once(monkeypatch, shallow, tmp_path):
    """A session that waits in place of computing: two of them take as long as one, and twice as much is done."""
    waited = 0.2
    monkeypatch.setattr(sessions, "_round", lambda _folder, _threads, _processes: (waited, 1.0))
    rows, _ = measure(shallow, 0.1, (), counts=(1, 4), rounds=1, folder=tmp_path)
    gains = {(row.sessions, row.place): row.gain.median for row in rows}
    assert gains == {(1, TOGETHER): 1.0, (4, TOGETHER): pytest.approx(4.0), (4, APART): pytest.approx(4.0)}
    assert rows[0].throughput.median == pytest.approx(session_process.CALLS * 0.1 / waited)


def test_the_time_is_from_the_first_beginning_to_the_last_end():
    started = time.clock_gettime(time.CLOCK_MONOTONIC)
    start, end = session_process._span(lambda: time.sleep(0.01))
    assert started <= start
    assert end - start >= 0.01 * session_process.CALLS


@pytest.mark.parametrize("counts", [(), (0,), (2, -1)])
def test_numbers_that_are_none_are_refused(shallow, counts):
    with pytest.raises(InputError, match="no numbers of sessions; give 1 or more"):
        measure(shallow, 0.1, (), counts=counts)


def test_a_process_that_fails_says_why(monkeypatch, shallow):
    def broken(*_arguments):
        return (
            {"kind": "artefact", "backend": "onnxruntime", "path": "absent.onnx", "inputs": [], "outputs": []},
            {},
            None,
        )

    monkeypatch.setattr(sessions, "request_of", broken)
    with pytest.raises(RuntimeError, match=r"A process with sessions ended with 1: (.|\n)*absent\.onnx"):
        measure(shallow, 0.1, (), rounds=1)
