"""Programs of torch.export: every operator judged, faults named, damaged files told in a sentence."""

import numpy as np

import kokoro_nb as nb
from tests.refusals import refused


def test_a_healthy_program_passes_with_the_example_that_it_holds(pt2, voice):
    report = nb.inspect(pt2, against=voice)
    assert report.verdict == "pass"
    assert " ".join(one.key for one in report.judgements) == "conv1d instance_norm sin linear leaky_relu cumsum"
    assert report.inputs == {"x": "the example that the file holds"}
    assert report.outputs[0].snr > 100
    assert any("7 of 7 values" in note for note in report.notes)


def test_what_is_too_large_when_unpacked_is_not_unpacked(pt2, monkeypatch):
    monkeypatch.setattr("kokoro_nb.inspection.formats.pt2_file.HEAVIEST", 1000)
    refused("bytes when unpacked; at most 1,000", nb.inspect, pt2)


def test_inputs_that_do_not_fit_are_refused(pt2):
    refused("has shape", nb.inspect, pt2, {"x": np.zeros((1, 4, 11), np.float32)})
