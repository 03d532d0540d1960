import pytest

from kokoro_nb.backends.qnn.process import QnnError
from kokoro_nb.backends.qnn.target import RECORD, checked_options, require_taken
from kokoro_nb.errors import InputError

PREFIX = "2026-11-21 13:14:22.7 [V:onnxruntime:, a.cc:1 QnnEp] User specified "
RECORDED = {RECORD: "v2:6:2.51.0:5.51.0:75:57:8:0"}


@pytest.mark.parametrize(("soc", "arch"), [("30", "68"), ("57", "75"), ("87", "81")])
def test_a_chip_has_one_npu(soc, arch):
    # SM8350, SM8650, SM8850: Qualcomm's table of supported devices.
    assert checked_options(soc, None, {}) == checked_options(soc, arch, {}) == {"soc_model": soc, "htp_arch": arch}


def test_further_options_are_passed_on():
    options = checked_options("57", None, {"vtcm_mb": "8", "enable_htp_fp16_precision": "1"})
    assert options == {"soc_model": "57", "htp_arch": "75", "vtcm_mb": "8", "enable_htp_fp16_precision": "1"}


@pytest.mark.parametrize(
    ("soc", "arch", "others", "sentence"),
    [
        ("9999", None, {}, "no chip with soc_model '9999'; the known ones are .*57 .SM8650."),
        ("57", "73", {}, "NPU of SM8650 .soc_model 57. is version 75, not 73"),
        ("57", None, {"nonsense": "1"}, "no provider option 'nonsense'; use one of soc_model, htp_arch, vtcm_mb"),
        ("57", None, {"htp_arch": "75"}, "'htp_arch' is a field of its own"),
        ("57", None, {"vtcm_mb": "-3"}, "vtcm_mb cannot be '-3'"),
        ("57", None, {"htp_graph_finalization_optimization_mode": "9"}, "cannot be '9'; it takes .0-3."),
    ],
)
def test_what_the_provider_would_pass_over_in_silence_is_refused(soc, arch, others, sentence):
    with pytest.raises(InputError, match=sentence):
        checked_options(soc, arch, others)


def test_options_that_were_taken_pass():
    log = f"{PREFIX}htp_arch: 75\n{PREFIX}soc_model: 57\n{PREFIX}ep.qnnexecutionprovider.extended_udma: 1\n"
    options = {"soc_model": "57", "htp_arch": "75", "extended_udma": "1", "vtcm_mb": "8"}
    assert require_taken(options, log, RECORDED) is None


@pytest.mark.parametrize(
    ("options", "log", "metadata", "sentence"),
    [
        ({"htp_arch": "75"}, f"{PREFIX}htp_arch: 73\n", RECORDED, "given htp_arch=75, but its log says 73"),
        ({"htp_arch": "73"}, f"{PREFIX}htp_arch: 73\n", RECORDED, "given htp_arch=73, but its artefact says 75"),
        ({"vtcm_mb": "4"}, "", RECORDED, "given vtcm_mb=4, but its artefact says 8"),
        ({"extended_udma": "1"}, "", RECORDED, "extended_udma=1, and nothing shows that it read it"),
        ({}, "", {RECORD: "v1:75"}, "but 'v1:75'"),
    ],
)
def test_an_option_that_was_not_taken_is_an_error(options, log, metadata, sentence):
    with pytest.raises(QnnError, match=sentence):
        require_taken(options, log, metadata)
