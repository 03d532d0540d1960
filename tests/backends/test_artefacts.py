import shutil

import numpy as np
import pytest
import torch

from kokoro_nb.backends import artefacts
from kokoro_nb.backends.exported import export_program
from tests.backends.small import Of, present

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


@pytest.fixture(scope="module")
def exported():
    return export_program(Of(lambda x: x), X)


def test_memory_is_given_back_after_a_large_export_was_made(exported, tmp_path, monkeypatch):
    onnxruntime, given = present("onnxruntime"), []
    monkeypatch.setattr(artefacts, "give_back_memory", lambda: given.append(None))
    made = onnxruntime.export(exported, X, tmp_path / "small")
    assert given == []
    monkeypatch.setattr(artefacts, "LARGE", made.size - 1)
    for _ in range(2):
        onnxruntime.export(exported, X, tmp_path / "large")
    assert len(given) == 1, "the second comes from the cache"


def _files(artifact):
    """Return the files of an artefact, the largest first; where the format is a folder there are several."""
    found = (path for path in artifact.path.parent.rglob("*") if path.is_file() and path.name != "meta.json")
    return sorted(found, key=lambda path: -path.stat().st_size)


# one for each form: a file, a file for the delegate, a folder, a library, and one with another file beside it
@pytest.mark.parametrize("name", ["onnxruntime", "executorch-xnnpack", "coreml", "tvm", "tvm-opencl"])
def test_a_damaged_artefact_is_made_again(name, exported, tmp_path):
    file_backend = present(name)
    whole = file_backend.export(exported, X, tmp_path / "sound").path.parent
    shutil.copytree(whole, tmp_path / whole.name)
    copy = file_backend.export(exported, X, tmp_path)
    assert copy.cached  # a copy is as good as the original
    assert copy.size == sum(path.stat().st_size for path in _files(copy) if path.name != "taps.json") > 0
    path = _files(copy)[0]
    raw = path.read_bytes()
    middle = len(raw) // 2
    path.write_bytes(raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :])
    again = file_backend.export(exported, X, tmp_path)
    assert not again.cached
    assert again.path == copy.path
    if file_backend.executes() is None:
        np.testing.assert_allclose(file_backend.load(again).run(X)["output"], X["x"], atol=1e-3)  # some keep float16
    assert file_backend.export(exported, X, tmp_path).cached
