import subprocess
import sys

import pytest

from kokoro_nb import backends
from kokoro_nb.errors import InputError


def test_the_registry_is_keyed_by_name():
    assert all(name == backend.name for name, backend in backends.BACKENDS.items())


def test_a_backend_is_found_by_name():
    assert backends.backend("onnxruntime") is backends.BACKENDS["onnxruntime"]
    assert backends.backend("coreml-reference-float16") is backends.BACKENDS["coreml-reference"]
    with pytest.raises(InputError, match="no backend 'onnx'; the backends are eager, eager-float64, onnxruntime"):
        backends.backend("onnx")


def test_importing_them_loads_no_runtime_and_not_torch():
    heavy = "('torch', 'onnx', 'onnxruntime', 'executorch', 'tvm', 'coremltools', 'kokoro')"
    code = f"import sys, kokoro_nb.backends, kokoro_nb.backends.ladder; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
