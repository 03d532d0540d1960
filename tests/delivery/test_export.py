"""What a delivery asks for, the name under which the cache keeps it, and the hub; nothing is exported here."""

import re
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from kokoro_nb import cache_keys
from kokoro_nb.backends import BACKENDS, backend
from kokoro_nb.delivery import export
from kokoro_nb.delivery.export import Delivery, deliver, delivered_folder, speak_all
from kokoro_nb.delivery.hub import DEVICE, OPTIONS, TOKEN, hub_available, submit
from kokoro_nb.models.case import capture, decode
from kokoro_nb.models.patches import EXPORT_PATCHES, FAST_PATCHES
from tests.refusals import refused

REQUEST = Delivery("onnxruntime")
ABSENT = {"tvm": "tvm is absent.", "eager": "eager is absent."}
KOKORO = SimpleNamespace(weights=SimpleNamespace(sha256="of the weights"), default_voice="af")


def test_buckets_are_in_order_and_a_frame_is_a_fortieth_of_a_second():
    assert REQUEST.buckets == {"3s": 120, "10s": 400, "45s": 1800}
    assert replace(REQUEST, seconds=(2.01, 0.5, 2.01)).buckets == {"0.5s": 20, "2.01s": 80}


def test_the_host_runs_all_but_the_decoder():
    two = replace(REQUEST, backend="executorch-xnnpack", host="onnxruntime", fast=True)
    assert two.runtime("decoder_3s") is backend("executorch-xnnpack")
    assert two.runtime("duration") is two.runtime("prosody_3s") is two.runtime("source_3s") is backend("onnxruntime")
    assert REQUEST.runtime("duration") is backend("onnxruntime")
    assert two.patches("decoder_3s") == (*EXPORT_PATCHES, *FAST_PATCHES)
    assert two.patches("duration") == REQUEST.patches("decoder_3s") == EXPORT_PATCHES


def folder(kokoro=KOKORO, **changed):
    return delivered_folder(kokoro, replace(REQUEST, **changed))


def test_all_that_decides_a_delivery_is_in_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    other = SimpleNamespace(weights=SimpleNamespace(sha256="of others"), default_voice="af")
    found = [folder(), folder(other), folder(backend="eager"), folder(host="eager"), folder(at_har=True)]
    found += [folder(voices=("bf",)), folder(tokens=255), folder(seconds=(3.0,)), folder(g2p="misaki")]
    found += [folder(fast=True)]
    for place, name, value in (
        *((export, "EXPORT_PATCHES", ()), (export, "FAST_PATCHES", ()), (export, "SCHEMA", -1)),
        *((cache_keys, "code_digest", lambda *rooms: "another"), (cache_keys, "_version", lambda package: "0.0")),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(place, name, value)
            found.append(folder())
    assert len(set(found)) == len(found)
    assert folder() == found[0] == folder(voices=("af",)), "the default voice has the name of that voice"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seconds": ()}, r"Buckets of \[\] s; give one or more of at least 0.05 s each"),
        ({"seconds": (float("nan"),)}, "at least 0.05"),
        ({"tokens": 513}, "Room for 513 tokens; give 3 to 512"),
    ],
)
def test_a_size_that_is_no_good_is_refused(changed, told, tmp_path):
    refused(told, deliver, KOKORO, replace(REQUEST, **changed), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    for least in ({"tokens": 3}, {"tokens": 512}, {"seconds": (0.05,)}):
        export._check(replace(REQUEST, **least))


def test_runtimes_that_are_absent_are_named_each_once(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "backend", lambda name: SimpleNamespace(available=lambda: ABSENT.get(name)))
    for host, runtime in (("tvm", "eager"), ("eager", "eager"), ("onnxruntime", "eager"), ("eager", "onnxruntime")):
        told = "tvm is absent. eager is absent." if host == "tvm" else "eager is absent."
        refused(f"^{re.escape(told)}$", deliver, KOKORO, replace(REQUEST, host=host, backend=runtime), tmp_path / "new")


@pytest.fixture
def client(monkeypatch):
    """Stand for the client: it notes what it is asked."""
    fake = Mock(Device=lambda name: f"device {name}", **{"submit_profile_job.return_value": "job"})
    fake.submit_compile_job.return_value.get_target_model.return_value = "compiled"
    fake.__spec__ = ModuleSpec("qai_hub", None)
    monkeypatch.setitem(sys.modules, "qai_hub", fake)
    monkeypatch.setenv(TOKEN, "secret")
    return fake


def test_without_a_token_nothing_is_sent(client, monkeypatch, tmp_path):
    monkeypatch.delenv(TOKEN)
    assert TOKEN in hub_available()
    refused("is not set", submit, tmp_path / "model.onnx")
    assert not client.mock_calls


def test_a_file_is_compiled_and_profiled(client, tmp_path):
    (tmp_path / "model.onnx").touch()
    assert submit(tmp_path / "model.onnx") == "job"
    device = f"device {DEVICE}"
    client.submit_compile_job.assert_called_once_with(
        model=str(tmp_path / "model.onnx"), device=device, options=OPTIONS
    )
    client.submit_profile_job.assert_called_once_with(model="compiled", device=device)
    refused("no file", submit, tmp_path / "none.onnx")


def test_one_program_speaks_utterances_of_any_length(shallow, shallow_case):
    other = capture(shallow, "No.", "", g2p="espeak", seed=1)
    assert other.frames != shallow_case.frames
    (spoken,) = speak_all(shallow.model, [shallow_case, other], ["eager"])
    for case, audio in zip((shallow_case, other), spoken.audio, strict=True):
        plain = decode(shallow.model, case, EXPORT_PATCHES)
        # the phase of the source makes much of a rounding, so level and likeness are asked for, not equality
        assert audio.shape == plain.shape
        assert np.corrcoef(audio, plain)[0, 1] > 0.99


def test_a_runtime_that_is_not_here_says_so(shallow, shallow_case, monkeypatch):
    monkeypatch.setattr(type(BACKENDS["onnxruntime"]), "available", lambda self: "it is not installed")
    (silent,) = speak_all(shallow.model, [shallow_case], ["onnxruntime"])
    assert (silent.audio, silent.reason) == ((), "it is not installed")
