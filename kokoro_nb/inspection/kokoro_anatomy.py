"""Which part of a Kokoro each node of a graph belongs to, found by what flows into what; names are not looked at.

The model is known by its bends: attention and LSTMs before the one rounding (of durations), one LSTM beside and one
after it, a running sum whose sine is the source's, an arc tangent of the source's transform, and an exponential before
the last transposed convolution, which turns spectra to sound (Kaneko et al., iSTFTNet; Li et al., StyleTTS 2).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

PARTS = (
    *("BERT", "duration predictor", "alignment", "text encoder", "prosody predictor"),
    *("harmonic source", "decoder", "generator", "inverse transform"),
)


class _Flow:
    """What each node depends on and what depends on it, as bits of a whole number."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self.kinds = [node.operator.rsplit(".", 1)[-1] for node in nodes]
        givers = {name: k for k, node in enumerate(nodes) for name in node.outputs}
        self.before = [[givers[name] for name in node.reads if name in givers] for node in nodes]
        self.up, self.down = [1 << k for k in range(len(nodes))], [1 << k for k in range(len(nodes))]
        for k, others in enumerate(self.before):
            for other in others:
                self.up[k] |= self.up[other]
        for k in reversed(range(len(nodes))):
            for other in self.before[k]:
                self.down[other] |= self.down[k]

    def of(self, *kinds: str, within: int = -1) -> list[int]:
        """Return the nodes of these kinds, in order."""
        return [k for k, kind in enumerate(self.kinds) if kind in kinds and within >> k & 1]

    def over(self, places: Iterable[int], sets: list[int]) -> int:
        """Return all that these nodes reach in one direction, themselves with it."""
        found = 0
        for k in places:
            found |= sets[k]
        return found


def kokoro_parts(nodes: Sequence[Any], shape_of: Callable[[str], tuple[int, ...] | None]) -> dict[str, str]:
    """Return the part of each node of a graph that is a Kokoro from tokens to sound; nothing of any other graph.

    Parameters
    ----------
    nodes : sequence of OnnxNode or ComparedNode
        In the order of execution.
    shape_of : callable
        Returns the shape of a constant by its name, None of what is none.

    Returns
    -------
    dict of str to str
        Key of each node -> one of `PARTS`.
    """
    try:
        found = _found(_Flow(nodes), shape_of)
    except (IndexError, StopIteration, ValueError):  # an anchor is missing: another model
        return {}
    return {nodes[k].key: part for k, part in found.items()}


def _found(flow: _Flow, shape_of: Callable[[str], tuple[int, ...] | None]) -> dict[int, str]:
    up, down = flow.up, flow.down
    rounding = flow.of("Round")[0]
    softmax = flow.of("Softmax", within=up[rounding])
    early = flow.of("LSTM", within=up[rounding])
    shared = flow.of("LSTM", within=down[rounding])[0]
    beside = next(k for k in flow.of("LSTM") if k not in early and not down[rounding] >> k & 1)
    phase = flow.of("CumSum", within=down[shared])[0]
    sine = flow.of("Sin", within=down[phase])[0]
    angle = flow.of("Atan", within=down[sine])[0]
    magnitude = flow.of("Exp", within=down[angle])[-1]
    last = flow.of("Conv", within=up[magnitude])[-1]
    heard = flow.of("ConvTranspose", within=down[magnitude])[0]
    pitch = flow.of("Conv", within=up[phase] & down[shared])[-1]
    if len(softmax) < 2 or len(early) < 2 or heard < magnitude:
        raise ValueError("not a Kokoro")

    def weight(k: int) -> tuple[int, ...] | None:
        return shape_of(flow.nodes[k].reads[1]) if len(flow.nodes[k].reads) > 1 else None

    branch = down[shared] & ~up[phase] & ~down[pitch]  # energy goes the same way as pitch, to one value a frame
    energy = next(k for k in flow.of("Conv", within=branch) if weight(k) == weight(pitch))
    spread = down[rounding] & down[beside]
    text = (spread & -spread).bit_length() - 1  # the first that reads both, by a product or by indices
    noise = flow.of("Conv", within=down[angle])
    noise = [k for k in noise if not any(other != k and up[k] >> other & 1 for other in noise)]
    joined = next(k for k in range(len(flow.nodes)) if down[noise[0]] >> k & 1 and down[text] >> k & 1)
    widening = [k for k in flow.of("ConvTranspose", within=up[joined]) if down[text] >> k & 1][-1]

    attention = up[softmax[-1]] | (flow.over(softmax, down) & up[rounding] & ~flow.over(early, down))
    sets = (
        ("inverse transform", down[last] & ~(1 << last)),
        ("generator", down[widening] | flow.over(noise, down)),
        ("harmonic source", down[pitch] & flow.over(noise, up) & ~(1 << pitch)),
        ("prosody predictor", (down[shared] & (up[pitch] | up[energy])) | 1 << shared),
        ("decoder", (down[text] & ~(1 << text) | down[pitch] | down[energy]) & up[widening]),
        ("alignment", down[rounding] & (up[shared] | up[text]) & ~(1 << rounding)),
        ("BERT", attention),
        ("duration predictor", up[rounding]),
        ("text encoder", up[text] & ~up[rounding] & ~down[rounding]),
    )
    parts: dict[int, str] = {}
    for k in range(len(flow.nodes)):
        part = next((name for name, members in sets if members >> k & 1), None)
        if part is not None:
            parts[k] = part
    return _filled(flow, parts)


def _filled(flow: _Flow, parts: dict[int, str]) -> dict[int, str]:
    """Give what only leads into a part, such as its own projections of the style, that part."""
    after: dict[int, list[int]] = {}
    for k, others in enumerate(flow.before):
        for other in others:
            after.setdefault(other, []).append(k)
    for k in reversed(range(len(flow.nodes))):
        if k not in parts:
            readers = Counter(parts[one] for one in after.get(k, ()) if one in parts)
            if readers:
                parts[k] = readers.most_common(1)[0][0]
    return parts


def stated_parts(parts: dict[str, str]) -> tuple[str, ...]:
    """Return in a sentence that a graph is a Kokoro, and how many nodes each part has."""
    if not parts:
        return ()
    counts = Counter(parts.values())
    return (f"The graph is a Kokoro: {', '.join(f'{part} {counts[part]:,}' for part in PARTS)} nodes.",)


def spoken(outputs: Mapping[str, Any]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the audio and the durations among a Kokoro's outputs: the longest of floats, and whole frames by token."""
    arrays = [np.asarray(value).reshape(-1) for value in outputs.values() if isinstance(value, np.ndarray)]
    floats = sorted((one for one in arrays if one.dtype.kind == "f" and one.size), key=lambda one: one.size)
    if not floats:
        return None, None
    audio = floats[-1]
    others = [one for one in arrays if one is not audio and one.size and np.isfinite(one).all()]
    whole = [one.astype(np.int64) for one in others if (one == np.rint(one)).all()]
    fits = [one for one in whole if one.sum() > 0 and audio.size % int(one.sum()) == 0]
    return audio, fits[0] if fits else None
