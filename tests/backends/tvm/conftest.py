from types import SimpleNamespace

import pytest

from kokoro_nb.backends.tvm.schedule.scheduled_tvm import TvmScheduled
from tests.backends.small import present


@pytest.fixture(autouse=True)
def _tvm_is_here():
    present("tvm")


@pytest.fixture(scope="session")
def here():
    """TVM's target for this processor."""
    from tvm.target import Target

    return Target(TvmScheduled("tvm-scheduled").options()["target"])


@pytest.fixture(scope="session")
def plan(here):
    """Return which rule takes each function of loops, and from how many places it is called."""
    from tvm import tirx

    from kokoro_nb.backends.tvm.schedule import call_sites, constants, scheduled_by
    from kokoro_nb.backends.tvm.schedule.loop_rules import Processor

    def plan(module):
        machine, sites = Processor.of(here), call_sites(module)
        functions = {name.name_hint: one for name, one in module.functions_items() if isinstance(one, tirx.PrimFunc)}
        calls = {name: sites.get(name, []) for name in functions}
        rules = {name: scheduled_by(one, machine, constants(calls[name]))[0] for name, one in functions.items()}
        return [SimpleNamespace(function=name, rule=rule, calls=len(calls[name])) for name, rule in rules.items()]

    return plan
