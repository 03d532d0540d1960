import sys
from dataclasses import replace

import torch
from torch import nn

from kokoro_nb import cache_keys
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.tvm import Tvm, TvmCross, tvm_backend

X = {"x": torch.linspace(-1, 1, 24).reshape(1, 4, 6)}


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 2, 3)

    def forward(self, x):
        return self.conv(x)


def test_the_artefact_is_a_shared_library_for_this_processor(tmp_path):
    made = Tvm("tvm").export(Conv(), X, tmp_path)
    assert sorted(p.name for p in made.path.parent.iterdir()) == ["meta.json", "model.so", "taps.json"]
    assert made.path.read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")
    assert made.seconds.keys() == {"exported", "lowered", "serialised"}


def test_what_decides_the_content_decides_the_key(tmp_path, monkeypatch):
    given = {"input": X["x"]}
    # no convolution: on an AMD EPYC, TVM 0.27's own schedule of one makes code that LLVM's verifier refuses
    tvm, exported = Tvm("tvm"), export_program(nn.Sigmoid(), given)
    first = tvm.export(exported, given, tmp_path)
    assert tvm.export(exported, given, tmp_path).cached
    others = [replace(tvm, fused=False), replace(tvm, scheduled=False)]
    paths = {made.path for made in (first, *(other.export(exported, given, tmp_path) for other in others))}
    assert len(paths) == 3
    monkeypatch.setattr(cache_keys, "code_digest", lambda *rooms: "our own code was changed")
    assert not tvm.export(exported, given, tmp_path).cached


def test_the_processor_is_named_with_its_cores(monkeypatch):
    monkeypatch.setattr("tvm.target.codegen.llvm_get_system_cpu", lambda: "neoverse-n1")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert Tvm("tvm").options()["target"] == {"kind": "llvm", "mcpu": "neoverse-n1", "num-cores": 3}


def test_the_graph_is_run_without_a_file_and_without_fusion(monkeypatch):
    asked = []
    compiled = tvm_backend.tvm_passes.compiled

    def note(module, target, fused, scheduled, listing):
        asked.append((fused, scheduled))
        return compiled(module, target, fused, scheduled, listing)

    monkeypatch.setattr(tvm_backend.tvm_passes, "compiled", note)
    tvm = Tvm("tvm")
    found = tvm.graph(export_program(Conv().eval(), X)).run(X)["output"]
    assert tvm.form == "Relax"
    assert asked == [(False, False)]
    assert found.shape == (1, 2, 4)


def test_without_tvm_the_reason_is_given_and_the_export_is_a_record(tmp_path, monkeypatch):
    exported = export_program(Conv(), X)
    for name in [name for name in sys.modules if name == "tvm" or name.startswith("tvm.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tvm", None)  # importing it now raises ImportError
    for candidate in (Tvm("tvm"), TvmCross("tvm-metal", machine="metal")):
        assert "install apache-tvm" in candidate.available()
        failure = candidate.export(exported, X, tmp_path)
        assert (failure.rung, failure.error) == ("lowered", "ModuleNotFoundError")


def test_without_a_linker_the_reason_is_given(monkeypatch):
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    assert "install gcc or clang" in Tvm("tvm").available()
    assert TvmCross("tvm-arm64-macos", machine="arm64-macos").available() is None
