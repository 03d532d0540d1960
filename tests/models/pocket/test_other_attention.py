import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.flow_and_mimi import ConditioningStep, OtherConditioningStep
from kokoro_nb.models.pocket.pocket_architecture import load_pocket, small_config
from kokoro_nb.models.pocket.transformer import flow_lm_state


@pytest.mark.parametrize("start", [0, 7])
def test_it_writes_what_ours_writes(pocket, voice, start):
    cache, position = flow_lm_state(pocket, 20).values()
    cache[:, :, :start] = torch.randn(cache[:, :, :start].shape, generator=torch.Generator().manual_seed(1))
    given = (voice[:, :1], cache, position + start)
    found, expected = OtherConditioningStep(pocket)(*given), ConditioningStep(pocket)(*given)
    assert torch.equal(found[1], expected[1])
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-5)
    later, _ = OtherConditioningStep(pocket)(voice[:, :1], cache, position + start + 1)  # the control
    assert (later - expected[0]).abs().max() > 1e-2


def test_nan_in_the_cache_spoils_it_like_ours(pocket, voice):
    cache, position = flow_lm_state(pocket, 20).values()
    spoilt = torch.full_like(cache, float("nan"))
    for step in (OtherConditioningStep(pocket), ConditioningStep(pocket)):
        written = step(voice[:, :1], spoilt, position)[0][:, :, 0]
        assert torch.isfinite(written[0]).all()
        assert np.isnan(written[1:].numpy()).all()


def test_shared_heads_are_refused():
    config = small_config()
    config["flow_lm"]["transformer"] |= {"num_kv_heads": 1}
    with pytest.raises(InputError, match="share keys and values"):
        OtherConditioningStep(load_pocket(config))
