"""What people script with: the names at the top of the package."""

import subprocess
import sys

import pytest

import kokoro_nb


def _child(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_package_is_there_without_torch_and_numpy():
    heavy = "{'torch', 'numpy', 'onnx', 'tvm', 'coremltools', 'executorch', 'transformers'}"
    assert _child(f"import sys, kokoro_nb; print(*{heavy} & sys.modules.keys())") == []
    # and the control: what is imported on demand is seen
    assert "numpy" in _child(f"import sys, kokoro_nb; kokoro_nb.first_nonfinite; print(*{heavy} & sys.modules.keys())")


def test_the_public_names_are_the_ones_of_their_modules():
    from kokoro_nb.backends import BACKENDS
    from kokoro_nb.locate import first_divergence, first_nonfinite
    from kokoro_nb.models.kokoro import load_model

    assert kokoro_nb.BACKENDS is BACKENDS
    assert kokoro_nb.load_model is load_model
    assert (kokoro_nb.first_nonfinite, kokoro_nb.first_divergence) == (first_nonfinite, first_divergence)
    assert all(hasattr(kokoro_nb, name) for name in kokoro_nb.__all__)


def test_another_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="module 'kokoro_nb' has no attribute 'first_fault'"):
        kokoro_nb.first_fault  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'first_fault'"):
        from kokoro_nb import first_fault  # noqa: F401


def test_they_go_together_as_the_manual_says(tmp_path):
    import torch

    from kokoro_nb import BACKENDS, first_divergence, first_nonfinite

    module, inputs = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), {"input": torch.ones(1, 3)}
    backend = BACKENDS["eager"]
    program = backend.load(backend.export(module, inputs, tmp_path))
    trace = program.trace(inputs, taps="all", keep="full")
    assert first_nonfinite(trace).verdict == "pass"
    found = first_divergence(reference=trace, candidate=trace)
    assert (found.kind, found.verdict, found.tap, found.backend) == ("divergence", "pass", None, "eager")
    assert (found.channels, found.local_error, found.inherited_error, found.upstream) == ("", None, None, ())
    infinite = {"input": torch.full((1, 3), torch.inf)}
    found = first_nonfinite(program.trace(infinite))
    assert (found.tap.name, found.tap.op, found.tap.module_path) == ("0:linear", "aten.linear.default", "0")
