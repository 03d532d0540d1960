import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from kokoro_nb.reporting.doctor import describe, doctor


@pytest.fixture
def report(monkeypatch):
    """The doctor's report with stand-ins for the runtimes, which take seconds to import."""

    def stand_in(name, **content):
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)

    def backend(absent=None, elsewhere=None):
        def noisy():
            print("harmless import noise")
            return absent

        return SimpleNamespace(available=noisy, executes=lambda: elsewhere if absent is None else pytest.fail("asked"))

    from kokoro_nb.backends import base

    stand_in(
        "kokoro_nb.backends",
        BACKENDS={
            "eager": backend(),
            "coreml": backend(elsewhere="Core ML predicts on macOS only."),
            "tvm": backend(absent="TVM is not installed."),
        },
        PURPOSES={"eager": "the reference", "coreml": "Apple's devices", "tvm": "to measure what ships"},
        base=base,
    )
    stand_in("kokoro_nb.models.kokoro", reachable_weights=lambda: {"seeded": None, "hexgrad/Kokoro-82M": "no network"})
    stand_in("kokoro_nb.listening.recogniser", whisper_available=lambda name: f"{name} is not cached")
    return doctor()


def test_each_part_says_none_or_why_not(report):
    macos, absent = "Core ML predicts on macOS only.", "TVM is not installed."
    assert report["backends"] == {
        "eager": {"purpose": "the reference", "exports": None, "runs": None},
        "coreml": {"purpose": "Apple's devices", "exports": None, "runs": macos},
        "tvm": {"purpose": "to measure what ships", "exports": absent, "runs": absent},
    }
    assert report["weights"] == {"seeded": None, "hexgrad/Kokoro-82M": "no network"}
    assert report["whisper"]["tiny.en"] == "tiny.en is not cached"
    assert report["memory"] > 2**27
    assert report["versions"]["python"] == report["python"]


def test_the_text_names_what_is_ready_and_the_reason_for_the_rest(report, capsys):
    assert json.loads(json.dumps(report)) == report
    assert capsys.readouterr().out == ""
    lines = describe(report).splitlines()
    assert {
        *("  eager   ready", "  coreml  builds here, runs elsewhere: Core ML predicts on macOS only."),
        *("  tvm     absent: TVM is not installed.", "  seeded              ready", "  tvm     to measure what ships"),
    } <= set(lines)
