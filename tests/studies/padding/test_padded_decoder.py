import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.studies.padding.padded_decoder import KINDS, decoder_in_buffers


@pytest.mark.parametrize("kind", KINDS)
def test_padding_leaks_unless_the_length_is_known(kind, narrow, narrow_case):
    found = decoder_in_buffers(narrow.model, narrow_case, 6, [12], kinds=[kind])
    run = found.run(kind, 12)
    assert run.plain.shape == run.naive.shape == run.exact.shape == (3600,)
    assert run.from_har.of_peak <= 1e-5
    assert run.source.of_peak <= max(1e-5, run.floor.of_peak) <= 1e-3
    assert run.leaking.of_peak > 0.1
    (row,) = found.rows()
    assert row["exact: amplitude ratio"] == pytest.approx(
        1, abs=0.1
    )  # atan2 may have made another waveform of rounding
    assert row["exact: error (of peak)"] == run.whole.of_peak < run.leaking.of_peak
    assert row["naive: correlation"] == run.leaking.correlation < 0.999


def test_an_unknown_noise_is_refused(narrow, narrow_case):
    with pytest.raises(InputError, match="no noise 'pink'; use one of gaussian, zero, tonal, signal"):
        decoder_in_buffers(narrow.model, narrow_case, 6, [12], kinds=["pink"])
