import pytest
import torch

from kokoro_nb.backends.exported import export_program, snapshot
from kokoro_nb.models import stages
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.models.static_buffers import widened
from kokoro_nb.traces.parity import compare

FRAMES, LIMIT = 12, 1e-5  # of the peak, in float32; 2e-6 was measured at 24 frames
STFTS = {
    "TorchSTFT": ("explicit_noise",),
    "CustomSTFT": ("explicit_noise", "custom_stft"),
    "export patches": EXPORT_PATCHES,
}


@pytest.fixture(params=STFTS)
def on(request, narrow):
    """Patch the model so that it holds each of the STFTs in turn: their edges differ."""
    with torch.no_grad(), patched(narrow.model, STFTS[request.param]):
        yield request.param


def _error(expected, found):
    """Return the error of the valid part; behind it there is silence."""
    valid = expected.shape[1]
    assert not found[:, valid:].any()
    return compare(expected, found[:, :valid]).of_peak


def _errors(model, inputs, room, fill=float("nan")):
    """Return the error of the decoder from `har` and of the whole one, against the same without padding."""
    decoder, length = model.decoder, torch.tensor([inputs["asr"].shape[-1]])
    given = stages.from_har_inputs(decoder, inputs)
    from_har = stages.FromHarStage(decoder)(**widened(given, room, fill), length=length)
    whole = stages.DecoderStage(decoder)(**widened(inputs, room, fill), length=length)
    return (
        _error(stages.FromHarStage(decoder)(**given), from_har),
        _error(stages.DecoderStage(decoder)(**inputs), whole),
    )


@pytest.mark.parametrize("room", [FRAMES, FRAMES + 1, 2 * FRAMES])
def test_the_valid_part_is_what_it_is_without_padding(on, narrow, narrow_case, room):
    assert max(_errors(narrow.model, narrow_case.decoder_inputs(FRAMES), room)) <= LIMIT


def test_in_float64_nothing_but_rounding_is_left(on, narrow, narrow_case, in_double):
    model = snapshot(narrow.model, double=True)
    inputs = {name: tensor.double() for name, tensor in narrow_case.decoder_inputs(4).items()}
    from_har, whole = _errors(model, inputs, 7)
    assert from_har < 1e-12
    assert whole < 1e-9  # atan2 of bins that hold nothing but rounding enlarges it


def test_a_fault_in_the_valid_part_is_not_hidden(narrow, narrow_case):
    with torch.no_grad(), patched(narrow.model, EXPORT_PATCHES):
        inputs = widened(narrow_case.decoder_inputs(3), 5)
        inputs["asr"][0, 0, 1] = float("nan")
        audio = stages.DecoderStage(narrow.model.decoder)(**inputs, length=torch.tensor([3]))
    assert audio[:, :1800].isnan().all()


def test_the_exported_graph_names_the_eager_modules_and_asks_no_value(narrow, narrow_case):
    decoder = narrow.model.decoder
    with torch.no_grad(), patched(narrow.model, EXPORT_PATCHES):
        inputs = {**stages.from_har_inputs(decoder, narrow_case.decoder_inputs(4)), "length": torch.tensor([3])}
        exported = export_program(stages.FromHarStage(decoder), inputs)
    nodes = [node for node in exported.program.graph.nodes if node.op == "call_function"]
    kinds = {str(node.target) for node in nodes}
    refused = ("instance_norm", ".item", "_local_scalar", "nonzero", "index", "gather", "rand")
    assert [kind for kind in kinds if any(word in kind for word in refused)] == []
    paths = {list(node.meta["nn_module_stack"].values())[-1][0] for node in nodes if "conv" in str(node.target)}
    layers = (torch.nn.Conv1d, torch.nn.ConvTranspose1d)
    expected = {f"decoder.{name}" for name, part in decoder.named_modules() if isinstance(part, layers)}
    assert paths - {""} == expected  # and the STFT's own, which is no module of theirs
    assert exported.outputs == ("output",)
