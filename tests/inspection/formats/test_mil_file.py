"""Core ML programs, executed without Core ML: each operator judged, overflows of float16 named."""

import pytest
import torch

import kokoro_nb as nb
from tests.backends.small import Of
from tests.refusals import refused

pytest.importorskip("coremltools")


def test_a_healthy_package_passes_and_says_what_executed_it(mlpackage, voice):
    report = nb.inspect(mlpackage(voice, torch.randn(1, 4, 10), "voice"), against=voice)
    assert report.verdict == "pass"
    assert {one.operator for one in report.judgements} >= {"conv", "instance_norm", "linear", "cumsum"}
    assert report.notes[0].startswith("Core ML runs on macOS alone")
    assert {one.worst.dtype for one in report.judgements} == {"float16"}


def test_an_overflow_is_named_and_the_number_type_blamed_and_coremltools_shows_it(tmp_path, mlpackage):
    loud = mlpackage(Of(lambda x: torch.exp(torch.abs(x) * 30 + 10) * 1e-6), torch.full((2, 8), 0.5), "loud")
    report = nb.inspect(loud, folder=tmp_path)
    assert (report.first.operator, report.first.blame, report.first.kind) == ("exp", "precision", "nonfinite")
    (script,) = report.scripts  # it was run, and printed that what should be finite is not
    assert len(script.read_text().splitlines()) <= 30
    assert "kokoro_nb" not in script.read_text()


def test_a_packed_package_is_reported_in_a_sentence(tmp_path):
    packed = tmp_path / "packed.mlpackage"
    packed.write_bytes(b"PK\x03\x04 and so on")
    refused("unpack it, or give the folder", nb.inspect, packed)
