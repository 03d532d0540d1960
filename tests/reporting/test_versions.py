import json
import subprocess
from importlib import metadata
from types import SimpleNamespace

import pytest

from kokoro_nb.reporting import versions as module
from kokoro_nb.reporting.versions import commit, describe, doctor, versions
from kokoro_nb.traces.record import headed
from tests.refusals import refused


def test_versions_are_those_of_the_installed_requirements(monkeypatch):
    found = versions()
    assert found["torch"] == metadata.version("torch")
    assert {"python", "kokoro_nb", "onnxruntime"} <= set(found)
    assert "ruff" not in found, "tools do not decide a result"
    monkeypatch.setattr(module, "NAME", "kokoro_nb_not_installed")
    refused("pip install", versions)


def test_commit_marks_changes_and_is_none_outside_git(tmp_path, monkeypatch):
    package = tmp_path / "kokoro_nb"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kokoro_nb"\n')
    monkeypatch.setattr(module, "PACKAGE", package)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit() is None

    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first", "--no-gpg-sign")
    head = git("rev-parse", "HEAD")
    assert head.startswith(commit())
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kokoro_nb"\nversion = "2"\n')
    assert commit() == head[:12] + "-dirty"


def test_each_part_says_none_or_why_not_as_data_and_as_text(capsys, monkeypatch):
    def backend(absent=None, elsewhere=None):
        def noisy():
            print("harmless import noise")
            return absent

        return SimpleNamespace(available=noisy, executes=lambda: elsewhere if absent is None else pytest.fail("asked"))

    elsewhere, absent = backend(elsewhere="Core ML predicts on macOS only."), backend(absent="TVM is not installed.")
    purposes = {"eager": "the reference", "coreml": "Apple's devices", "tvm": "to measure what ships"}
    stood_in = {
        "backends.BACKENDS": {"eager": backend(), "coreml": elsewhere, "tvm": absent},
        "backends.PURPOSES": purposes,
        "models.kokoro.reachable_weights": lambda: {"seeded": None, "hexgrad/Kokoro-82M": "no network"},
        "listening.recogniser.whisper_available": lambda name: f"{name} is not cached",
    }
    for name, one in stood_in.items():
        monkeypatch.setattr(f"kokoro_nb.{name}", one)
    report = doctor()
    macos, absent = "Core ML predicts on macOS only.", "TVM is not installed."
    assert report["backends"] == {
        "eager": {"purpose": "the reference", "exports": None, "runs": None},
        "coreml": {"purpose": "Apple's devices", "exports": None, "runs": macos},
        "tvm": {"purpose": "to measure what ships", "exports": absent, "runs": absent},
    }
    assert report.items() <= json.loads(json.dumps(headed("doctor/1", **report))).items()
    assert capsys.readouterr().out == ""
    lines = describe(report).splitlines()
    assert {
        *("  eager   ready", "  coreml  builds here, runs elsewhere: Core ML predicts on macOS only."),
        *("  tvm     absent: TVM is not installed.", "  seeded              ready", "  tvm     to measure what ships"),
    } <= set(lines)
