"""Weights edited inside the file that a backend has written: who reads them is to be named all the same."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.faults import (
    edit_mlpackage_weight,
    edit_onnx_weight,
    mlpackage_reads,
    mlpackage_weights,
    onnx_reads,
    onnx_weights,
)
from kokoro_nb.studies.decoder import DecoderProgram, spoken_decoder
from kokoro_nb.studies.localisation import StudyRow, TracePair, by_divergence, summarise
from kokoro_nb.studies.localisation.study_runs import healthy_on
from kokoro_nb.traces.operators import CONSTANT
from kokoro_nb.traces.parity import largest_error

METHOD = "first divergence"
TOOLS = {
    ".onnx": (onnx_weights, onnx_reads, edit_onnx_weight),
    ".mlpackage": (mlpackage_weights, mlpackage_reads, edit_mlpackage_weight),
}


def study_files(name, subject, number, seed=0):
    """Export once, change one element of one weight in a copy of the file, and localise; the untouched file first."""
    healthy, random = healthy_on(name, subject), Random(seed)
    with TemporaryDirectory() as folder:
        artifact = backend(name).export(subject.program, subject.inputs, folder)
        readers = dict(_readers(artifact.path, subject.specification))
        weights = [None, *random.sample(sorted(readers), number)]
        return [_row(artifact, weight, readers, subject, healthy, random) for weight in weights]


def _row(artifact, weight, readers, subject, healthy, random):
    def change(value):
        value.reshape(-1)[random.randrange(value.size)] += np.abs(value).max()
        return value

    with TemporaryDirectory() as room:
        path = Path(shutil.copytree(artifact.path.parent, Path(room) / artifact.path.parent.name)) / artifact.path.name
        if weight is not None:
            TOOLS[path.suffix][-1](path, weight, change)
        trace = backend(artifact.backend).load(replace(artifact, path=path)).trace(subject.inputs, "all", "full")
    who = readers[weight] if weight is not None else ()
    return StudyRow(
        artifact.backend,
        (f"edited@{weight}",) if weight is not None else (),
        tuple((reader,) for reader in who),
        {METHOD: by_divergence(TracePair(healthy.reference, trace))},
        largest_error(healthy.outputs, trace.outputs),
        healthy.floor,
        tuple(one for one in who if one in trace.missing),
    )


def _readers(path, specification):
    """Yield each weight of the file that goes by the name of a parameter, with the operators that read it.

    An operator that reads nothing but constants is left out: the file holds what it gives. So is one for which the
    converter has written another constant, such as the reciprocal of a divisor.
    """
    list_weights, list_reads, _ = TOOLS[path.suffix]
    places, reads = read_taps(path.parent).places, list_reads(path)
    nodes = {name: node for node, name in specification.program.graph_signature.inputs_to_parameters.items()}
    readers = {}
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


@pytest.mark.parametrize(
    ("name", "weights"),
    [("onnxruntime", {"conv.weight", "conv.bias"}), ("coreml-reference-float32", {"p_conv_weight"})],
)
def test_an_edited_weight_is_found_at_the_operator_that_reads_it(name, weights, small):
    healthy, *edited = study_files(name, small, len(weights))
    assert healthy.faults == ()
    assert healthy.named == {METHOD: ()}
    assert {row.faults for row in edited} == {(f"edited@{weight}",) for weight in weights}
    for row in edited:
        assert row.named[METHOD] == ("conv:conv1d",)
        assert row.verdict(METHOD) == "exact"
        assert not row.neutral


class Snake(nn.Module):
    """Multiplies by a weight, and divides by it."""

    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.linspace(0.5, 2, 300)[:, None])

    def forward(self, x):
        return x + torch.sin(x * self.alpha) / self.alpha


@pytest.mark.parametrize(
    ("name", "readers"), [("onnxruntime", ((":mul",), (":div",))), ("coreml-reference-float32", ((":mul",),))]
)
def test_who_reads_a_weight_is_what_the_file_says(name, readers):
    x = torch.randn(1, 300, 10, generator=torch.Generator().manual_seed(1))
    _, row = study_files(name, DecoderProgram(export_program(Snake(), {"x": x}), {"x": x}), 1)
    assert row.operators == readers  # coremltools writes the reciprocal of a divisor as another constant
    assert row.verdict(METHOD) == "exact"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime", "coreml-reference-float32"])
def test_twenty_edited_weights_of_the_narrow_decoder_are_found(name):
    (line,) = summarise(study_files(name, spoken_decoder("narrow", frames=8)[1], 20))
    assert line["faults"] >= 15
    # a convolution and the identity behind it are one value in the file: then either is named, and said to be
    assert line["named exactly"] + line["among several"] == line["faults"]
    assert line["among several"] <= 1
    assert line["healthy blamed"] == 0
