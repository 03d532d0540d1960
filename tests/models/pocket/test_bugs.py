"""Each mistake changes what it is said to change, does not show where it is said to hide, and its check sees it."""

from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.models.pocket.bugs import BUGS, attempt
from kokoro_nb.models.pocket.pocket_steps import eager_steps, step_modules

FRAMES = 3


@pytest.fixture(scope="module")
def right(pocket, voice, drive):
    said = replace(drive.said(pocket, voice, FRAMES), sampler=2)
    host = drive.host(pocket, drive.said(pocket, voice, FRAMES + 16))  # padding that counts takes positions
    return attempt(eager_steps(step_modules(pocket, host)), host, said)


@pytest.fixture(scope="module")
def speech(right):
    return right.speak()


@pytest.mark.parametrize("name", BUGS)
def test_it_shows_and_its_check_sees_it(right, speech, name):
    wrong = BUGS[name].apply(right).speak()
    assert BUGS[name].caught(speech, speech) == 0
    assert BUGS[name].caught(speech, wrong) > 1e-2  # 0.02 of peak and more, 6 positions, half of the cache
    assert not np.abs(wrong.latents - speech.latents).max() <= 1e-2


@pytest.mark.parametrize("name", ["start_at_zero", "padding_counted", "text_first"])
def test_it_does_not_show_where_it_hides(right, name):
    hidden = BUGS[name].hidden(right)
    expected, found = hidden.speak(), BUGS[name].apply(hidden).speak()
    assert np.array_equal(expected.latents, found.latents)
    assert np.array_equal(expected.read["cache"], found.read["cache"])

    # without room to spare nothing is cut
    assert BUGS["padding_counted"].hidden(replace(right, embeddings=right.embeddings[:, :3])) is None
