"""Delta debugging, on sets whose answer is known."""

import random

import pytest

from kokoro_nb.locate.search import smallest
from tests.refusals import refused

LETTERS = "abcdefghijk"


@pytest.mark.parametrize("needed", [set(), {"d"}, {"a", "k"}, {"c", "d", "e"}, set(LETTERS)])
def test_finds_what_is_needed_and_asks_once_about_each(needed):
    asked = []

    def good(chosen):
        asked.append(chosen)
        return needed <= set(chosen)

    assert smallest(LETTERS, good) == tuple(sorted(needed))
    assert len(set(asked)) == len(asked) <= len(LETTERS) ** 2 + 3 * len(LETTERS)  # the bound of the paper


@pytest.mark.parametrize("seed", range(30))
def test_none_can_be_left_out_of_it_whatever_good_is(seed):
    # sets that are good at random, so that more is not better: the strictest case
    source = random.Random(seed)
    table = {}

    def good(chosen):
        return len(chosen) == len(LETTERS) or table.setdefault(chosen, source.random() < 0.3)

    found = smallest(LETTERS, good)
    assert good(found)
    assert not any(good(tuple(other for other in found if other != item)) for item in found)


def test_refuses_what_is_not_good_to_begin_with():
    refused("All items together are not good", smallest, LETTERS, lambda chosen: len(chosen) == 3)
    refused("twice", smallest, "aa", lambda _: True)
