from dataclasses import replace

import numpy as np

from kokoro_nb.models.pocket.bugs import BUGS
from kokoro_nb.studies.pockettts.bug_effects import compared, effect, effects


def test_the_start_time_hides_at_one_step_of_the_sampler(brief):
    one, two, hidden = effects(BUGS["start_at_zero"], brief, (1, 2))
    assert [each.hidden for each in (one, two, hidden)] == [True, False, True]
    assert [each.setting for each in (one, two)] == ["1 sampler step", "2 sampler steps"]
    assert two.latents.of_peak > 1e-2
    assert two.read.max_error == 0  # so that a test of the transformer alone passes


def test_where_it_hides_nowhere_no_row_says_so(brief):
    assert [each.hidden for each in effects(BUGS["end_off_by_one"], brief, (1,))] == [False]


def test_padding_is_counted(tried, brief):
    found = effect(BUGS["padding_counted"], brief, "")
    spare = -tried.embeddings.shape[1] % tried.host.room
    assert found.position == found.check == spare > 0
    assert found.read.max_error == 0  # what is written is right: what comes behind it is not
    assert found.latents.of_peak > 1e-2


def test_nan_stays_nan_in_the_table(brief):
    row = effect(BUGS["nan_cache"], brief, "").as_dict()
    assert row["audio finite (%)"] == 0
    assert row["finite (%)"] == 50  # the first of two layers
    assert np.isnan(row["latents (of peak)"])


def test_nothing_is_hidden_and_exact(brief):
    speech = brief.speak()
    same = compared(BUGS["text_first"], speech, speech, "the same")
    assert same.hidden
    louder = replace(speech, frames=speech.frames * 2)
    assert not compared(BUGS["text_first"], speech, louder, "").hidden
