"""Where the elements lie that indices point at."""

import torch

from kokoro_nb.locate.forms.indexing import places


def test_one_number_points_at_one_element_or_at_all_of_a_row():
    last = torch.tensor(2)
    assert places((5,), {0: last}).tolist() == 2
    assert places((5, 3), {0: last}).tolist() == [6, 7, 8]
    assert places((5, 3), {1: torch.tensor([2, 0])}).tolist() == [[2, 0], [5, 3], [8, 6], [11, 9], [14, 12]]
