import pytest

from kokoro_nb.backends.tvm.schedule import TvmScheduled
from tests.backends.small import present


@pytest.fixture(autouse=True)
def _tvm_is_here():
    present("tvm")


@pytest.fixture(scope="session")
def here():
    """TVM's target for this processor."""
    from tvm.target import Target

    return Target(TvmScheduled("tvm-scheduled").options()["target"])
