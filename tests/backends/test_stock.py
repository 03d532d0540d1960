"""What each backend makes is what the vendor's plain call makes in a process that never imported the package."""

import inspect
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import export_program

PLAIN = Path(__file__).with_name("plain_exports.py")
BYTES = ("onnxruntime", "executorch-xnnpack", "executorch-portable")  # these tools write the same file each time
BITS = ("tvm", "tvm-unfused", "aot-inductor")


def _plain():
    spec = spec_from_file_location("plain_exports", PLAIN)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = _plain().modules()


def _call(*arguments):
    code = f"import sys; sys.path.insert(0, {str(PLAIN.parent)!r}); import plain_exports; "
    code += f"plain_exports.main(*{[str(one) for one in arguments]!r}); assert 'kokoro_nb' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the folder with what the plain calls make."""
    folder = tmp_path_factory.mktemp("plain")
    _call(folder)
    return folder


@pytest.fixture(scope="module")
def exported():
    """Return name -> each module as the package exports it."""
    x = _plain().inputs()
    named = {name: {next(iter(inspect.signature(one.forward).parameters)): x} for name, one in MODULES.items()}
    return {name: (export_program(one, named[name]), named[name]) for name, one in MODULES.items()}


@pytest.mark.parametrize("backend", BYTES)
@pytest.mark.parametrize("name", MODULES)
def test_the_file_is_that_of_the_plain_call(name, backend, plain, exported, tmp_path):
    program, inputs = exported[name]
    made = BACKENDS[backend].export(program, inputs, tmp_path)
    suffix = ".onnx" if backend == "onnxruntime" else ".pte"
    assert made.path.read_bytes() == (plain / f"{name}.{backend}{suffix}").read_bytes()


@pytest.mark.parametrize("backend", BITS)
@pytest.mark.parametrize("name", MODULES)
def test_the_outputs_are_those_of_the_plain_call(name, backend, plain, exported, tmp_path):
    if backend == "aot-inductor" and name not in ("linear", "phase"):
        pytest.skip("each takes half a minute to compile")
    program, inputs = exported[name]
    found = BACKENDS[backend].load(BACKENDS[backend].export(program, inputs, tmp_path)).run(inputs)["output"]
    np.testing.assert_array_equal(found, np.load(plain / f"{name}.{backend}.npy"))


def test_a_decoder_is_that_of_the_plain_call(shallow, shallow_case, tmp_path):
    from kokoro_nb.studies.decoder import decoder_program

    decoder = decoder_program(shallow.model, shallow_case, 8)
    program, inputs = decoder.program, decoder.inputs
    torch.export.save(program.program, tmp_path / "decoder.pt2")
    _call(tmp_path, tmp_path / "decoder.pt2")
    runtime = BACKENDS["tvm"]
    found = runtime.load(runtime.export(program, inputs, tmp_path)).run(inputs)
    np.testing.assert_array_equal(next(iter(found.values())), np.load(tmp_path / "saved.tvm.npy"))
    made = BACKENDS["executorch-xnnpack"].export(program, inputs, tmp_path)
    assert made.path.read_bytes() == (tmp_path / "saved.executorch-xnnpack.pte").read_bytes()


def test_another_file_is_noticed(plain):
    one, other = (plain / f"{name}.onnxruntime.onnx" for name in ("linear", "phase"))
    assert one.read_bytes() != other.read_bytes()
