"""The course of cells on a cluster that is only pretended, and answers as each test wants."""

import io
from types import SimpleNamespace

import pytest
from distributed import KilledWorker

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.runs import RunRecord, write_run
from kokoro_nb.reporting.sweep import dispatch
from kokoro_nb.reporting.sweep.dispatch import Dispatcher
from kokoro_nb.reporting.sweep.grid import expand

DIED = KilledWorker("task", SimpleNamespace(address="tcp://a"), 3)


class Future:
    """A future that is done with a value or an error; one that is neither stays open."""

    def __init__(self, answer):
        self.answer = answer
        self.status = {"lost": "cancelled", "open": "pending"}.get(str(answer), "finished")
        if isinstance(answer, Exception):
            self.status = "error"

    def add_done_callback(self, call):
        if self.status != "pending":
            call(self)

    def exception(self):
        return self.answer if isinstance(self.answer, Exception) else None

    def result(self):
        return self.answer


class Client:
    """A connection that takes what becomes of each attempt from a list."""

    def __init__(self, *answers, workers=({},)):
        self.answers, self.workers = list(answers), workers
        self.handler, self.orders, self.resources, self.cancelled = None, [], [], []

    def subscribe_topic(self, topic, handler):
        self.handler = handler

    def submit(self, function, order, key, resources, pure):
        self.orders.append(order)
        self.resources.append(resources)
        answer = self.answers.pop(0)
        for worker in getattr(answer, "workers", ["tcp://a"]):
            self.handler((0.0, {"cell": order.cell.name, "begun": worker}))
            self.handler((0.0, {"cell": order.cell.name, "step": 1}))
        return Future(answer(order) if callable(answer) else answer)

    def scheduler_info(self, n_workers):
        return {"workers": dict(enumerate({"resources": found} for found in self.workers))}

    def cancel(self, futures, force):
        self.cancelled += futures


def ends(status="passed", error="", workers=("tcp://a",), seen=True):
    """Return an attempt, begun on these workers one after the other, that leaves such a record."""

    def answer(order):
        run = RunRecord(order.cell.name, status, order.cell.key, {}, f"begun {len(error)}", 1.0, error)
        order.folder.mkdir(parents=True, exist_ok=True)
        if seen:
            write_run(order.folder, run)
        return run

    answer.workers = list(workers)
    return answer


@pytest.fixture
def follow(make_notebook, spec_of, tmp_path):
    def follow(client, text="number = [1]", more="", **terms):
        cells = expand(spec_of(tmp_path, f'notebook = "01"\n[grid]\n{text}\n{more}'), make_notebook(tmp_path))
        course = Dispatcher(
            client,
            Progress(dict.fromkeys(cell.name for cell in cells), stream=io.StringIO()),
            tmp_path / "cells",
            **terms,
        )
        return list(course.results(cells))

    return follow


def test_a_cell_that_passes_is_tried_once(follow):
    client = Client(ends())
    (result,) = follow(client, retries=3)
    assert (result.status, result.worker, result.attempts, result.earlier) == ("passed", "tcp://a", 1, ())
    assert client.cancelled == []


def test_a_cell_asks_for_its_resources(follow):
    client = Client(ends(), ends())
    follow(client, 'backend = ["eager", "tvm"]', '[requires]\nbackend.tvm = ["tvm", "cuda"]')
    assert client.resources == [{}, {"tvm": 1, "cuda": 1}]


def test_a_failure_is_tried_again_as_often_as_asked_and_every_reason_kept(follow):
    fails = [ends("failed", error) for error in ("One.", "Other.")]
    (result,) = follow(Client(*fails, ends()), retries=2)
    assert (result.status, result.attempts, result.earlier, result.error) == ("passed", 3, ("One.", "Other."), "")
    (result,) = follow(Client(*fails), retries=1)
    assert (result.status, result.attempts, result.earlier, result.error) == ("failed", 2, ("One.",), "Other.")
    assert str(result) == "failed in 1.0 s, attempt 2: Other."
    (result,) = follow(Client(fails[0]), retries=0)
    assert (result.status, result.attempts, result.earlier) == ("failed", 1, ())


def test_a_worker_that_dies_costs_an_attempt_but_no_retry(follow):
    (result,) = follow(Client(ends(workers=["tcp://a", "tcp://b"])), retries=0)
    assert (result.status, result.attempts, result.worker) == ("passed", 2, "tcp://b")
    assert result.earlier == ("The worker tcp://a ended while it ran the cell.",)


def test_what_the_cluster_gave_up_is_handed_out_again_until_too_many_workers_died_of_it(follow):
    (result,) = follow(Client(DIED, DIED, ends()))
    assert (result.status, result.attempts, len(result.earlier)) == ("passed", 3, 2)
    (result,) = follow(Client(DIED, DIED, DIED))
    assert (result.status, result.attempts, len(result.earlier)) == ("failed", 3, 2)
    assert result.error == "The worker tcp://a ended while it ran the cell."


def test_an_error_of_the_worker_is_a_failure_with_its_class(follow):
    (result,) = follow(Client(OSError("no space")))
    assert (result.status, result.error, result.run) == ("failed", "OSError: no space", None)


def test_another_package_ends_the_sweep_and_cancels_what_waits(follow):
    client = Client(InputError("Another package."), "open", "open")
    with pytest.raises(InputError, match="Another package"):
        follow(client, "number = [1, 2, 3]")
    assert len(client.cancelled) == 3


def test_what_a_worker_wrote_elsewhere_is_no_pass(follow):
    (result,) = follow(Client(ends(seen=False)))
    assert (result.status, result.run) == ("failed", None)
    assert "shared file system" in result.error


def test_a_scheduler_that_forgot_a_cell_leaves_it_interrupted(follow):
    (result,) = follow(Client("lost"))
    assert result.status == "interrupted"


def test_a_cell_that_nobody_can_run_any_longer_is_given_up(follow, monkeypatch):
    for name in ("TICK", "LOOK", "GRACE"):
        monkeypatch.setattr(dispatch, name, 0.02)
    client = Client("open", workers=[])
    (result,) = follow(client)
    assert (result.status, result.error) == ("interrupted", "No worker is connected.")
    assert len(client.cancelled) == 1


def test_a_cell_that_somebody_can_run_is_waited_for(follow, monkeypatch):
    for name in ("TICK", "LOOK", "GRACE"):
        monkeypatch.setattr(dispatch, name, 0.02)
    client = Client("open", workers=[{"cuda": 1}])
    looks = []

    def look(n_workers):
        looks.append(n_workers)
        if len(looks) == 5:
            raise KeyboardInterrupt
        return Client.scheduler_info(client, n_workers)

    client.scheduler_info = look
    with pytest.raises(KeyboardInterrupt):
        follow(client, 'backend = ["eager"]', '[requires]\nbackend.eager = "cuda"')
    assert len(client.cancelled) == 1, "and an interrupt cancels it"
