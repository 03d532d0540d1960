"""Bad input, one case after the other: each is told in one sentence that says how to mend it."""

import re

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise, phonemes
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import patched


def _speak(narrow, text="Hi.", **options):
    return capture(narrow, text, g2p="espeak", **options)


def _patch(narrow, *names):
    with patched(narrow.model, names):
        pass


# What is done wrong, what it is called with, and the words of the error that say how to mend it.
BAD = {
    "empty text": (lambda n, f, c: _speak(n, ""), "give at least one word"),
    "unknown g2p": (lambda n, f, c: phonemes.phonemise("Hi.", "guess"), "use one of auto, espeak, misaki"),
    "unknown voice": (lambda n, f, c: _speak(n, voice="af_heart"), "use 'seeded' or 'seeded:1'"),
    "blend of nothing": (lambda n, f, c: _speak(n, voice="seeded:0:0+seeded:1:0"), "write for example a:0.6+b:0.4"),
    "speed that is NaN": (lambda n, f, c: _speak(n, speed=float("nan")), "1 is normal, 2 is twice as fast"),
    "folder without weights": (lambda n, f, c: load_model(f), "leave one there, or name the file itself"),
    "unknown patch": (lambda n, f, c: _patch(n, "faster"), "use one of explicit_noise, signal_noise, custom_stft"),
    "patches that exclude each other": (lambda n, f, c: _patch(n, "explicit_noise", "signal_noise"), "choose one"),
    "unknown kind of noise": (lambda n, f, c: noise.draw(5, 0, "pink"), "use one of gaussian, zero, tonal"),
    "noise of another length": (lambda n, f, c: _replay(n, c), "draw it for as many frames as `asr` has"),
    "too many frames": (lambda n, f, c: c.decoder_inputs(10_000), "choose fewer, or give a longer text"),
}


def _replay(narrow, case):
    inputs = case.decoder_inputs(4)
    with torch.no_grad(), noise.replayed(noise.draw(5, 0)):
        narrow.model.decoder(*(inputs[name] for name in ("asr", "f0", "n", "s")))


def _faults(message):
    """Return what keeps `message` from being one sentence that says how to mend what is wrong."""
    faults = []
    if "\n" in message:
        faults.append("more than one line")
    if not message.endswith(".") or message.endswith(".."):
        faults.append("no full stop at its end")
    if re.search(r"[.!?] [A-Z]", message):
        faults.append("more than one sentence")
    if ";" not in message:
        faults.append("nothing after what is wrong: how to mend it")
    if not re.match(r"[A-Z']|\S*[/.]", message):  # unless it begins with a path
        faults.append("no capital at its beginning")
    return faults


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_reported_in_one_sentence(narrow, narrow_case, tmp_path, hub_cache, name):
    call, mend = BAD[name]
    with pytest.raises(InputError, match=re.escape(mend)) as caught:
        call(narrow, tmp_path, narrow_case)
    assert _faults(str(caught.value)) == []


def test_what_is_no_such_sentence_is_seen():
    for message, fault in {
        "There is no voice 'x'": "no full stop at its end",
        "There is no voice 'x'. Use another; or none.": "more than one sentence",
        "There is no voice 'x'.": "nothing after what is wrong: how to mend it",
        "There is no voice 'x';\nuse another.": "more than one line",
        "no voice; use another.": "no capital at its beginning",
    }.items():
        assert fault in _faults(message)


def test_what_a_damaged_file_holds_neither_breaks_the_line_nor_fills_the_screen():
    assert str(InputError("There is no 'a\n  b'; look.")) == "There is no 'a b'; look."
    long = str(InputError(f"It has {'x' * 10_000}; use another."))
    assert long.endswith("xxx; use another.")
    assert len(long) < 200
