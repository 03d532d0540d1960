import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.numerics.localisation_study import study_files, summarise
from kokoro_nb.numerics.subject import decoder_from_har

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


def test_more_weights_than_there_are_is_refused(small):
    with pytest.raises(InputError, match="onnxruntime keeps 2 weights under their names, not 3"):
        study_files("onnxruntime", small, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime", "coreml-reference"])
def test_twenty_edited_weights_of_the_narrow_decoder_are_found(name):
    (line,) = summarise(study_files(name, decoder_from_har("narrow", frames=8), 20))
    assert line["faults"] >= 15
    assert line["named exactly"] == line["faults"]
    assert line["healthy blamed"] == 0
