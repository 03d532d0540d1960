import numpy as np

from kokoro_nb.studies.whisper.known_faults import FaultStudy


def study(errors, plain):
    figures = [{"SNR": 3.0, "log-spectral distance": 2.0}, {"SNR": 5.0, "log-spectral distance": 4.0}]
    audio = {"package": [np.zeros(4)], "quiet": [np.zeros(4)], "lost": [np.array([0, np.nan])]}
    return FaultStudy(audio, {"quiet": ("RMS ratio",), "lost": ()}, dict.fromkeys(errors, figures), errors, plain)


def test_who_notices_which_fault():
    found = study({"quiet": 0.1, "lost": 0.2}, plain=0.1)
    assert (found.only_measured, found.only_heard) == (["quiet"], ["lost"])
    assert [(row["ear"], row["numbers"], row["SNR (dB)"]) for row in found.rows()] == [
        ("misses it", "RMS ratio", 4.0),
        ("notices", "miss it", 4.0),
    ]
    assert list(found.playable) == ["package", "quiet"]


def test_without_a_recogniser_nobody_is_asked():
    found = study({"quiet": np.nan, "lost": np.nan}, plain=np.nan)
    assert {row["ear"] for row in found.rows()} == {"not asked"}
    assert found.only_measured == found.only_heard == []
