import math
import sys
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends import BACKENDS
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
    monkeypatch.setattr(tvm_backend, "source", lambda: "our own code was changed")
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


class Step(nn.Module):
    """A step of a streaming transformer: rotary positions, a cache that is written to, attention, gelu, a norm."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x, cache, position):
        q, k, v = (part.reshape(1, 1, 2, 8) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        angle = position * torch.exp(torch.arange(4) * (-math.log(1e4) / 4))
        q, k = (self._turned(part, angle) for part in (q, k))
        cache = cache.index_copy(2, position, torch.stack([k, v]))
        seen = torch.arange(cache.shape[2]) <= position
        k, v = (part.transpose(1, 2) for part in cache)
        attended = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=seen[None, None, None])
        x = x + self.out(attended.transpose(1, 2).reshape(1, 1, 16))
        x = x + self.down(F.gelu(self.up(x), approximate="tanh"))
        return {"output": F.elu(torch.roll(x, 1, -1)), "cache": cache, "position": position + 1}

    def _turned(self, x, angle):
        a, b = x[..., :4], x[..., 4:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


def test_a_step_with_a_cache_agrees_with_eager(run):
    torch.manual_seed(1)
    inputs = {"x": torch.randn(1, 1, 16), "cache": torch.zeros(2, 1, 5, 2, 8), "position": torch.tensor([0])}
    double, step = BACKENDS["eager-float64"], Step()
    expected = double.load(double.export(step, inputs)).run(inputs)
    found = run(step, inputs)
    assert found["position"].tolist() == [1]
    for name, value in found.items():
        # six layers of rounding of numbers near 1
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=2e-6)
