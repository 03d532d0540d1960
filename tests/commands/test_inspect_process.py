"""The process that looks into a file: one that crashes or hangs its runtime, or needs too much memory, is bad input."""

import os
import time
from dataclasses import dataclass

import pytest

from kokoro_nb.commands import inspect_process
from kokoro_nb.errors import InputError


@dataclass
class Calls:
    """Calls a function where it is unpickled: in the process that runs the file."""

    function: object
    arguments: tuple

    def __reduce__(self):
        return self.function, self.arguments


def test_what_crashes_or_hangs_is_bad_input():
    with pytest.raises(InputError, match=r"crashes what runs it \(SIGABRT\) after it was begun"):
        inspect_process.apart({"file": "x.onnx", "inputs": Calls(os.abort, ())})
    with pytest.raises(InputError, match=r"hangs: no progress in 1 s after it was begun"):
        inspect_process.apart({"file": "x.onnx", "inputs": Calls(time.sleep, (60,))}, silence=1.0)


def test_what_works_in_vain_hangs_and_what_works_for_long_does_not():
    with pytest.raises(InputError, match=r"hangs: no progress in 1 s after it was begun"):
        inspect_process.apart({"file": "x.onnx", "inputs": Calls(exec, ("while True: pass",))}, silence=1.0)
    long = "import time\nwhile time.process_time() < 3: pass"
    with pytest.raises(InputError, match=r"x\.onnx") as raised:
        inspect_process.apart({"file": "x.onnx", "inputs": Calls(exec, (long,)), "against": None}, silence=2.0)
    assert "hangs" not in str(raised.value)


def test_a_file_that_needs_too_much_memory_is_bad_input():
    hungry = {"file": "x.onnx", "inputs": Calls(bytearray, (2 * 10**9,))}
    with pytest.raises(InputError, match=r"x.onnx needs more than 1.5 GB of memory; give --memory more"):
        inspect_process.apart(hungry, memory=1.5)
