import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb import cache_keys
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import Tvm, TvmCross, TvmScheduled
from kokoro_nb.backends.tvm.importer import relax_module
from tests.backends.small import Layers, Of

X = {"x": torch.linspace(-1, 1, 24).reshape(1, 4, 6)}


CONV = Layers(nn.Conv1d(4, 2, 3))
CHAIN = Of(lambda x, weight: torch.sin(torch.conv1d(x, weight)).exp() + 1, torch.randn(2, 4, 3))


def test_the_artefact_is_a_shared_library_for_this_processor(tmp_path):
    made = Tvm("tvm").export(CONV, X, tmp_path)
    assert sorted(p.name for p in made.path.parent.iterdir()) == ["meta.json", "model.so", "taps.json"]
    assert made.path.read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")
    assert made.seconds.keys() == {"exported", "lowered", "serialised"}


def test_what_decides_the_content_decides_the_key(tmp_path, monkeypatch):
    given = {"input": X["x"]}
    # no convolution: on an AMD EPYC, TVM 0.27's own schedule of one makes code that LLVM's verifier refuses
    tvm, exported = Tvm("tvm"), export_program(nn.Sigmoid(), given)
    first = tvm.export(exported, given, tmp_path)
    assert tvm.export(exported, given, tmp_path).cached
    others = [replace(tvm, fused=False), TvmScheduled("tvm")]
    paths = {made.path for made in (first, *(other.export(exported, given, tmp_path) for other in others))}
    assert len(paths) == 3
    monkeypatch.setattr(cache_keys, "code_digest", lambda *rooms: "our own code was changed")
    assert not tvm.export(exported, given, tmp_path).cached


def test_the_processor_is_named_with_its_cores(monkeypatch):
    monkeypatch.setattr("tvm.target.codegen.llvm_get_system_cpu", lambda: "neoverse-n1")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert TvmScheduled("tvm").options()["target"] == {"kind": "llvm", "mcpu": "neoverse-n1", "num-cores": 3}


def _unfused(exported, folder):
    tvm = Tvm("tvm-unfused", fused=False)
    return tvm.load(tvm.export(exported, X, folder))


def test_unfused_every_operator_is_a_call_that_can_be_seen(tmp_path):
    exported = export_program(CHAIN, X)
    trace = _unfused(exported, tmp_path).trace(X, keep="full")
    assert [tap.name for tap in trace.taps] == [":conv1d", ":sin", ":exp", ":add"]
    values = trace.values
    np.testing.assert_allclose(values[":sin"], np.sin(values[":conv1d"]), atol=1e-6)
    np.testing.assert_array_equal(values[":add"], trace.outputs["output"])


def test_watching_converters_changes_no_bit(tmp_path):
    exported = export_program(CHAIN, X)
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    plain = from_exported_program(exported.program)
    tvm.ir.assert_structural_equal(relax_module(exported.program), plain)
    machine = tvm.relax.VirtualMachine(tvm.compile(plain, target="llvm"), tvm.cpu())
    expected = machine["main"](tvm.runtime.tensor(X["x"].numpy()))[0].numpy()
    np.testing.assert_array_equal(_unfused(exported, tmp_path).run(X)["output"], expected)


def test_a_refusal_says_at_which_node():
    def running(x):
        ring = x.clone()
        ring[:, torch.tensor([0, 1])] = -x[:, :2]
        return ring

    with pytest.raises(ValueError, match="IndexPut") as caught:
        relax_module(export_program(Of(running), X).program)
    assert "(index_put.default) in the module" in caught.value.__notes__[0]


def test_without_tvm_the_reason_is_given_and_the_export_is_a_record(tmp_path, monkeypatch):
    exported = export_program(CONV, X)
    for name in [name for name in sys.modules if name == "tvm" or name.startswith("tvm.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tvm", None)  # importing it now raises ImportError
    for candidate in (Tvm("tvm"), TvmCross("tvm-metal", machine="metal")):
        assert "install it with pip install 'kokoro_nb[tvm]'" in candidate.available()
        failure = candidate.export(exported, X, tmp_path)
        assert (failure.rung, failure.error) == ("lowered", "ModuleNotFoundError")


def test_without_a_linker_the_reason_is_given(monkeypatch):
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    assert "install gcc or clang" in Tvm("tvm").available()
    assert TvmCross("tvm-arm64-macos", machine="arm64-macos").available() is None


def test_assertions_of_tvm_itself_are_no_calls_of_the_program(tmp_path):
    class Coded(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(x, 4).to(torch.float32) * 2

    exported = export_program(Coded(), {"x": torch.tensor([[1, 3, 0]])})
    backend = Tvm("tvm-unfused", fused=False)
    trace = backend.load(backend.export(exported, {"x": torch.tensor([[1, 3, 0]])}, tmp_path)).trace(
        {"x": torch.tensor([[1, 3, 0]])}, keep="full"
    )
    np.testing.assert_array_equal(trace.values[":mul"], 2 * np.eye(4, dtype=np.float32)[[[1, 3, 0]]])
