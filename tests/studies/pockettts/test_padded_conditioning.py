from kokoro_nb.studies.pockettts.padded_conditioning import padding


def test_offsets_are_not_what_makes_padding_wrong(pocket, brief):
    norm = pocket.flow_lm.transformer.layers[0].norm1
    before = norm.bias.clone()
    found = padding(pocket, brief)
    assert found.offsets == 0
    assert found.counted > 1e-2
    assert found.written > 0.1
    assert found.written_without == 0  # a zero token then writes zeros,
    assert found.counted_without > 1e-2  # and spoils the first frame all the same
    assert norm.bias.equal(before)
