import numpy as np

from kokoro_nb.backends import BACKENDS
from kokoro_nb.delivery.decoded import speak_all
from kokoro_nb.models.case import capture, decode
from kokoro_nb.models.patches import EXPORT_PATCHES


def test_one_program_speaks_utterances_of_any_length(shallow, shallow_case, tmp_path):
    other = capture(shallow, "No.", "", g2p="espeak", seed=1)
    assert other.frames != shallow_case.frames
    (spoken,) = speak_all(shallow.model, [shallow_case, other], ["eager"], tmp_path)
    for case, audio in zip((shallow_case, other), spoken.audio, strict=True):
        plain = decode(shallow.model, case, EXPORT_PATCHES)
        # the phase of the source makes much of a rounding, so level and likeness are asked for, not equality
        assert audio.shape == plain.shape
        assert np.corrcoef(audio, plain)[0, 1] > 0.99


def test_a_runtime_that_is_not_here_says_so(shallow, shallow_case, monkeypatch):
    monkeypatch.setattr(type(BACKENDS["onnxruntime"]), "available", lambda self: "it is not installed")
    (silent,) = speak_all(shallow.model, [shallow_case], ["onnxruntime"])
    assert (silent.audio, silent.reason) == ((), "it is not installed")
