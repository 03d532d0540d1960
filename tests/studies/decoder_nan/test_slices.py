import numpy as np

from kokoro_nb.studies.decoder_nan import slices
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.trace import Recorder


def trace(**values):
    operators = [
        Operator(name, f"aten.{name}.default", "", (), value.shape, "float32") for name, value in values.items()
    ]
    recorder = Recorder(operators, "full")
    for name, value in values.items():
        recorder.add(name, value)
    return recorder.trace("eager", {}, {}, "by hand")


def with_nan(channel):
    value = np.ones((1, 4, 20), np.float32)
    value[0, channel] = np.nan
    return value


ONES = np.ones((1, 4, 20), np.float32)


def test_a_fault_is_seen_in_the_head_and_the_tail_alone():
    reference = trace(conv=ONES, mix=ONES)
    assert slices(reference, trace(conv=with_nan(2), mix=np.full_like(ONES, np.nan))).name == "mix"
    assert slices(trace(conv=ONES), trace(conv=with_nan(2)), elements=30).name == "conv", "more elements see more"
    for channel in (0, 3):
        assert slices(reference, trace(conv=with_nan(channel), mix=ONES)).name == "conv"
    assert slices(trace(conv=ONES), trace(conv=ONES + np.float32(1e-5))).name is None
    assert slices(trace(conv=ONES), trace(conv=ONES + np.float32(1e-3))).name == "conv"
