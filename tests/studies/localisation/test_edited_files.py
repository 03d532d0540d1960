import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.studies.decoder import Subject, decoder_from_har
from kokoro_nb.studies.localisation import study_files, summarise

METHOD = "first divergence"


@pytest.mark.parametrize(
    ("name", "weights"), [("onnxruntime", {"conv.weight", "conv.bias"}), ("coreml-reference", {"p_conv_weight"})]
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
    ("name", "readers"), [("onnxruntime", ((":mul",), (":div",))), ("coreml-reference", ((":mul",),))]
)
def test_who_reads_a_weight_is_what_the_file_says(name, readers):
    x = torch.randn(1, 300, 10, generator=torch.Generator().manual_seed(1))
    _, row = study_files(name, Subject("random", export_program(Snake(), {"x": x}), {"x": x}), 1)
    assert row.operators == readers  # coremltools writes the reciprocal of a divisor as another constant
    assert row.verdict(METHOD) == "exact"


def test_more_weights_than_there_are_is_refused(small):
    with pytest.raises(InputError, match="onnxruntime keeps 2 weights under their names, not 3"):
        study_files("onnxruntime", small, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime", "coreml-reference"])
def test_twenty_edited_weights_of_the_narrow_decoder_are_found(name):
    (line,) = summarise(study_files(name, decoder_from_har("narrow", frames=8), 20))
    assert line["faults"] >= 15
    # a convolution and the identity behind it are one value in the file: then either is named, and said to be
    assert line["named exactly"] + line["among several"] == line["faults"]
    assert line["among several"] <= 1
    assert line["healthy blamed"] == 0
