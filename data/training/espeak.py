"""Speech with exact phoneme times from espeak-ng, through the library inside `espeakng_loader`."""

import ctypes
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLE_RATE

ESPEAK_RATE = 22_050  # Hz: what the library synthesises at
UP, DOWN = 160, 147  # 24000 / 22050 in lowest terms

# speak_lib.h of espeak-ng 1.52
_SYNCHRONOUS = 2  # espeak_Synth returns when everything has been handed to the callback
_PHONEME_EVENTS_IPA = 1 | 2
_RATE, _PITCH = 1, 3  # words per minute; 0 to 100, 50 is the voice's own
_POSITION_CHARACTER, _CHARS_UTF8 = 1, 1
_EVENT_END, _EVENT_PHONEME = 0, 7
_SEED = 1  # of espeak's flutter and breath


@dataclass(frozen=True)
class EspeakSpeech:
    """What espeak said, and when.

    Attributes
    ----------
    audio : numpy.ndarray, shape (samples,), float32
        At 24 kHz, full scale 1.
    phonemes : tuple of str
        IPA of each phoneme event, with the stress mark before its vowel; an empty string is a pause.
    boundaries : numpy.ndarray, shape (events + 1,), int64, samples
        Phoneme i is heard from ``boundaries[i]`` to ``boundaries[i + 1]``; the first is 0, the last the length of
        `audio`.
    """

    audio: np.ndarray
    phonemes: tuple[str, ...]
    boundaries: np.ndarray


class _Id(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),  # ms
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


def speak(text: str, voice: str = "en-us", rate: int = 175, pitch: int = 50) -> EspeakSpeech:
    """Synthesise `text`.

    Parameters
    ----------
    text : str
        American English.
    voice : str
        A voice of espeak-ng, where wanted with a variant: ``en-us``, ``en-us+f3``, ``en-us+m7``.
    rate : int
        Words per minute, 80 to 450.
    pitch : int
        0 to 100; 50 is the voice's own.

    Raises
    ------
    InputError
        If there is no such voice, or nothing in the text can be spoken.
    """
    from scipy.signal import resample_poly

    if not 80 <= rate <= 450 or not 0 <= pitch <= 100:
        raise InputError(f"rate={rate}, pitch={pitch}: espeak takes a rate of 80 to 450 and a pitch of 0 to 100.")
    pieces, events = _synthesise(text, voice, rate, pitch)
    if not pieces or not any(ipa for _, ipa in events):
        raise InputError(f"espeak finds nothing to say in {text!r}; give at least one word.")
    audio = resample_poly(np.concatenate(pieces).astype(np.float32) / 32768, UP, DOWN).astype(np.float32)
    starts = [sample * UP // DOWN for sample, _ in events]
    starts[0] = 0  # the few milliseconds before the first phoneme belong to it
    boundaries = np.array([*starts, len(audio)], dtype=np.int64)
    if not (np.diff(boundaries) >= 0).all():
        raise InputError(f"espeak's phoneme events for {text!r} are not in order; use espeakng-loader 0.2.4.")
    return EspeakSpeech(audio, tuple(ipa for _, ipa in events), boundaries)


def _synthesise(text: str, voice: str, rate: int, pitch: int) -> tuple[list[np.ndarray], list[tuple[int, str]]]:
    """Return the pieces of audio (int16, 22.05 kHz) and the (sample, IPA) phoneme events."""
    pieces: list[np.ndarray] = []
    events: list[tuple[int, str]] = []

    def collect(samples: Any, count: int, event: Any) -> int:
        if count > 0:
            pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        at = 0
        while event[at].type != _EVENT_END:
            if event[at].type == _EVENT_PHONEME:
                events.append((event[at].sample, event[at].id.string.decode("utf-8")))
            at += 1
        return 0

    callback = _CALLBACK(collect)  # a local name keeps it alive while the library holds it
    with _fresh_library() as library:
        library.espeak_SetSynthCallback(callback)
        if library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise InputError(f"espeak has no voice '{voice}'; use one such as en-us, en-us+f3 or en-us+m7.")
        library.espeak_SetParameter(_RATE, rate, 0)
        library.espeak_SetParameter(_PITCH, pitch, 0)
        raw = text.encode("utf-8")
        status = library.espeak_Synth(raw, len(raw) + 1, 0, _POSITION_CHARACTER, 0, _CHARS_UTF8, None, None)
        if status != 0:
            raise InputError(f"espeak could not synthesise {text!r} (status {status}).")
    return pieces, events


@contextmanager
def _fresh_library() -> Iterator[ctypes.CDLL]:
    """Load a copy of the library, and unload it afterwards (10 ms).

    The library keeps more state than `espeak_Terminate` clears: said again in the same process, a sentence differs by
    a hundred samples in length. Loading the same file twice yields the same library, hence the copy.
    """
    import _ctypes

    import espeakng_loader

    original = Path(espeakng_loader.get_library_path())
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(original, Path(folder) / original.name)
        library = ctypes.CDLL(str(copy))
        try:
            data = espeakng_loader.get_data_path().encode()
            rate = library.espeak_Initialize(_SYNCHRONOUS, 0, data, _PHONEME_EVENTS_IPA)
            if rate != ESPEAK_RATE:
                raise InputError(f"espeak-ng did not start (it answered {rate}); install espeakng-loader 0.2.4 again.")
            library.espeak_ng_SetRandSeed(_SEED)  # or it is seeded by the second that it is started in
            yield library
            library.espeak_Terminate()
        finally:
            _ctypes.dlclose(library._handle)


assert SAMPLE_RATE * DOWN == ESPEAK_RATE * UP
