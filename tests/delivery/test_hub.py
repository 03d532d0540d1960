import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

from kokoro_nb.delivery.hub import DEVICE, OPTIONS, TOKEN, hub_available, submit
from kokoro_nb.errors import InputError


@pytest.fixture
def client(monkeypatch):
    """Stand for the client: it notes what it is asked."""
    asked = []

    def compiling(**given):
        asked.append(("compile", given))
        return SimpleNamespace(get_target_model=lambda: "compiled")

    def profiling(**given):
        asked.append(("profile", given))
        return "job"

    fake = SimpleNamespace(
        Device=lambda name: f"device {name}",
        submit_compile_job=compiling,
        submit_profile_job=profiling,
        __spec__=ModuleSpec("qai_hub", None),
    )
    monkeypatch.setitem(sys.modules, "qai_hub", fake)
    monkeypatch.setenv(TOKEN, "secret")
    return asked


def test_without_a_token_nothing_is_sent(client, monkeypatch, tmp_path):
    monkeypatch.delenv(TOKEN)
    assert TOKEN in hub_available()
    with pytest.raises(InputError, match="is not set"):
        submit(tmp_path / "model.onnx")
    assert not client


def test_without_the_client_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setenv(TOKEN, "secret")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install qai-hub" in hub_available()


def test_a_file_is_compiled_and_profiled(client, tmp_path):
    (tmp_path / "model.onnx").touch()
    assert hub_available() is None
    assert submit(tmp_path / "model.onnx") == "job"
    compiled, profiled = client
    device = f"device {DEVICE}"
    assert compiled == ("compile", {"model": str(tmp_path / "model.onnx"), "device": device, "options": OPTIONS})
    assert profiled == ("profile", {"model": "compiled", "device": device})
    with pytest.raises(InputError, match="no file"):
        submit(tmp_path / "none.onnx")
