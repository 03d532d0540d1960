import logging
import os
import sys
import warnings

import pytest

from kokoro_nb.backends.base import Failure, RungError, on_rung, quietly


def test_on_rung_keeps_the_exact_error_and_the_rung():
    seconds = {}
    with pytest.raises(RungError) as caught, on_rung("lowered", seconds):
        raise KeyError("aten.unfold\nis not there")
    failure = caught.value.failure("onnxruntime")
    assert failure == Failure("onnxruntime", "lowered", "KeyError", "'aten.unfold\\nis not there'")
    assert seconds == {}


def test_a_failure_names_the_root_of_a_chain_without_colours():
    with pytest.raises(RungError) as caught, on_rung("lowered"):
        raise RuntimeError("\x1b[96mStep 3/3\x1b[0m failed.\nDetails") from KeyError("aten.unfold")
    failure = caught.value.failure("onnxruntime")
    assert failure.message == "Step 3/3 failed.\nDetails"
    assert failure.cause == "KeyError: 'aten.unfold'"
    told = "onnxruntime failed when lowered: RuntimeError: Step 3/3 failed (from KeyError: 'aten.unfold')"
    assert str(failure) == told


def test_on_rung_lets_an_interruption_pass():
    with pytest.raises(KeyboardInterrupt), on_rung("run"):
        raise KeyboardInterrupt


def _chatter(error=None):
    print("from print")
    print("from stderr", file=sys.stderr)
    os.write(2, b"from native code\n")
    warnings.warn("from a warning", stacklevel=1)
    logging.getLogger("exporter").warning("from a log")
    if error is not None:
        raise error


def test_quietly_keeps_the_screen_clean(capfd):
    before = logging.root.manager.disable
    with quietly():
        assert logging.root.manager.disable == logging.WARNING
        _chatter()
    assert logging.root.manager.disable == before
    assert capfd.readouterr() == ("", "")
    print("after", file=sys.stderr)
    os.write(2, b"after too\n")
    assert capfd.readouterr().err.splitlines() == ["after", "after too"]


def test_quietly_adds_what_was_printed_to_the_error():
    with pytest.raises(RungError) as caught, on_rung("run"), quietly():
        _chatter(RuntimeError("error 0x12"))
    failure = caught.value.failure("executorch-portable")
    assert failure.message == "error 0x12"
    assert {"from print", "from stderr", "from native code"} <= set(failure.log.splitlines())
