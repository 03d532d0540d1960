"""What the tests say of the processor, so that no expectation depends on which one runs them."""

import pytest

from kokoro_nb.benchmarks import imitated_precision
from kokoro_nb.benchmarks.machine import Machine


def _asked(*flags):
    return lambda: Machine("a processor of the tests", "x86_64", "Linux", 1, flags, {}, 1000)


@pytest.fixture(scope="session", autouse=True)
def _without_vnni():
    """Have weights of 7 bits, whatever processor this is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imitated_precision, "this_machine", _asked("avx2"))
        yield


@pytest.fixture
def processor_with(monkeypatch):
    """Return what makes the package take this machine for one whose processor has only the given flags."""
    return lambda *flags: monkeypatch.setattr(imitated_precision, "this_machine", _asked(*flags))
