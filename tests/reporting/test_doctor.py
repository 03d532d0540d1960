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

    def noisy():
        print("harmless import noise")

    from kokoro_nb.backends import base

    stand_in(
        "kokoro_nb.backends",
        BACKENDS={
            "eager": SimpleNamespace(available=noisy),
            "coreml": SimpleNamespace(available=lambda: "Core ML executes on macOS only."),
        },
        base=base,
    )
    stand_in("kokoro_nb.models.kokoro", reachable_weights=lambda: {"seeded": None, "hexgrad/Kokoro-82M": "no network"})
    stand_in("kokoro_nb.listening.recogniser", whisper_available=lambda name: f"{name} is not cached")
    return doctor()


def test_each_part_says_none_or_why_not(report):
    assert report["backends"] == {"eager": None, "coreml": "Core ML executes on macOS only."}
    assert report["weights"] == {"seeded": None, "hexgrad/Kokoro-82M": "no network"}
    assert report["whisper"]["tiny.en"] == "tiny.en is not cached"
    assert report["memory"] > 2**27
    assert report["versions"]["python"] == report["python"]


def test_it_is_json_and_nothing_else_is_printed(report, capsys):
    assert json.loads(json.dumps(report)) == report
    assert capsys.readouterr().out == ""


def test_the_text_names_what_is_ready_and_the_reason_for_the_rest(report):
    text = describe(report)
    assert "  eager   ready" in text
    assert "  coreml  absent: Core ML executes on macOS only." in text
    assert "  seeded              ready" in text
