"""The public surface: a few names, imported when they are used, that go together as the README says."""

import sys

import numpy as np
import pytest
import torch

import kokoro_nb as nb

NET = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
X = {"input": torch.linspace(-2, 2, 6).reshape(2, 3)}


def test_there_are_at_most_twenty_and_each_is_there():
    assert len(nb.__all__) <= 20
    assert sorted(nb.__all__) == sorted(nb._HOMES)
    assert all(hasattr(nb, name) for name in nb.__all__)


def test_another_name_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="module 'kokoro_nb' has no attribute 'first_fault'; it has BACKENDS,"):
        nb.first_fault  # noqa: B018


def test_a_module_is_exported_traced_and_diagnosed(tmp_path):
    assert nb.export(NET, X, "onnxruntime", tmp_path).path.suffix == ".onnx"
    assert [tap.name for tap in nb.trace(NET, X).taps] == ["0:linear", "1:tanh"]
    found = nb.diagnose(NET, X, "onnxruntime", folder=tmp_path)
    assert isinstance(found, nb.Diagnosis)


def test_what_cannot_be_exported_cannot_be_traced(monkeypatch):
    monkeypatch.setattr(type(nb.BACKENDS["onnxruntime"]), "available", lambda self: "its package is missing.")
    with pytest.raises(nb.InputError, match="onnxruntime cannot export here: its package is missing"):
        nb.export(NET, X, "onnxruntime")
    with pytest.raises(nb.InputError, match="There is no backend 'onyx'"):
        nb.trace(NET, X, "onyx")


def test_what_cannot_be_compared_says_so(tmp_path):
    for names, sentence in (
        (("a.wav", "b.wav"), "There is no sound file at"),
        (("a.onnx", "b.wav"), "cannot be compared; give two folders"),
    ):
        with pytest.raises(nb.InputError, match=sentence):
            nb.compare(*(tmp_path / name for name in names))
    with pytest.raises(nb.InputError, match="give two paths or two arrays"):
        nb.compare(tmp_path / "a.wav", np.zeros(3))


@pytest.mark.parametrize(
    ("package", "verb"), [("librosa", lambda a: nb.compare(a, a, 24000)), ("whisper", lambda a: nb.transcribe(a))]
)
def test_an_absent_package_is_named_with_its_extra_by_each_verb(package, verb, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(nb.InputError, match=rf"^{package} is not installed; .* 'kokoro_nb\[workbook\]'"):
        verb(np.zeros(4800, np.float32))


def test_what_cannot_be_measured_is_one_sentence():
    with pytest.raises(nb.InputError, match="option of bench is not known"):
        nb.bench(seconds=1)
