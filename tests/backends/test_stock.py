"""What each backend makes is what the vendor's plain call makes in a process that never imported the package."""

import inspect
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import export_program
from kokoro_nb.run_apart import run_apart
from tests.backends.small import present

BYTES = ("onnxruntime", "executorch-xnnpack", "executorch-portable")  # these tools write the same file each time
BITS = ("tvm", "tvm-unfused")


def _plain():
    """Return the module under the name that it has in the other process: ONNX files name the classes of modules."""
    spec = spec_from_file_location("plain_exports", Path(__file__).with_name("plain_exports.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain_exports = _plain()
MODULES, CORE_ML = plain_exports.modules(), plain_exports.core_ml_cases()


def _call(*arguments, function="main"):
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import plain_exports; "
    code += f"plain_exports.{function}(*{[str(one) for one in arguments]!r}); assert 'kokoro_nb' not in sys.modules"
    done = run_apart(["-c", code])
    assert done.status == 0, done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the folder with what the plain calls make."""
    folder = tmp_path_factory.mktemp("plain")
    _call(folder)
    return folder


@pytest.fixture(scope="module")
def exported():
    """Return name -> each module as the package exports it."""
    x = plain_exports.inputs()
    named = {name: {next(iter(inspect.signature(one.forward).parameters)): x} for name, one in MODULES.items()}
    return {name: (export_program(one, named[name]), named[name]) for name, one in MODULES.items()}


@pytest.mark.parametrize("backend", BYTES)
@pytest.mark.parametrize("name", MODULES)
def test_the_file_is_that_of_the_plain_call(name, backend, plain, exported, tmp_path):
    program, inputs = exported[name]
    made = BACKENDS[backend].export(program, inputs, tmp_path)
    suffix = ".onnx" if backend == "onnxruntime" else ".pte"
    assert made.path.read_bytes() == (plain / f"{name}.{backend}{suffix}").read_bytes()


def _assert_same_bits(backend, exported, path, folder):
    program, inputs = exported
    found = BACKENDS[backend].load(BACKENDS[backend].export(program, inputs, folder)).run(inputs)
    np.testing.assert_array_equal(next(iter(found.values())), np.load(path))


@pytest.mark.parametrize("backend", BITS)
@pytest.mark.parametrize("name", MODULES)
def test_the_outputs_are_those_of_the_plain_call(name, backend, plain, exported, tmp_path):
    _assert_same_bits(backend, exported[name], plain / f"{name}.{backend}.npy", tmp_path)


@pytest.mark.slow  # each of the two takes half a minute to compile
def test_the_outputs_of_inductor_are_those_of_the_plain_call(exported, tmp_path):
    _call(tmp_path, function="compiled")
    _assert_same_bits("aot-inductor", exported["phase"], tmp_path / "phase.aot-inductor.npy", tmp_path)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Return the folder of the Core ML packages that the plain calls make."""
    present("coreml").export(*CORE_ML["layers"], tmp_path_factory.mktemp("first"))  # a failure before left no names
    folder = tmp_path_factory.mktemp("packages")
    _call(folder, function="core_ml")
    return folder


def _package(path):
    """Return the specification of a saved model without its date, and its weights."""
    import coremltools as ct

    spec = ct.utils.load_spec(str(path))
    spec.description.metadata.userDefined.pop("com.github.apple.coremltools.conversion_date", None)
    weights = {one.name: one.read_bytes() for one in path.rglob("*.bin")}
    return spec.SerializeToString(deterministic=True), weights


@pytest.mark.parametrize("kind", ["coreml", "coreml-float32", "coreml-trace"])
@pytest.mark.parametrize("name", CORE_ML)
def test_the_package_is_that_of_the_plain_call(name, kind, packages, tmp_path):
    made = present(kind).export(*CORE_ML[name], tmp_path)
    assert _package(made.path) == _package(packages / f"{name}-{kind}.mlpackage")
