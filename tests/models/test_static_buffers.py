"""Buffers of static length."""

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models import model_cuts
from kokoro_nb.models.static_buffers import EXTENTS, static_inputs, widened
from tests.models.test_stages import run_chain


def test_static_buffers_are_filled_with_zeros_or_cut(narrow_case):
    count, frames = narrow_case.tensors["ids"].numel(), narrow_case.frames
    given = static_inputs(narrow_case, frames + 2, count + 3)
    assert given["ids"].shape == given["attention_mask"].shape == (1, count + 3)
    assert given["attention_mask"].sum() == count
    assert not given["ids"][:, count:].any()
    assert not given["harmonic_noise"][:, 600 * frames :].any()
    assert torch.equal(given["harmonic_noise"][:, : 600 * frames], narrow_case.tensors["harmonic_noise"])
    assert static_inputs(narrow_case, 4)["harmonic_noise"].shape == (1, 2400, 9)
    with pytest.raises(InputError, match="longer than 3 tokens"):
        static_inputs(narrow_case, 4, 3)
    with pytest.raises(InputError, match=f"longer than {count - 1} tokens"):
        static_inputs(narrow_case, 4, count - 1)


def test_every_extent_is_how_the_pipelines_own_tensors_grow(narrow, narrow_case):
    tokens = narrow_case.tensors["ids"].numel()
    few, many = (run_chain(narrow.model, narrow_case, frames, tokens + more) for frames, more in ((4, 0), (7, 2)))
    valid = {"tokens": tokens, "frames": 4}, {"tokens": tokens + 2, "frames": 7}
    seen = set(EXTENTS) & set(few)
    assert set(EXTENTS) - seen == {"length", "initial_phase", "har", "en"}  # of other ways to cut the pipeline
    for name in seen:
        lengths = [{extent.axis: extent.length(room) for extent in EXTENTS[name]} for room in valid]
        for values, length in zip((few, many), lengths, strict=True):
            assert {axis: values[name].shape[axis] for axis in length} == length, name
        grown = [axis for axis, size in enumerate(few[name].shape) if many[name].shape[axis] != size]
        assert set(grown) == set(lengths[0]), name


def test_every_input_grows_at_its_own_rate(narrow, narrow_case):
    inputs = narrow_case.decoder_inputs(4) | {"har": torch.ones(1, 22, 481), "length": torch.tensor([4])}
    wide = widened(inputs, 6, fill=2.0)
    assert wide["s"] is inputs["s"]
    assert (wide["harmonic_noise"].shape, wide["har"].shape) == ((1, 3600, 9), (1, 22, 721))
    assert torch.equal(wide["asr"][..., :4], inputs["asr"])
    assert (wide["asr"][..., 4:] == 2).all()
    assert (wide["har"][..., 481:] == 2).all()
    with torch.no_grad():
        assert model_cuts.trunk(narrow.model.decoder, *(wide[name] for name in ("asr", "f0", "n", "s"))).shape[2] == 12


def test_too_little_room_and_an_unknown_input_are_refused(narrow_case):
    with pytest.raises(InputError, match="'asr' is longer than 3 frames; give more room"):
        widened(narrow_case.decoder_inputs(4), 3)
    with pytest.raises(InputError, match="not known how the input 'latent' grows"):
        widened({"latent": torch.zeros(1)}, 3)
