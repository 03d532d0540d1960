"""Weights edited inside the file that a backend has written: who reads them is to be named all the same."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.specification import Specification
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.errors import InputError
from kokoro_nb.faults import (
    edit_mlpackage_weight,
    edit_onnx_weight,
    mlpackage_reads,
    mlpackage_weights,
    onnx_reads,
    onnx_weights,
)
from kokoro_nb.studies.decoder import Subject
from kokoro_nb.studies.localisation.methods import METHODS, Method, View
from kokoro_nb.studies.localisation.study_rows import Row
from kokoro_nb.studies.localisation.study_runs import Healthy, asked, difference, healthy_on, trace_of
from kokoro_nb.traces.operators import CONSTANT

EDITED = "edited@"
_TOOLS = {
    ".onnx": (onnx_weights, onnx_reads, edit_onnx_weight),
    ".mlpackage": (mlpackage_weights, mlpackage_reads, edit_mlpackage_weight),
}


def study_files(
    name: str, subject: Subject, number: int, seed: int = 0, methods: Mapping[str, Method] = METHODS
) -> list[Row]:
    """Export once, change one element of one weight in a copy of the file, and ask each method who is wrong.

    Parameters
    ----------
    name : str
        ``onnxruntime`` or ``coreml-reference``.
    subject : Subject
        What is exported.
    number : int
        How many weights, each in a copy of its own.
    seed : int
        Which ones, and which element. It is changed by the largest absolute value of the weight.
    methods : mapping
        Name -> method.

    Returns
    -------
    list of Row
        The untouched file first.

    Raises
    ------
    InputError
        If the program cannot be exported, or the file holds fewer weights that go by the names of the program.
    """
    from tqdm.auto import tqdm

    healthy = healthy_on(name, subject)
    with TemporaryDirectory() as folder:
        artifact = backend(name).export(subject.exported, subject.inputs, folder)
        if isinstance(artifact, Failure):
            raise InputError(str(artifact))
        assert artifact.path is not None
        known = dict(_readers(artifact.path, subject.specification))
        if len(known) < number:
            raise InputError(f"{name} keeps {len(known)} weights under their names, not {number}; ask for fewer.")
        random = Random(seed)
        weights = [None, *random.sample(sorted(known), number)]
        rows = []
        for weight in tqdm(weights, desc=f"{name}, files", unit="file"):
            with _copied(artifact) as copy:
                if weight is not None:
                    _edit(copy, weight, random)
                rows.append(_row(copy, weight, known, subject, healthy, methods))
    return rows


def _row(
    artifact: Artifact,
    weight: str | None,
    readers: Mapping[str, tuple[str, ...]],
    subject: Subject,
    healthy: Healthy,
    methods: Mapping[str, Method],
) -> Row:
    seconds: dict[str, float] = {}
    trace = trace_of(artifact, subject, seconds)
    named = asked(methods, View(healthy.reference, trace), seconds)
    who = readers[weight] if weight is not None else ()
    return Row(
        artifact.backend,
        (f"{EDITED}{weight}",) if weight is not None else (),
        tuple((reader,) for reader in who),
        named,
        difference(healthy.outputs, trace.outputs),
        healthy.floor,
        tuple(one for one in who if one in trace.missing),
        seconds=seconds,
    )


def _readers(path: Path, specification: Specification) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each weight of the file that goes by the name of a parameter, with the operators that read it.

    An operator that reads nothing but constants is left out: the file holds what it gives. So is one for which the
    converter has written another constant, such as the reciprocal of a divisor.
    """
    list_weights, list_reads, _ = _TOOLS[path.suffix]
    places, reads = read_taps(path.parent).places, list_reads(path)
    nodes = {name: node for node, name in specification.program.graph_signature.inputs_to_parameters.items()}
    readers: dict[str, list[str]] = {}
    for operator in specification.operators:
        if not all(one.startswith(CONSTANT) for one in operator.inputs):
            for one in operator.inputs:
                if one.startswith(CONSTANT):
                    readers.setdefault(one.removeprefix(CONSTANT), []).append(operator.name)
    inside = list_weights(path)
    for parameter, who in readers.items():
        for own in (parameter, nodes.get(parameter)):
            if own in inside:
                reading = tuple(one for one in who if one not in places or places[one] in reads.get(own, ()))
                yield own, reading or tuple(who)


@contextmanager
def _copied(artifact: Artifact) -> Iterator[Artifact]:
    """Yield a copy of an artefact in a folder that is removed afterwards."""
    assert artifact.path is not None
    with TemporaryDirectory() as room:
        folder = Path(room) / artifact.path.parent.name
        shutil.copytree(artifact.path.parent, folder)
        yield replace(artifact, path=folder / artifact.path.name)


def _edit(artifact: Artifact, weight: str, random: Random) -> None:
    assert artifact.path is not None

    def change(value: np.ndarray) -> np.ndarray:
        value.reshape(-1)[random.randrange(value.size)] += np.abs(value).max()
        return value

    _TOOLS[artifact.path.suffix][-1](artifact.path, weight, change)
