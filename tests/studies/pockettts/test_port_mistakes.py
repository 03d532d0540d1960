from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.pockettts import port_mistakes
from kokoro_nb.studies.pockettts.port_mistakes import BUGS, effect, first_difference, recorded

# where each was put, which is not told to what looks for it; the notebook asks for the tensor of every mistake
FOUND = {
    "start_at_zero": ("frame 0: flow 1", ("s",), "flow_net.time_embed.0:mul", ("direction",)),
    "end_off_by_one": ("frame 0: flow 0", ("t",), "flow_net.time_embed.1:mul", ("direction",)),
}


@pytest.fixture(scope="module")
def expected(tried):
    return recorded(replace(tried, utterance=replace(tried.utterance, noise=tried.utterance.noise[:2])))[1]


@pytest.mark.parametrize("name", FOUND)
def test_the_first_tensor_that_differs_is_found(right, brief, expected, name):
    _, calls = recorded(brief, BUGS[name])
    origin = first_difference(expected, calls, right.modules)
    assert (origin.place, origin.given, origin.operator, origin.made) == FOUND[name]
    assert origin.as_dict()["first call"] == origin.place


def test_two_runs_of_the_same_do_not_differ(right, brief, expected):
    assert first_difference(expected, recorded(brief)[1], right.modules) == port_mistakes.FirstDifference()


def test_a_call_is_kept_as_the_step_saw_it(brief, expected):
    speech, calls = recorded(brief, BUGS["start_at_zero"])
    flow = [call for call in calls if call.step == "flow"]
    assert [float(call.inputs["s"][0, 0]) for call in flow] == [0, 0, 0, 0]
    assert [float(call.inputs["s"][0, 0]) for call in expected if call.step == "flow"] == [0, 0.5, 0, 0.5]
    assert np.array_equal(calls[-1].outputs["audio"].flatten(), speech.frames[-1])


def test_runs_of_other_steps_are_refused(right, expected):
    with pytest.raises(InputError, match=r"calls 'conditioning 1' where the other calls 'frame 0: language'"):
        first_difference(expected, (expected[0], *expected[2:]), right.modules)


def test_where_it_hides_nowhere_no_row_says_so(brief):
    assert [each.hidden for each in port_mistakes.effects(BUGS["end_off_by_one"], brief, (1,))] == [False]


def test_nan_stays_nan_in_the_table(brief):
    row = effect(BUGS["nan_cache"], brief, "").as_dict()
    assert row["audio finite (%)"] == 0
    assert row["finite (%)"] == 50  # the first of two layers
    assert np.isnan(row["latents (of peak)"])


def test_nothing_is_hidden_and_exact(brief):
    speech = brief.speak()
    assert port_mistakes.compared(BUGS["text_first"], speech, speech, "the same").hidden
    louder = replace(speech, frames=speech.frames * 2)
    assert not port_mistakes.compared(BUGS["text_first"], speech, louder, "").hidden
