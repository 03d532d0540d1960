"""The harmonic source in float16: what a diagnosis names stays float32, and that is a set to paste."""

import kokoro_nb as nb
from kokoro_nb.studies.coreml_complete import op_selector
from kokoro_nb.studies.decoder import decoder_program
from tests.backends.small import present


def test_what_the_diagnosis_names_stays_float32(shallow):
    present("coreml")
    source = decoder_program(shallow.model, nb.capture(shallow, "Hi.", ""), 4, "excitation")
    found = nb.diagnose(source.program, source.inputs, "coreml-reference", remedies=True)
    assert found.verdict == "fail"
    cure = found.remedies[-1]
    assert (cure.kind, cure.verdict) == ("float32 operators", "pass")
    assert cure.error_after <= found.output.limit < found.output.of_peak
    assert {one.tap.name for one in found.ranked} <= set(cure.name.split(", "))
    assert found.ranked[0].alone > 0
    assert '"sin",' in op_selector(source, cure)
