import pytest

from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.taps import TapMap
from kokoro_nb.backends.tvm import Tvm, targets, tvm_passes
from kokoro_nb.backends.tvm.compiled_program import TvmProgram
from kokoro_nb.backends.tvm.importer import relax_module


@pytest.fixture(autouse=True)
def _tvm_is_here():
    reason = Tvm("tvm").available()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def here():
    """TVM's target for this processor."""
    return targets.target(targets.this_processor())


@pytest.fixture(scope="session")
def run(here):
    """Take a module through our importer and the compiler, in memory, without the schedules, and run it once."""

    def run(module, inputs, fused=True, observer=None):
        import tvm

        exported = as_exported(module, inputs, "tvm")
        assert isinstance(exported, Exported), str(exported)
        built = tvm_passes.compiled(relax_module(exported, observer=observer), here, fused=fused, scheduled=False)
        machine = tvm.relax.VirtualMachine(built, tvm.cpu())
        program = TvmProgram("tvm", machine, exported.inputs, exported.outputs, lambda: TapMap((), {}))
        return program.run(inputs)

    return run


@pytest.fixture(scope="session")
def run_bare(here):
    """Do the same with TVM alone, without any of our converters, and return the outputs in order."""

    def run(exported, inputs):
        import tvm
        from tvm.relax.frontend.torch import from_exported_program

        imported = from_exported_program(exported.program)
        built = tvm_passes.compiled(imported, here, scheduled=False)
        machine = tvm.relax.VirtualMachine(built, tvm.cpu())
        return [output.numpy() for output in machine["main"](*(tvm.runtime.tensor(x.numpy()) for x in inputs.values()))]

    return run
