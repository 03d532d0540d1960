"""The decoder as the studies look into it."""

import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.decoder import decoder_program


def test_another_set_of_patches_is_another_program(shallow, shallow_case):
    fewer = tuple(name for name in EXPORT_PATCHES if name != "two_pass_norm")
    made = (decoder_program(shallow.model, shallow_case, 4, patches=patches) for patches in (EXPORT_PATCHES, fewer))
    kinds = [{operator.op for operator in one.specification.operators} for one in made]
    assert ["aten.instance_norm.default" in each for each in kinds] == [False, True]


def test_a_part_is_exported_by_its_name_and_another_name_is_one_sentence(shallow, shallow_case):
    part = decoder_program(shallow.model, shallow_case, 4, "encode").specification.operators
    assert 0 < len(part) < len(decoder_program(shallow.model, shallow_case, 4).specification.operators)
    with pytest.raises(InputError, match="The decoder has no part 'ear'; use one of whole, from har, source"):
        decoder_program(shallow.model, shallow_case, 4, "ear")
