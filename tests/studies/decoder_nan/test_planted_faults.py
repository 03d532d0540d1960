from kokoro_nb.studies.decoder import decoder_program
from kokoro_nb.studies.decoder_nan import planted_faults


def test_each_fault_is_named_and_the_tensors_of_the_first_run_alone_are_kept(narrow, narrow_case):
    healthy = decoder_program(narrow.model, narrow_case, 4, "encode")
    faults = [str(fault) for fault in healthy.faults(2, 0, ["nan_channel"])]
    found = planted_faults(healthy, faults, ["eager"])
    assert list(found) == [(fault, "eager") for fault in faults]
    assert [one.culprits[0].tap.name for one in found.values()] == [fault.partition("@")[2] for fault in faults]
    assert [one.investigation is not None for one in found.values()] == [True, False]
