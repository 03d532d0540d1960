from kokoro_nb.studies.padding.padded_runtime import on_runtime


def test_with_the_length_a_runtime_computes_what_it_computes_without_padding(narrow, narrow_case):
    found = on_runtime(narrow.model, narrow_case, "eager", 6, 12, rounds=1)
    assert found.errors["plain"] == 0
    assert found.errors["exact"] <= 1e-5 < found.errors["naive"]
    assert found.cost.rounds == 1
    assert found.as_dict()["naive: error (of peak)"] == found.errors["naive"]
