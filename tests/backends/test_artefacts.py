import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb import cache_keys
from kokoro_nb.backends import BACKENDS, artefacts
from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.storage import read_json

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Identity(nn.Module):
    def forward(self, x):
        return x


FILE_BACKENDS = [name for name, backend in BACKENDS.items() if isinstance(backend, FileBackend)]


@pytest.fixture(params=FILE_BACKENDS)
def file_backend(request):
    reason = BACKENDS[request.param].available()
    if reason is not None:
        pytest.skip(reason)
    return BACKENDS[request.param]


@pytest.fixture
def onnxruntime():
    reason = BACKENDS["onnxruntime"].available()
    if reason is not None:
        pytest.skip(reason)
    return BACKENDS["onnxruntime"]


@pytest.fixture(scope="module")
def exported():
    return export_program(Identity(), X)


@pytest.fixture(scope="module")
def sound(exported, tmp_path_factory):
    """An artefact of each backend, made once and never touched."""
    folder = tmp_path_factory.mktemp("sound")
    return lambda backend: backend.export(exported, X, folder)


def test_memory_is_given_back_after_a_large_export_was_made(onnxruntime, exported, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(artefacts, "give_back_memory", lambda: given.append(None))
    made = onnxruntime.export(exported, X, tmp_path / "small")
    assert given == []
    monkeypatch.setattr(artefacts, "LARGE", made.size - 1)
    for _ in range(2):
        onnxruntime.export(exported, X, tmp_path / "large")
    assert len(given) == 1, "the second comes from the cache"


def test_the_second_export_comes_from_the_cache(file_backend, exported, tmp_path):
    first = file_backend.export(exported, X, tmp_path)
    again = file_backend.export(Identity(), X, tmp_path)
    assert (first.cached, again.cached) == (False, True)
    assert replace(again, cached=False) == first
    model = [path.stat().st_size for path in _files(first) if path.name != "taps.json"]
    assert first.size == sum(model) > 0


def _files(artifact):
    """Return the files of an artefact, the largest first; where the format is a folder there are several."""
    found = (path for path in artifact.path.parent.rglob("*") if path.is_file() and path.name != "meta.json")
    return sorted(found, key=lambda path: -path.stat().st_size)


def _damages():
    """Combine backends and damages; what is looked at is the same for all, so that few are quick ones."""
    for backend in FILE_BACKENDS:
        for damage in ("half", "flipped", "gone", "meta", "swapped"):
            quick = damage in ("half", "flipped") and backend not in ("aot-inductor", "executorch-vulkan")
            yield pytest.param(backend, damage, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("file_backend", "damage"), _damages(), indirect=["file_backend"])
def test_a_damaged_artefact_is_made_again(file_backend, damage, exported, sound, tmp_path):
    whole = sound(file_backend).path.parent
    shutil.copytree(whole, tmp_path / whole.name)
    copy = file_backend.export(exported, X, tmp_path)
    assert copy.cached  # a copy is as good as the original
    path, meta = _files(copy)[0], copy.path.with_name("meta.json")
    raw = path.read_bytes()
    middle = len(raw) // 2
    if damage == "half":
        path.write_bytes(raw[:middle])
    elif damage == "flipped":
        path.write_bytes(raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :])
    elif damage == "gone":
        path.unlink()
    elif damage == "meta":
        meta.write_text(meta.read_text()[:100])
    else:
        meta.write_text(meta.read_text().replace('"output"', '"audio"'))
    again = file_backend.export(exported, X, tmp_path)
    assert not again.cached
    assert again.path == copy.path
    if file_backend.executes() is None:
        np.testing.assert_allclose(file_backend.load(again).run(X)["output"], X["x"], atol=1e-3)  # some keep float16
    assert file_backend.export(exported, X, tmp_path).cached


def test_a_missing_artefact_is_not_loaded(file_backend, sound):
    if file_backend.executes() is not None:
        pytest.skip(file_backend.executes())
    made = sound(file_backend)
    with pytest.raises(InputError, match="no longer there"):
        file_backend.load(replace(made, path=made.path.with_name("gone")))


def test_a_file_in_place_of_the_folder_is_refused(file_backend, exported, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="is a file; give a folder"):
        file_backend.export(exported, X, tmp_path / "taken")


def test_the_meta_says_what_was_made_from_what(onnxruntime, exported, tmp_path):
    made = onnxruntime.export(exported, X, tmp_path)
    meta = read_json(made.path.with_name("meta.json"), "meta")
    assert made.path.parent.name == f"onnxruntime-{meta['key'][:16]}"
    assert meta["inputs"] == [{"name": "x", "shape": [1, 3, 4], "dtype": "float32", "open": []}]
    assert meta["outputs"] == ["output"]
    assert list(meta["versions"]) == ["torch", "onnx", "onnxscript", "onnxruntime"]
    assert torch.__version__.startswith(meta["versions"]["torch"].partition("+")[0])
    assert meta["files"]["model.onnx"]["bytes"] == made.size
    assert list(meta["seconds"]) == ["exported", "lowered", "serialised"]


def test_another_version_of_a_runtime_is_another_artefact(onnxruntime, exported, tmp_path, monkeypatch):
    first = onnxruntime.export(exported, X, tmp_path)
    monkeypatch.setattr(cache_keys, "_version", lambda package: "0.0")
    second = onnxruntime.export(exported, X, tmp_path)
    assert not second.cached
    assert second.path != first.path


def test_other_code_of_ours_makes_another_artefact(onnxruntime, exported, tmp_path, monkeypatch):
    first = onnxruntime.export(exported, X, tmp_path)
    monkeypatch.setattr(cache_keys, "code_digest", lambda *rooms: "another")
    assert onnxruntime.export(exported, X, tmp_path).path != first.path


def test_the_default_folder_is_in_the_cache(onnxruntime, exported, tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path / "cache"))
    made = onnxruntime.export(exported, X)
    assert made.path.parent.parent == tmp_path / "cache" / "artefacts"


def test_the_meta_names_the_weights(tmp_path):
    module = torch.nn.Linear(2, 2)
    module.weights_label = "seeded (random)"
    artifact = BACKENDS["onnxruntime"].export(module, {"input": torch.ones(1, 2)}, tmp_path)
    assert read_json(artifact.path.parent / "meta.json", "meta")["weights"] == ["seeded (random)"]
