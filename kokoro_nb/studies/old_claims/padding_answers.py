"""Claims that padding explains: what silence behind the valid frames does in PyTorch itself, on no other runtime."""

from collections.abc import Mapping

import numpy as np
import torch

from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import patched
from kokoro_nb.models.speaking import DurationStage
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.studies.old_claims.reported_claims import Answer
from kokoro_nb.studies.padding.padded_decoder import PaddedRun, padded_run
from kokoro_nb.traces.statistics import Parity, compare

FRAMES, BUCKETS, SIGNAL, GAUSSIAN = 24, (256, 1280), "signal", "gaussian"
Runs = Mapping[tuple[str, int], PaddedRun]  # by noise and buffer
NOISES = {SIGNAL: "signal_noise", GAUSSIAN: "explicit_noise"}  # a function of the harmonic signal, or drawn
EXACT = 1e-3  # of the peak, -60 dB: below what is heard in speech
SCALE = 10.0  # times full scale, or the peak without padding: no audio is so loud


def padding_answers(kokoro: Kokoro, case: Case, seed: int, own_weights: bool) -> tuple[Answer, ...]:
    """Answer A1, A6, B4, B5, D4 and E2.

    Parameters
    ----------
    kokoro : Kokoro
    case : Case
        An utterance of 24 frames at least.
    seed : int
        Of the Gaussian noise.
    own_weights : bool
        Whether the weights are some that this project makes, of which no published figure can be expected.
    """
    runs = padded_runs(kokoro, case, seed)
    return (
        _range(runs, own_weights),
        _replaced_noise(runs),
        _magnitude(runs),
        _correlation(runs),
        _trimmed(runs),
        _unpacked(kokoro, case),
    )


def padded_runs(kokoro: Kokoro, case: Case, seed: int) -> Runs:
    """Run the decoder with both kinds of noise in both buffers."""
    runs: dict[tuple[str, int], PaddedRun] = {}
    for kind, patch in NOISES.items():
        with patched(kokoro.model, "all but explicit_noise, ramped_phase"), patched(kokoro.model, patch):
            runs |= {(kind, size): padded_run(kokoro.model, case, FRAMES, size, kind, seed) for size in BUCKETS}
    return runs


def _leaking(run: PaddedRun) -> Parity:
    return compare(run.plain, run.naive)


def _peak(run: PaddedRun) -> float:
    return float(abs(run.naive).max())


def _ratio(run: PaddedRun) -> float:
    return _peak(run) / _leaking(run).peak


def _range(runs: Runs, own_weights: bool) -> Answer:
    run = runs[SIGNAL, BUCKETS[-1]]
    peak, plain = _peak(run), _leaking(run).peak
    verdict, why = "refuted", "Padding does not bring these weights near such a range."
    if own_weights:
        verdict, why = (
            "needs published weights",
            "Full scale is 1, here as there; the figure itself is that of weights.",
        )
    elif peak > SCALE:
        verdict, why = "another cause", "Full scale is 1: silence behind the valid frames makes it so loud."
    return Answer(
        "A1",
        f"peak {plain:.3g} without padding; {peak:.3g} in a bucket of {run.bucket} frames, {run.frames} of them valid",
        verdict,  # type: ignore[arg-type]
        why,
        {"plain": plain, "padded": peak},
    )


def _replaced_noise(runs: Runs) -> Answer:
    signal, drawn = (runs[kind, BUCKETS[-1]] for kind in (SIGNAL, GAUSSIAN))
    lost = float(_leaking(drawn).correlation - _leaking(signal).correlation)
    louder = _ratio(signal) / _ratio(drawn)
    worse = louder > 1.1 or lost > 0.05
    return Answer(
        "A6",
        f"in {signal.bucket} frames {_ratio(signal):.3g} times too loud with it, {_ratio(drawn):.3g} with Gaussian "
        f"noise; correlation {_leaking(signal).correlation:.3f} and {_leaking(drawn).correlation:.3f}",
        "refuted" if worse else "needs published weights",
        "It is silent where the signal is: the padding is constant and its variance collapses. Noise of its own keeps "
        "some variance there.",
        {"louder": louder, "lost": lost},
    )


def _magnitude(runs: Runs) -> Answer:
    run = runs[SIGNAL, BUCKETS[-1]]
    return Answer(
        "B4",
        f"PyTorch on this CPU in {run.bucket} frames: finite, {_ratio(run):.3g} times the peak without padding, "
        f"correlation {_leaking(run).correlation:.3f}",
        "another cause" if _ratio(run) > SCALE else "needs a device",
        "No Metal is needed for such a magnitude: float32 on a CPU gives it, as the padding's variance collapses.",
        {"ratio": _ratio(run)},
    )


def _correlation(runs: Runs) -> Answer:
    short, long = (float(_leaking(runs[SIGNAL, bucket]).correlation) for bucket in BUCKETS)
    return Answer(
        "B5",
        f"{short:.3f} in {BUCKETS[0]} frames and {long:.3f} in {BUCKETS[1]}, of which {FRAMES} are valid; PyTorch, CPU",
        "another cause" if long < short else "needs a device",
        "It falls with the share of padding, on no runtime but PyTorch.",
        {"short": short, "long": long},
    )


def _trimmed(runs: Runs) -> Answer:
    run = runs[GAUSSIAN, BUCKETS[-1]]
    leak, exact = float(_leaking(run).of_peak), compare(run.from_har, run.from_har_exact).of_peak
    return Answer(
        "D4",
        f"trimmed, {leak:.2g} of the peak off; with the length as an input {exact:.2g}, from har",
        "refuted" if leak > EXACT >= exact else "confirmed",
        "What stands behind the valid frames has changed them before anything is trimmed.",
        {"trimmed": leak, "exact": exact},
    )


def _unpacked(kokoro: Kokoro, case: Case) -> Answer:
    tokens = case.tensors["ids"].shape[1]
    known, unknown = (_text_error(kokoro, case, 2 * tokens, length) for length in (tokens, 2 * tokens))
    return Answer(
        "E2",
        f"{tokens} tokens in room for {2 * tokens}: {unknown:.2g} of the peak off; given the length {known:.1g}",
        "confirmed" if unknown <= EXACT else "refuted",
        "The second direction begins in the padding; where there is none, or it is reversed by length, it is equal.",
        {"not packed": unknown, "given the length": known},
    )


def _text_error(kokoro: Kokoro, case: Case, room: int, length: int) -> float:
    """Return by how much the encoders' features change in room for `room` tokens, told that there are `length`."""
    ids, tokens = case.tensors["ids"], case.tensors["ids"].shape[1]
    wide, speed = widened({"ids": ids}, room)["ids"], torch.tensor([case.speed])
    with torch.no_grad():
        _, d, t_en = DurationStage(kokoro.model)(wide, torch.tensor([length]), case.tensors["ref_s"], speed)
    pairs = ((case.tensors["d"], d[:, :tokens]), (case.tensors["t_en"], t_en[..., :tokens]))
    return float(np.max([compare(*pair).of_peak for pair in pairs]))  # a NaN is
