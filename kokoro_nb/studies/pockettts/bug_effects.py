"""What each mistake of a port does to caches, latents and audio, where it does not show, and which check sees it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kokoro_nb.models.pocket.generation import Speech
from kokoro_nb.studies.pockettts.bugs import Attempt, Bug
from kokoro_nb.traces.statistics import Parity, compare


@dataclass(frozen=True)
class BugEffect:
    """One mistake at one setting, compared with the same without it.

    Attributes
    ----------
    read, written, latents, audio : Parity
        Of the language model's cache after voice and text, of the same at the end, of the latents and of the audio;
        of caches the slots that the right run has written.
    position : int
        By how much the position after reading is off.
    """

    bug: Bug
    setting: str
    read: Parity
    written: Parity
    latents: Parity
    audio: Parity
    position: int

    @property
    def check(self) -> float:
        """Figure of the check that is made for the mistake; of the right run against itself it is 0."""
        return self.bug.caught(self)

    @property
    def hidden(self) -> bool:
        """Whether nothing at all shows."""
        parts = (self.read, self.written, self.latents, self.audio)
        return self.position == 0 and all(part.max_error == 0 for part in parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "mistake": self.bug.title,
            "setting": self.setting,
            "position off by": self.position,
            "KV cache after reading (of peak)": self.read.of_peak,
            "finite (%)": 100 * self.read.finite,
            "KV cache at the end (of peak)": self.written.of_peak,
            "latents (of peak)": self.latents.of_peak,
            "audio (of peak)": self.audio.of_peak,
            "audio finite (%)": 100 * self.audio.finite,
            "its check says": self.check,
        }


def effect(bug: Bug, right: Attempt, setting: str) -> BugEffect:
    """Measure `bug` at the settings of `right`."""
    return compared(bug, right.speak(), bug.apply(right).speak(), setting)


def compared(bug: Bug, expected: Speech, found: Speech, setting: str) -> BugEffect:
    """Compare the speech with `bug` with the one without."""
    read, end = (int(state["position"][0]) for state in (expected.read, expected.language))
    return BugEffect(
        bug,
        setting,
        compare(expected.read["cache"][:, :, :read], found.read["cache"][:, :, :read]),
        compare(expected.language["cache"][:, :, :end], found.language["cache"][:, :, :end]),
        compare(expected.latents, found.latents),
        compare(expected.audio, found.audio),
        int(found.read["position"][0]) - read,
    )


def effects(bug: Bug, right: Attempt, samplers: Sequence[int]) -> tuple[BugEffect, ...]:
    """Measure `bug` at several numbers of sampler steps, and where it is known to be hidden, if anywhere."""
    found = []
    for count in samplers:
        given = replace(right, utterance=replace(right.utterance, sampler=count))
        found.append(effect(bug, given, f"{count} sampler step{'s' if count > 1 else ''}"))
    hidden = bug.hidden(right)
    return (*found, effect(bug, hidden, bug.setting)) if hidden is not None else tuple(found)
