import pytest

from kokoro_nb.models import model_cuts
from kokoro_nb.studies.coreml_complete.replacements import replacements

# of the peak, float32: packed or not, the same operators; the transform's bound is that of its patches
LIMITS = {"TorchSTFT.transform": 1e-3}


@pytest.fixture(scope="module")
def found(narrow, narrow_case):
    return {one.name: one for one in replacements(narrow.model, narrow_case, calls=2)}


def test_each_is_what_it_replaces(found):
    assert len(found) == 8
    for name, one in found.items():
        assert one.error <= LIMITS.get(name.split(" (")[0], 1e-5), name
        assert one.cost > 0
        assert one.reason


def test_one_that_is_wrong_is_seen(narrow, narrow_case, monkeypatch):
    own = model_cuts.text_features
    monkeypatch.setattr(model_cuts, "text_features", lambda *given: own(*given).roll(1, dims=-1))
    wrong = [one.name for one in replacements(narrow.model, narrow_case, calls=1) if one.error > 1e-2]
    assert wrong == ["TextEncoder (text_encoder)"]
