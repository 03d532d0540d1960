"""What programs do when they are run as the client runs them: on two texts, at two speeds, in two styles, and twice."""

import numpy as np

from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.hosts import ClientHost, ClientUtterance
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

SHORT, TEXT = (0, 50, 0), (0, 50, 83, 54, 156, 57, 135, 0)
LOUDEST, QUIETEST = 4, 1e-4  # of full scale


def style_row(size: float = 0.1) -> np.ndarray:
    """Return a style of one size and alternating sign, (1, 256) float32."""
    return np.where(np.arange(256) % 2, size, -size).astype(np.float32)[None]


def check_behaviour(
    host: ClientHost, first: str, last: str, drawn: bool = False
) -> tuple[list[ContractDeviation], ClientUtterance | None]:
    """Run a folder's programs; return what a client would notice, and what was said if it can be heard.

    Parameters
    ----------
    host : ClientHost
    first, last : str
        The programs that give durations and audio.
    drawn : bool
        Whether it is known already that no two runs are alike.
    """
    try:
        said, again = (host.speak(TEXT, style_row()) for _ in range(2))
        slow, other = host.speak(TEXT, style_row(), 0.5), host.speak(TEXT, style_row(-0.4))
        short = host.speak(SHORT, style_row())
    except Exception as error:  # a runtime's errors have no common class
        counts = " and ".join(str(len(ids) - 2) for ids in (SHORT, TEXT))
        return [ContractDeviation("does not run", first, f"audio for texts of {counts} ids", first_line(error))], None
    found = []
    wrong = [one for one in (said, short) if len(one.audio) != SAMPLES_PER_FRAME * one.frames]
    if wrong:
        samples = f"{len(wrong[0].audio)} samples for {wrong[0].frames} frames"
        found.append(ContractDeviation("length", last, f"{SAMPLES_PER_FRAME} samples a frame", samples))
    wrong = [one for one in (said, short, slow, other) if not np.isfinite(one.audio).all()]
    if wrong:
        share = np.mean(~np.isfinite(wrong[0].audio))
        return [*found, ContractDeviation("not finite", last, "finite audio", f"{share:.0%} of one text")], None
    peak = float(np.abs(said.audio).max(initial=0))
    if not peak > QUIETEST:
        found.append(ContractDeviation("silent", last, "audio", f"a peak of {peak:.1e}"))
    if peak > LOUDEST:
        found.append(ContractDeviation("clipped", last, "a peak of about full scale", f"{peak:.1f} times full scale"))
    if _lasting(slow) == _lasting(said):
        found.append(ContractDeviation("speed ignored", first, "longer audio at half the speed", "the same length"))
    if np.array_equal(other.audio, said.audio):
        found.append(ContractDeviation("style ignored", last, "other audio for another style", "the same"))
    if not drawn and not np.array_equal(again.audio, said.audio):
        found.append(ContractDeviation("not repeatable", last, "the same audio twice", "other audio"))
    return found, said


def _lasting(said: ClientUtterance) -> int:
    return len(said.audio) if said.durations is None else int(said.durations.sum())


def first_line(error: Exception) -> str:
    """Return the beginning of what an error says."""
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
