import pytest
import torch

from kokoro_nb.backends.cuts import Cuts
from kokoro_nb.backends.exported import export_program
from tests.backends.small import Of


def _net(x):
    low, high = torch.split(torch.exp(x), 2, 1)
    y = torch.sin(low).transpose(1, 2) + high.transpose(1, 2)
    return y.relu(), torch.exp(x).topk(2).values.neg()


@pytest.fixture(scope="module")
def cuts():
    return Cuts(export_program(Of(_net), {"x": torch.ones(1, 4, 8)}))


def test_views_and_elements_stay_with_what_they_show(cuts):
    units = [cuts.names(unit, unit + 1) for unit in range(len(cuts))]
    assert units == [
        (":exp", ":split", ":split#2"),
        (":sin", ":transpose", ":transpose#2"),
        (":add",),
        (":relu",),
        (":exp#2",),
        (":topk",),  # the tuple that it is taken from is no result: nothing is cut in between
        (":neg",),
    ]
    assert cuts.names(0, len(cuts)) == tuple(name for unit in units for name in unit)


def test_a_part_gives_what_is_read_later_or_goes_out(cuts):
    first = cuts.part(0, 2)
    assert list(first.results) == [":transpose", ":transpose#2"]
    assert dict(first.fed) == {}
    second = cuts.part(2, 5)
    assert list(second.results) == [":relu", ":exp#2"]
    assert set(second.fed.values()) == {":transpose", ":transpose#2"}
    assert list(cuts.part(0, len(cuts)).results) == [":relu", ":neg"]


def test_every_result_inside_on_demand(cuts):
    assert list(cuts.part(0, 1).results) == [":split", ":split#2"]
    assert list(cuts.part(0, 1, inside=True).results) == [":exp", ":split", ":split#2"]
