"""What a delivery asks for, and the name under which the cache keeps it; nothing is exported here."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kokoro_nb import cache_keys
from kokoro_nb.backends import backend
from kokoro_nb.delivery import export
from kokoro_nb.delivery.export import FRAME_RATE, Delivery, deliver, delivered_folder
from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import EXPORT_PATCHES, FAST_PATCHES

REQUEST = Delivery("onnxruntime")
ABSENT = {"tvm": "tvm is absent.", "eager": "eager is absent."}
KOKORO = SimpleNamespace(weights=SimpleNamespace(sha256="of the weights"), default_voice="af")


def test_a_frame_is_a_fortieth_of_a_second_and_buckets_are_in_order():
    assert FRAME_RATE == 40
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
    found += [folder(voices=("bf",)), folder(voices=("", "bf")), folder(tokens=255), folder(seconds=(3.0,))]
    found += [folder(g2p="misaki"), folder(fast=True)]
    for place, name, value in (
        *((export, "EXPORT_PATCHES", ()), (export, "FAST_PATCHES", ()), (export, "SCHEMA", -1)),
        *((cache_keys, "code_digest", lambda *rooms: "another"), (cache_keys, "_version", lambda package: "0.0")),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(place, name, value)
            found.append(folder())
    assert len(set(found)) == len(found)
    assert all(one.parent == tmp_path / "delivered" for one in found)
    assert {len(one.name) for one in found} == {16}
    assert folder() == found[0] == folder(voices=("af",)), "the default voice has the name of that voice"


def test_code_and_the_versions_of_both_runtimes_are_in_the_name(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    two = replace(REQUEST, backend="executorch-xnnpack", host="onnxruntime")
    asked = {}
    monkeypatch.setattr(export, "cache_key", lambda about, rooms, packages: asked.update(p=packages, r=rooms) or "k")
    assert delivered_folder(KOKORO, two) == tmp_path / "delivered" / "k"
    assert set(asked["r"]) == {"models", "backends", "delivery"}
    assert asked["p"] == sorted({"torch", *backend("executorch-xnnpack").packages, *backend("onnxruntime").packages})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seconds": ()}, r"Buckets of \[\] s; give one or more of at least 0.05 s each"),
        ({"seconds": (3.0, 0.049)}, "at least 0.05"),
        ({"seconds": (float("nan"),)}, "at least 0.05"),
        ({"tokens": 513}, "Room for 513 tokens; give 3 to 512"),
    ],
)
def test_a_size_that_is_no_good_is_refused(changed, told, tmp_path):
    with pytest.raises(InputError, match=told):
        deliver(KOKORO, replace(REQUEST, **changed), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    for least in ({"tokens": 3}, {"tokens": 512}, {"seconds": (0.05,)}):
        export._check(replace(REQUEST, **least))


def test_runtimes_that_are_absent_are_named_each_once(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "backend", lambda name: SimpleNamespace(available=lambda: ABSENT.get(name)))
    for host, runtime in (("tvm", "eager"), ("eager", "eager"), ("onnxruntime", "eager"), ("eager", "onnxruntime")):
        told = "tvm is absent. eager is absent." if host == "tvm" else "eager is absent."
        with pytest.raises(InputError, match=f"^{re.escape(told)}$"):
            deliver(KOKORO, replace(REQUEST, host=host, backend=runtime), tmp_path / "new")
