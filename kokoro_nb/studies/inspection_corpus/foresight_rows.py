"""What is foreseen of float16 beside what float16 gives: the same files converted, each node run by ONNX Runtime.

One node after the other, each in a session of its own: in a whole graph the runtime computes in float32 what it has no
float16 kernel for, and leaves out the rounding between two such nodes.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kokoro_nb.inspection.file_run import relative_noise
from kokoro_nb.inspection.float16_foresight import float16_foresight
from kokoro_nb.inspection.float16_mend import converted
from kokoro_nb.inspection.one_operator import one_operator
from kokoro_nb.inspection.onnx_file import OnnxFile, read_onnx
from kokoro_nb.inspection.onnx_nodes import nodes_of
from kokoro_nb.inspection.semantics.onnx_call import Value
from kokoro_nb.studies.inspection_corpus import file_writers as writers
from kokoro_nb.studies.inspection_corpus.zoo_entries import ZOO, ZooFile

NEAR = 1.0  # dB
WANTED = 0.9
NAMES = ("whisper_encoder", "wav2vec2", "vocos_like", "attention", "conformer_convolution", "harmonic_source")
FORESEEN: tuple[ZooFile, ...] = tuple(
    one for one in ZOO if one.writer is writers.dynamo_onnx and one.program and one.program.__name__ in NAMES
)


@dataclass(frozen=True)
class ForesightRow:
    """The nodes of one float32 file, whose noise in float16 was foreseen, and which float16 was given.

    Attributes
    ----------
    case : str
        Program and writer.
    nodes, within : int
        How many nodes give the same floats in both files, and how many have the noise that was foreseen, within 1 dB.
    worst : float
        The furthest of them, in dB; infinite where only one of both is not finite.
    beyond : tuple of str
        The others.
    foreseen, true : float
        The noise of the last node, as a share of its result.
    """

    case: str
    nodes: int
    within: int
    worst: float
    beyond: tuple[str, ...]
    foreseen: float
    true: float

    @property
    def sound(self) -> bool:
        """Whether nine of ten nodes are within 1 dB."""
        return self.within >= WANTED * self.nodes > 0


def foresight_row(one: ZooFile) -> ForesightRow:
    """Write a float32 file, foresee what float16 does to it, convert it, and run both."""
    import onnx

    with tempfile.TemporaryDirectory() as room:
        path, inputs = one.written(Path(room))
        assert inputs is not None
        plain = read_onnx(path)
        onnx.save(converted(plain.model, ()), Path(room) / "half.onnx")
        half = read_onnx(Path(room) / "half.onnx")
        right, given = (_values(file, inputs) for file in (plain, half))
        outputs = [node.output[0] for node in plain.model.graph.node]
        seen = {outputs[node.index]: node for node in float16_foresight(plain, inputs)}
    pairs = {
        node.key: (node.noise, relative_noise(given[name], right[name]))
        for name, node in seen.items()
        if name in given and np.asarray(given[name]).dtype == np.float16
    }
    apart = {key: _apart(*pair) for key, pair in pairs.items()}
    beyond = tuple(f"{key}: {pairs[key][0]:.3g}, {pairs[key][1]:.3g}" for key, by in apart.items() if not by <= NEAR)
    worst = float(np.max(list(apart.values()), initial=0.0))
    return ForesightRow(one.name, len(pairs), len(pairs) - len(beyond), worst, beyond, *list(pairs.values())[-1])


def _values(file: OnnxFile, inputs: Mapping[str, np.ndarray]) -> dict[str, Value]:
    values: dict[str, Value] = {**inputs, **file.constants}
    for node in nodes_of(file.model.graph):
        values |= one_operator(file, node, values).run()
    return values


def _apart(one: float, other: float) -> float:
    """Return by how many dB two noises differ.

    >>> _apart(0.1, 0.01), _apart(0.0, 0.0), _apart(float("nan"), float("nan")), _apart(float("nan"), 0.1)
    (20.0, 0.0, 0.0, inf)
    """
    if one == other or (np.isnan(one) and np.isnan(other)):
        return 0.0
    if not (np.isfinite([one, other]).all() and one and other):
        return float("inf")
    return float(np.abs(20 * np.log10(one / other)))
