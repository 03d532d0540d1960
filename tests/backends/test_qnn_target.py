"""QNN's chips and options, its log, and the process that it runs in."""

import time

import pytest

from kokoro_nb.backends.qnn import process
from kokoro_nb.backends.qnn.process import RECORD, QnnError, Worker, chip_options, require_taken
from tests.refusals import refused

PREFIX = "2026-11-21 13:14:22.7 [V:onnxruntime:, a.cc:1 QnnEp] User specified "
RECORDED = {RECORD: "v2:6:2.51.0:5.51.0:75:57:8:0"}


@pytest.mark.parametrize(("soc", "arch"), [("30", "68"), ("57", "75"), ("87", "81")])
def test_a_chip_has_one_npu(soc, arch):
    # SM8350, SM8650, SM8850: Qualcomm's table of supported devices.
    assert chip_options(soc) == {"soc_model": soc, "htp_arch": arch}


def test_a_chip_that_the_provider_would_pass_over_in_silence_is_refused():
    refused(r"no chip with soc_model '9999'; the known ones are .*57 .SM8650.", chip_options, "9999")


def test_options_that_were_taken_pass():
    log = f"{PREFIX}htp_arch: 75\n{PREFIX}soc_model: 57\n{PREFIX}ep.qnnexecutionprovider.extended_udma: 1\n"
    options = {"soc_model": "57", "htp_arch": "75", "extended_udma": "1"}
    assert require_taken(options, log, RECORDED) is None


@pytest.mark.parametrize(
    ("options", "log", "metadata", "sentence"),
    [
        ({"htp_arch": "75"}, f"{PREFIX}htp_arch: 73\n", RECORDED, "given htp_arch=75, but its log says 73"),
        ({"htp_arch": "73"}, f"{PREFIX}htp_arch: 73\n", RECORDED, "given htp_arch=73, but its artefact says 75"),
        ({"extended_udma": "1"}, "", RECORDED, "extended_udma=1, and nothing shows that it read it"),
        ({}, "", {RECORD: "v1:75"}, "but 'v1:75'"),
    ],
)
def test_an_option_that_was_not_taken_is_an_error(options, log, metadata, sentence):
    with pytest.raises(QnnError, match=sentence):
        require_taken(options, log, metadata)


@pytest.fixture
def worker_that(monkeypatch, tmp_path):
    """Return a function that starts a worker whose actions are the functions of `source`."""
    started = []

    def start(source):
        original = process.WORKER.read_text(encoding="utf-8")
        script = tmp_path / "worker.py"
        script.write_text(original.replace('if __name__ == "__main__":', f"{source}\nif __name__ == '__main__':"))
        monkeypatch.setattr(process, "WORKER", script)
        started.append(Worker())
        return started[-1]

    yield start
    for worker in started:
        worker.close()


def test_what_is_printed_does_not_come_between_the_answers(worker_that):
    source = (
        "def shout(): os.write(1, b'past Python'); print('through it', flush=True); return 7\nACTIONS['shout'] = shout"
    )
    worker = worker_that(source)
    assert worker.ask("shout") == worker.ask("shout") == 7
    assert worker.log() == "past Pythonthrough it\n" * 2


def test_an_error_there_is_an_error_here_with_what_was_printed_but_chatter(worker_that):
    record = "2026-11-21 13:14:22.7 [{}:onnxruntime:, a.cc:1 f] {}\\n"
    text = record.format("V", "chatter") + record.format("E", "the cause")
    worker = worker_that(f"def fail(): os.write(2, b'{text}'); raise KeyError('k')\nACTIONS['fail'] = fail")
    for _ in range(2):
        with pytest.raises(QnnError, match="KeyError: 'k'") as caught:
            worker.ask("fail")
    assert "the cause" in caught.value.__notes__[0]
    assert "chatter" not in caught.value.__notes__[0]
    assert "chatter" in worker.log()


@pytest.mark.parametrize(
    ("death", "sentence"),
    [("os.kill(os.getpid(), 11)", "died of SIGSEGV during 'die'"), ("os._exit(3)", "ended with status 3 during 'die'")],
)
def test_its_death_is_an_error_here_and_stays_one(worker_that, death, sentence):
    worker = worker_that(f"def die(): os.write(2, b'last words'); {death}\nACTIONS['die'] = die")
    with pytest.raises(QnnError, match=sentence) as caught:
        worker.ask("die")
    assert "last words" in caught.value.__notes__
    with pytest.raises(QnnError, match="during 'die'"):
        worker.ask("die")


def test_it_ends_with_the_object(worker_that):
    worker = worker_that("")
    child = worker._process
    assert child.poll() is None
    worker.close()
    worker.close()
    assert child.poll() is not None


def test_it_ends_when_nobody_asks_any_more(worker_that):
    child = worker_that("")._process
    child.stdin.close()
    deadline = time.monotonic() + 20
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.poll() == 0
