from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.two_stage_npu.checklist import _interfaces, checklist

TEXT = "Hi."


def _holds(check):
    return {"<=": check.value <= check.limit, ">=": check.value >= check.limit, "==": check.value == check.limit}[
        check.relation
    ]


def test_a_sound_delivery_holds_every_line(speaker):
    found = checklist(speaker, TEXT)
    assert not [check for check in found if check.skipped]
    assert not [check for check in found if not _holds(check)]
    assert [check.kind for check in found].count("interface") == len(speaker.contract.parts)


def _broken(speaker, monkeypatch, change):
    own = speaker.run

    def run(name, known):
        made = own(name, known)
        return {key: change(value.copy(), known) for key, value in made.items()} if name[:8] == "decoder_" else made

    monkeypatch.setattr(speaker, "run", run)
    return {check.kind for check in checklist(speaker, TEXT) if not _holds(check)}


def _noisy_end(audio, known):
    audio[:, -1] = 0.5
    return audio


def _one_nan(audio, known):
    audio[:, 0] = np.nan
    return audio


def _reads_padding(audio, known):
    return audio * (1 + known["asr"].sum())


class _Remembers:
    """Stand for a program that adds what it was asked before."""

    def __init__(self):
        self.level = 0.0

    def __call__(self, audio, known):
        audio, self.level = audio + self.level, self.level + 1e-3
        return audio


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_noisy_end, "silence"),
        (_one_nan, "finite"),
        (_reads_padding, "padding"),
        (_Remembers(), "repeated"),
        (_Remembers(), "history"),
        (lambda audio, known: audio[:, :-600], "length"),
    ],
)
def test_a_broken_one_does_not(speaker, monkeypatch, change, kind):
    assert kind in _broken(speaker, monkeypatch, change)


def test_a_file_that_is_not_what_the_contract_says_is_found(speaker, monkeypatch):
    parts = speaker.contract.parts
    exchanged = {**parts, "prosody_1.5s": replace(parts["prosody_1.5s"], file=parts["duration"].file)}
    monkeypatch.setattr(speaker, "contract", replace(speaker.contract, parts=exchanged))
    found = {check.claim.split()[0]: check.value for check in _interfaces(speaker)}
    assert found["prosody_1.5s"] > 0
    assert found["duration"] == found["decoder_1.5s"] == 0


def test_a_text_without_room_is_refused(speaker):
    with pytest.raises(InputError, match="no room"):
        checklist(speaker, "Hi hi hi.")
