import pytest

from kokoro_nb.backends.qnn.process import Validation, complaints, options_taken, validations

# Shortened from the log of onnxruntime-qnn 2.7.0.
LOG = """ # printed past the log
2026-11-21 13:14:22.746029 [V:onnxruntime:, qnn_execution_provider.cc:1056 QnnEp] User specified htp_arch: 75
2026-11-21 13:14:22.746031 [V:onnxruntime:, qnn_execution_provider.cc:345 ParseBoolOption] User specified \
ep.qnnexecutionprovider.extended_udma: 0
2026-11-21 13:14:22.746033 [V:onnxruntime:, qnn_execution_provider.cc:675 QnnEp] User specified context cache path: \
/tmp/a: b.onnx
\x1b[0;93m2026-11-21 13:14:22.746035 [W:onnxruntime:, qnn.cc:933 QnnEp] Disabled by default\x1b[m
2026-11-21 13:14:22.746037 [V:onnxruntime:, qnn.cc:1713 LogNodeSupport] Validation PASSED for 2 nodes in \
ReshapeTransposeFusion (Reshape) :
\tOperator type: Reshape Node name: reshape Node index: 1
\tOperator type: Transpose Node name: a name Node index: 2

2026-11-21 13:14:22.746039 [V:onnxruntime:, qnn.cc:1713 LogNodeSupport] Validation FAILED for 1 nodes in \
OrtNodeUnit (Loop) :
\tOperator type: Loop Node name: /Loop Node index: 668
\tREASON : Operators of type `Loop` are not supported by QNN EP.

2026-11-21 13:14:22.746041 [V:onnxruntime:, qnn.cc:1713 LogNodeSupport] Validation FAILED for 1 nodes in \
OrtNodeUnit (Reshape) :
\tOperator type: Reshape Node name: reshape Node index: 1
\tREASON : No more.
\x1b[1;31m2026-11-21 13:14:22.746043 [E:onnxruntime:, ep.cc:412 GetCapability] Cannot be
fused together.\x1b[m
"""


def test_options_are_those_that_the_provider_read():
    assert options_taken(LOG) == {"htp_arch": "75", "extended_udma": "0"}


def test_each_node_has_its_first_verdict_and_the_reason():
    reason = "Operators of type `Loop` are not supported by QNN EP."
    assert validations(LOG) == {
        "reshape": Validation("reshape", "Reshape", True),
        "a name": Validation("a name", "Transpose", True),
        "/Loop": Validation("/Loop", "Loop", False, reason),
    }


@pytest.mark.parametrize(
    ("levels", "expected"),
    [("WEF", ["Disabled by default", "Cannot be\nfused together."]), ("EF", ["Cannot be\nfused together."])],
)
def test_complaints_are_reported_by_their_level_and_without_colour(levels, expected):
    assert complaints(LOG, levels) == expected


def test_a_log_without_records_says_nothing():
    assert complaints("free text [E: not a record]") == []
    assert validations("") == options_taken("") == {}
