"""The golden vectors, and the snippets against them: rightly written ones pass, subtly wrong ones do not."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from kokoro_nb.delivery import golden
from kokoro_nb.delivery.golden import SnippetCheck, check, golden_vectors, write_golden
from kokoro_nb.delivery.languages import LANGUAGES, SNIPPETS, available
from kokoro_nb.delivery.pipeline import TwoStages
from kokoro_nb.errors import InputError

HEADER = "two_stages.hpp"


@pytest.fixture(scope="module")
def cases():
    return {case["name"]: case for case in golden_vectors()["cases"]}


@pytest.fixture
def compiler():
    reason = available("C++")
    if reason is not None:
        pytest.skip(reason)


def test_the_vectors_are_what_arithmetic_says(cases):
    assert cases["empty tail"] == {
        "name": "empty tail",
        "durations": [3, 5, 2, 7],
        "alignment": [0] * 3 + [1] * 5 + [2] * 2 + [3] * 7,
        "bucket": 40,  # 17 frames
        "samples": 10_200,  # 17 * 600
    }
    assert cases["room behind the text"]["durations"] == [3, 5, 2, 7, 0, 0, 0, 0]
    assert cases["room behind the text"]["alignment"] == cases["empty tail"]["alignment"]
    assert cases["a token of one frame"]["alignment"] == [0] * 4 + [1, 2] + [3] * 6
    assert (len(cases["a full bucket"]["alignment"]), cases["a full bucket"]["bucket"]) == (120, 120)
    assert (len(cases["one frame more than a bucket"]["alignment"]), cases["a full bucket"]["samples"]) == (121, 72_000)
    assert cases["one frame more than a bucket"]["bucket"] == 400
    assert cases["the largest bucket, full"]["bucket"] == 400
    assert (cases["one frame too many"]["bucket"], cases["one frame too many"]["samples"]) == (None, None)
    assert len(cases["long"]["durations"]) == 128


def test_they_are_computed_by_the_pipeline(monkeypatch):
    monkeypatch.setattr(TwoStages, "bucket", lambda self, frames: ("10s", 500))
    assert {case["bucket"] for case in golden_vectors()["cases"]} == {500}


def test_the_file_holds_them(tmp_path):
    assert json.loads(write_golden(tmp_path / "golden.json").read_text()) == golden_vectors()
    assert golden_vectors()["schema"] == 1


def test_torch_is_not_imported():
    script = "import sys; from kokoro_nb.delivery import golden; golden.golden_vectors(); print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "False"


@pytest.mark.usefixtures("compiler")
def test_the_cpp_header_computes_them(cases):
    made = check("C++")
    assert isinstance(made, SnippetCheck)
    assert (made.failed, made.said) == ((), "")
    assert len(made.passed) == 3 * len(cases)  # audio that has no room is not trimmed, and the program ends well
    assert "trimming: a full bucket" in made.passed


# Name -> what is written wrong, how, what fails of it, and what passes; the last three die, or do not compile.
WRONG = {
    "bucket too strict": ("frames <= room", "frames < room", "bucket: a full bucket", "trimming: long"),
    "first bucket that fits": ("room < smallest", "false", "bucket: empty tail", "bucket: long"),
    "one sample less": ("samples_per_frame;", "samples_per_frame - 1;", "trimming: long", "bucket: long"),
    "not trimmed": ("audio.begin() + samples)", "audio.end())", "trimming: empty tail", "trimming: a full bucket"),
    "tokens counted from 1": ("(token))", "(token + 1))", "alignment: a token of one frame", "bucket: long"),
    "one frame at least": (
        "(durations[token]),",
        "(durations[token] + !durations[token]),",
        "alignment: room behind the text",
        "alignment: empty tail",
    ),
    "dies": (
        "if (frames <= room",
        "if (frames > 300) {\n throw 1;\n} else if (frames <= room",
        "bucket: long",
        "bucket: empty tail",
    ),
    "dies behind the last case": (
        "#pragma once",
        "#pragma once\n#include <cstdlib>\nstruct End { ~End() { std::_Exit(3); } };\ninline End end;",
        "program: ended",
        "bucket: long",
    ),
    "not C++": ("inline", "outline", "alignment: empty tail", None),
}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_header_fails(fault, tmp_path):
    right, wrong, failing, passing = WRONG[fault]
    source = (SNIPPETS / HEADER).read_text(encoding="utf-8")
    assert right in source
    (tmp_path / HEADER).write_text(source.replace(right, wrong), encoding="utf-8")
    made = check("C++", tmp_path)
    assert failing in made.failed
    assert made.said
    assert set(made.failed) & set(made.passed) == set()
    assert passing in made.passed if passing else made.passed == ()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_passes_or_says_why_it_cannot_be_tried(language):
    made, reason = check(language), available(language)
    if reason is None:
        assert isinstance(made, SnippetCheck)
        assert made.failed == ()
        assert made.passed
    else:
        assert made == reason
        pytest.skip(reason)


def test_a_compiler_that_is_absent_is_a_reason(monkeypatch):
    monkeypatch.setattr(golden.shutil, "which", lambda name: None)
    assert check("C++") == "C++ cannot be compiled here: there is no c++ or g++ or clang++."
    assert check("Kotlin") == "Kotlin cannot be compiled here: there is no kotlinc and no java."


def test_a_folder_without_the_snippet_and_an_unknown_language_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no two_stages\.hpp in"):
        check("C++", tmp_path)
    with pytest.raises(InputError, match=r"use one of C\+\+, Kotlin, Swift"):
        check("Cobol")


@pytest.mark.parametrize("about", LANGUAGES.values(), ids=LANGUAGES)
def test_a_program_holds_every_case(about):
    vectors = golden_vectors()
    text = golden._program(about, vectors)
    assert text.count("examine(") == len(vectors["cases"]) + 1  # and its definition
    assert not any(word in text for word in ("CASES", "ROOMS", "PER_FRAME"))
    assert "400, 40, 120" in text
    assert '"one frame too many"' in text


@pytest.mark.parametrize("about", LANGUAGES.values(), ids=LANGUAGES)
def test_a_snippet_has_three_functions(about):
    text = (SNIPPETS / about.snippet).read_text(encoding="utf-8")
    starts = {"hpp": "inline ", "kt": "fun ", "swift": "func "}[about.snippet.rpartition(".")[2]]
    found = [line for line in text.splitlines() if line.startswith(starts)]
    assert len(found) == 3
    assert all(any(name in line for line in found) for name in ("alignment", "bucket", "trimmed"))


def test_the_package_carries_the_snippets():
    root = Path(__file__).parents[2]
    data = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    carried = {path for pattern in data["kokoro_nb"] for path in (root / "kokoro_nb").glob(pattern)}
    assert {SNIPPETS / about.snippet for about in LANGUAGES.values()} <= carried
    assert {path for path in SNIPPETS.iterdir() if path.is_file()} <= carried


def test_a_sample_is_not_lost_to_float32():
    assert np.float32(max(golden_vectors()["buckets"].values()) * 600 - 1) == 239_999
