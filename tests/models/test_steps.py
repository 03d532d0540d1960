"""The pipeline as a chain of steps: together they are the model, and each holds only what it runs."""

import inspect

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import patched
from kokoro_nb.models.stages import chain
from kokoro_nb.models.static_buffers import static_inputs

CUT = {"t_en": "t_en", "d": "d", "pred_dur": "durations", "asr": "asr", "f0": "f0", "n": "n", "s": "s"}


@torch.no_grad()
def run_chain(model, case, frames, tokens=None):
    """Return every tensor of the steps by name, inputs among them."""
    values = dict(static_inputs(case, frames, tokens))
    with patched(model, ("explicit_noise",)):
        for module in chain(model, frames).values():
            names = inspect.signature(module.forward).parameters
            made = module(**{name: values[name] for name in names if name in values})
            made = made if isinstance(made, tuple) else (made,)
            values |= dict(zip(module.output_names, made, strict=True))
    return values


@pytest.fixture(scope="module")
def values(narrow, narrow_case):
    return run_chain(narrow.model, narrow_case, narrow_case.frames)


@pytest.mark.parametrize("name", CUT)
def test_up_to_the_decoder_they_are_the_model(values, narrow_case, name):
    expected = narrow_case.tensors[CUT[name]].double()
    found = values[name].reshape(expected.shape).double()
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()  # float32 in another order


def test_the_decoders_steps_are_the_decoder(narrow, narrow_case):
    # on the same inputs: the phase in between makes more of any difference before it
    given = narrow_case.decoder_inputs()
    with torch.no_grad(), patched(narrow.model, ("explicit_noise",)):
        steps = chain(narrow.model, narrow_case.frames)
        har = steps["har"](steps["source"](given["f0"], given["harmonic_noise"]))
        x = steps["trunk"](given["asr"], given["f0"], given["n"], given["s"])
        x_pre, x_post = steps["generator"](x, given["s"], *har)
        audio = steps["audio"](*steps["spectrum"](x_post))
        again = narrow.model.decoder.generator.conv_post(x_pre)
    expected = narrow_case.tensors["audio"]
    assert (audio.reshape(-1) - expected).abs().max() <= 1e-5 * expected.abs().max()  # sums in another order
    assert torch.equal(again, x_post)


def test_each_step_holds_only_what_it_runs(narrow):
    steps = chain(narrow.model, 4)
    parameters = sum(p.numel() for step in steps.values() for p in step.parameters())
    # all but the pooler of BERT, which nothing reads, is in one step each
    assert parameters <= sum(p.numel() for p in narrow.model.parameters())
    assert not list(steps["alignment"].parameters())
    assert {name.partition(".")[0] for name, _ in steps["source"].named_parameters()} == {"m_source"}


def test_one_frame_is_refused(narrow):
    with pytest.raises(InputError, match="cannot compute 1 frames"):
        chain(narrow.model, 1)
