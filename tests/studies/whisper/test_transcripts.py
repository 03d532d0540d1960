"""Transcripts of several recognisers side by side, and what stands where one of them is not here."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from kokoro_nb.listening.transcript import Transcript
from kokoro_nb.studies.waveform_spectrum import PACKAGE
from kokoro_nb.studies.whisper.phrase_versions import PhraseVersions
from kokoro_nb.studies.whisper.transcripts import Listening

SURE = Transcript("Two cats!", -0.1, 0.0, 0.9)


def test_each_model_has_its_column_and_an_absent_one_its_reason():
    y = [np.ones(10, np.float32)] * 2
    made = PhraseVersions(
        tuple(SimpleNamespace(text=text) for text in ("two cats", "one dog")), {PACKAGE: y, "tvm": y}, y, {}, {}
    )
    heard = {PACKAGE: (SURE, replace(SURE, text="One dog.")), "tvm": (None, replace(SURE, no_speech_prob=0.9))}
    first = Listening(made, object(), "", heard, {}, 0.1)
    absent = Listening(made, None, "it is not in the cache", {}, {}, 0.1)
    rows = first.beside({"base.en": absent}, "mini")
    assert [(row["version"], row["phrase"]) for row in rows] == [
        (PACKAGE, "two cats"),
        (PACKAGE, "one dog"),
        ("tvm", "two cats"),
        ("tvm", "one dog"),
    ]
    assert [row["mini"] for row in rows[:3]] == ["Two cats!", "One dog.", "not finite"]
    assert rows[3]["mini"].startswith("Two cats! (the probability of no speech is 0.9")
    assert {row["base.en"] for row in rows} == {"SKIP: it is not in the cache"}
