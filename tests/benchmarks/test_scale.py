import pytest
import torch

from kokoro_nb.benchmarks import scale
from kokoro_nb.benchmarks.scale import Point, measure, points
from kokoro_nb.errors import InputError


@pytest.fixture
def cores(monkeypatch):
    """Have the machine two cores."""
    monkeypatch.setattr(scale, "cores", lambda: 2)


@pytest.fixture(scope="module")
def measured(shallow, tmp_path_factory):
    """Return the rows of one utterance, on one thread too."""
    pytest.importorskip("onnxruntime")
    return measure(
        shallow, (0.1,), ("onnxruntime",), (1, 99), (), rounds=2, folder=tmp_path_factory.mktemp("artefacts")
    )


@pytest.mark.usefixtures("cores")
def test_three_curves_from_one_point():
    by_length, by_threads, by_batch = ((1.0, 1, 2), (3.0, 1, 2)), ((1.0, 1, 1),), ((1.0, 4, 2),)
    assert points((1.0, 3.0), (1, 2, 8), (1, 4)) == tuple(Point(*one) for one in (*by_length, *by_threads, *by_batch))


def test_every_program_is_measured_at_every_point_and_right(measured):
    rows, skipped = measured
    found = {(row.program, row.point) for row in rows}
    assert found == {(name, point) for name in ("eager", "onnxruntime") for point in points((0.1,), (1,), ())}
    assert all(row.error < 1e-4 for row in rows)
    assert all(row.floor > 0.5 for row in rows), "no program beats the floor; on a busy machine it is measured loosely"
    assert {row.error for row in rows if row.program == "eager"} == {0.0}
    assert skipped["99 threads"].startswith("This machine has")


def test_utterances_at_once_count_as_audio(shallow):
    rows, _ = measure(shallow, (0.1,), (), (), (2,), rounds=1)
    (row,) = [row.as_dict() for row in rows if row.point.batch == 2]
    assert row["audio per second (s)"] == pytest.approx(0.1 * 2 / row["run (s)"])
    assert {"x eager", "x floor", "threads"} <= set(row)


@pytest.mark.usefixtures("cores")
def test_a_program_computes_on_the_threads_of_its_point(monkeypatch, shallow, tmp_path):
    seen = []

    def times(programs, _inputs, _rounds, _limit):
        session = programs["onnxruntime"].session.get_session_options()
        seen.append((torch.get_num_threads(), session.intra_op_num_threads))
        raise InterruptedError

    monkeypatch.setattr(scale, "_times", times)
    monkeypatch.setattr(scale, "points", lambda *_: (Point(0.1, 1, 2),))
    with pytest.raises(InterruptedError):
        measure(shallow, (0.1,), ("onnxruntime",), (), (), folder=tmp_path)
    assert seen == [(2, 2)]


@pytest.mark.usefixtures("cores")
def test_who_cannot_be_given_threads_is_left_out_where_they_are_fewer():
    assert (
        scale._export("tvm", Point(0.1, 1, 1), None, {}, None) == "It computes on as many threads as its process has."
    )


@pytest.mark.parametrize("wrong", [((), (1,), (1,)), ((1.0,), (0,), (1,)), ((1.0,), (1,), (-2,))])
def test_what_is_no_curve_is_refused(wrong):
    with pytest.raises(InputError, match="are no curve; give a length, and 1 or more"):
        points(*wrong)
