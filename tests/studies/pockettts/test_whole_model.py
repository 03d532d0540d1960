from dataclasses import replace

import pytest

from kokoro_nb.models.pocket.pocket_steps import draw_noise
from kokoro_nb.studies.pockettts.whole_model import whole_model

pytestmark = pytest.mark.slow  # the notebook executes it


@pytest.fixture(scope="module")
def whole(pocket, said):
    # seeds of which two let the speech end before its sixteen frames are over
    return whole_model(pocket, [replace(said, sampler=1, noise=draw_noise(pocket, 16, seed)) for seed in (3, 4, 5)])


def test_a_trace_keeps_the_loop_of_its_example(whole):
    traced = whole[0]
    assert traced.failure is None
    assert len(set(traced.expected)) > 1  # the package ends where the noise leads it
    assert set(traced.found) == {traced.expected[0]}
    assert traced.wrong() == sum(frames != traced.expected[0] for frames in traced.expected) > 0
    assert "where the package makes" in traced.outcome


def test_torch_export_refuses_it(whole):
    exported = whole[2]
    assert exported.failure.rung == "exported"
    assert "data-dependent" in exported.failure.message.lower()
    assert exported.wrong() == 0
