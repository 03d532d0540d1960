"""Claims about PocketTTS, out of the trials of notebook 08: random weights, as no others are here."""

from kokoro_nb.studies.old_claims.claim import Answer, ClaimVerdict
from kokoro_nb.studies.pockettts import convert_whole, load_case, reference, trials
from kokoro_nb.studies.pockettts.port_trials import PortTrial

TEXT, FRAMES, SAMPLER, ROOM = "Hello world.", 8, 2, 12
SAID, LASTED = 44, 3.52  # frames and seconds, as reported


def pocket_answers(weights: str, seed: int) -> tuple[Answer, ...]:
    """Answer C1 to C5.

    Parameters
    ----------
    weights : str
        Of PocketTTS: see `kokoro_nb.models.pocket.load_pocket`.
    seed : int
    """
    case = load_case(weights, seed, TEXT, FRAMES, SAMPLER)
    found = {one.number: one for one in trials(case.model, reference(case, ROOM), convert_whole(case))}
    rate = float(case.model.mimi.frame_rate)
    seconds = SAID / rate
    return (
        _of(
            (found[1], found[2]),
            "C1",
            "another cause",
            "It can be traced, and keeps the loop of its example in silence.",
        ),
        _of((found[5],), "C2", "confirmed", "The scatter asserts; a product with a one-hot row converts."),
        _of((found[7],), "C3", "confirmed", "Nothing but the times differs."),
        _of((found[11], found[9]), "C4", "confirmed", "The order alone changes the cache; other attention does not."),
        Answer(
            "C5",
            f"{SAID} frames at {rate:g} Hz are {seconds:.2f} s; {case.label}",
            "needs published weights",
            "The length agrees with the frames; which words are heard is a matter of weights.",
            {"seconds": seconds, "reported": LASTED},
        ),
    )


def _of(shown: tuple[PortTrial, ...], number: str, verdict: ClaimVerdict, reason: str) -> Answer:
    holds = all(one.holds for one in shown)
    return Answer(
        number,
        "; ".join(f"trial {one.number}: {one.today}" for one in shown),
        verdict if holds else "refuted",
        reason if holds else "The trial does not go so here.",
        {f"trial {one.number}": float(one.holds) for one in shown},
    )
