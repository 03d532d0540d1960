import numpy as np
import pytest

from kokoro_nb.delivery.pipeline import cut, joined
from kokoro_nb.errors import InputError

LONG = "ab cd ef, gh ij. kl mn? op"


def up_to(count):
    return lambda some: len(some) <= count


@pytest.mark.parametrize("room", [2, 3, 5, 6, 9, 12, 16, 20, 25, 26])
def test_no_phoneme_is_lost_and_every_piece_fits(room):
    symbols = LONG.replace(",", "").replace(".", "").replace("?", "") if room == 2 else LONG
    found = cut(symbols, up_to(room))
    assert " ".join(found) == symbols
    assert max(map(len, found)) <= room


def test_it_is_cut_at_the_longest_pauses_first():
    assert cut(LONG, up_to(26)) == [LONG]
    assert cut(LONG, up_to(16)) == ["ab cd ef, gh ij.", "kl mn? op"]
    assert cut(LONG, up_to(9)) == ["ab cd ef,", "gh ij.", "kl mn? op"]
    assert cut(LONG, up_to(6)) == ["ab cd", "ef,", "gh ij.", "kl mn?", "op"]
    with pytest.raises(InputError, match="no room for the word 'abcdef'"):
        cut("ab abcdef", up_to(5))


def test_a_join_has_no_step_and_keeps_every_sample_but_at_its_sides():
    one, other = np.ones(1200, np.float32), -np.ones(1800, np.float32)
    made = joined([one, other], 24_000)
    assert made.shape == (3000,)
    assert np.abs(np.diff(made)).max() < 0.01  # a hundred and twenty samples from 1 to 0
    assert made[1199] == made[1200] == 0
    assert (made[:1080] == 1).all()
    assert (made[1320:] == -1).all()
    assert one[-1] == 1, "what was given stays as it is"
    assert np.array_equal(joined([one], 24_000), one)
