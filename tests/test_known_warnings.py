"""Import noise that is known stays off the screen; any other message of the same loggers does not."""

from kokoro_nb.run_apart import run_apart

NOISE = """
import logging
logging.basicConfig(format="%(message)s")
ao, tree = logging.getLogger("torchao"), logging.getLogger("torch.utils._pytree")
ao.warning("Failed to load %s: Could not load this library", "/lib/_C_mxfp8.cpython-310-x86_64-linux-gnu.so")
tree.warning("<enum 'KernelPreference'> is an Enum subclass and is now natively supported by torch.compile")
"""
REAL = """
ao.warning("Failed to quantise the layer")
tree.error("an Enum subclass was registered twice")
logging.getLogger("torchao.quantization").warning("Failed to load /lib/a.so: of another logger")
"""
SILENCE = """
from kokoro_nb.known_warnings import silence_known_warnings
silence_known_warnings()
silence_known_warnings()
"""


def _printed(code):
    """Return the lines that a new process prints to either stream."""
    done = run_apart(["-c", code])
    assert done.status == 0, done.stderr
    return (done.stdout + done.stderr).splitlines()


def test_known_messages_are_dropped_and_every_other_is_shown():
    assert len(_printed(NOISE)) == 2  # the control: without the filter they are on the screen
    assert _printed(SILENCE + NOISE + REAL) == [
        "Failed to quantise the layer",
        "an Enum subclass was registered twice",
        "Failed to load /lib/a.so: of another logger",
    ]


def test_the_command_line_and_the_backends_silence_them():
    assert _printed("import kokoro_nb.backends" + NOISE) == []
    refused = "from kokoro_nb.__main__ import main\nassert main(['compare', 'no such folder', 'nor this']) == 2"
    (sentence,) = _printed(refused + NOISE)
    assert sentence.startswith("kokoro-nb: ")
