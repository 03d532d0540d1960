"""The probe says what was fed to it, whatever a player does to its level, its silence and its format."""

import numpy as np
import onnxruntime
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients.known_clients import CONTRACTS
from kokoro_nb.delivery.clients.probe import compare_reading, probe_program, read_probe
from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import write_wav

IDS = (0, 23, 177, 1, 1, 50, 0)


@pytest.fixture(scope="module")
def session():
    return onnxruntime.InferenceSession(probe_program(CONTRACTS[0]), providers=["CPUExecutionProvider"])


def _fed(session, ids=IDS, row=5, speed=0.8, voice=1, layout=777):
    style = np.zeros((1, 256), np.float32)
    style[0, [0, 128, 255]] = row, voice, layout
    given = {"input_ids": np.array([ids]), "style": style, "speed": np.array([speed], np.float32)}
    waveform, duration = session.run(None, given)
    assert len(waveform) == 600 * duration.sum()
    assert len(duration) == len(ids)
    return waveform


@pytest.mark.parametrize("ids", [(0, 0), IDS, (0, *range(1, 178), *range(1, 178), *range(1, 157), 0)], ids=len)
@pytest.mark.parametrize(("row", "speed"), [(0, 0.5), (510, 7.9)])
def test_what_is_fed_is_read(session, ids, row, speed):
    read = read_probe(_fed(session, ids, row, speed))
    assert (read.ids, read.row, read.voice, read.layout, read.gain) == (ids, row, 1, True, pytest.approx(1))
    assert read.speed == pytest.approx(speed, abs=1e-5)
    assert (read.lead, read.middle, read.tail) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    "played",
    [
        lambda x: np.round(x * 32767) / 32768,  # a 16-bit file
        lambda x: 0.3 * x,
        lambda x: -x,
        lambda x: x + 1e-3 * np.random.default_rng(0).standard_normal(len(x)),
        lambda x: x[9000:-9000],  # silence trimmed
    ],
    ids=["16 bit", "level", "turned", "noise", "trimmed"],
)
def test_it_survives_what_players_do(session, played):
    read = read_probe(played(_fed(session)))
    assert (read.ids, read.row, read.voice, read.layout) == (IDS, 5, 1, True)
    assert read.speed == pytest.approx(0.8, abs=0.01)


def test_what_is_no_probe_is_refused(session):
    audio = _fed(session)
    read = read_probe(0.75 * audio[9600:-10800])
    assert (round(read.lead, 3), read.middle, round(read.tail, 3)) == (0.1, 0.5, 0.05), "trimming and level are read"
    assert read.gain == pytest.approx(0.75)
    cut = np.concatenate([audio[: 12_000 + 600 * 6], audio[12_000 + 600 * 8 :]])
    for spoilt, rate, reason in (
        (cut, 24_000, "of 7 ids"),
        (np.zeros(100), 24_000, "silent"),
        (np.array([np.nan, 1.0]), 24_000, "not finite"),
        (np.ones(24_000), 24_000, "no marker"),
        (np.ones(24_000), 44_100, "without resampling"),
    ):
        with pytest.raises(InputError, match=reason):
            read_probe(spoilt, rate)


@pytest.mark.parametrize("rules", CONTRACTS, ids=lambda rules: rules.label)
def test_a_client_that_keeps_the_contract_passes_and_one_row_off_does_not(session, rules):
    name = f"{rules.client}=={rules.versions}"
    row = rules.row.of(5, 5, rules.voices.rows)
    assert compare_reading(read_probe(_fed(session, row=row)), name, IDS, 0.8).deviations == ()
    (sentence,) = compare_reading(read_probe(_fed(session, row=row + 1)), name).deviations
    assert f"Row {row + 1} of the voice was taken for 5 ids; the contract says {row}." == sentence


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ids": (0, 23, 4, 0, 4)}, "not framed by one pad"),
        ({"speed": 1.0}, "The speed fed is 1.00 and was to be 0.80"),
        ({"layout": 3}, "another layout"),
        ({"ids": (0, 23, 24, 0)}, "The ids are 4 ids, 0 23 24 0 and were to be 7 ids"),
    ],
)
def test_every_deviation_is_named(session, change, said):
    ids = change.get("ids", IDS)
    read = read_probe(_fed(session, **{"row": len(ids) - 3, **change}))
    assert any(said in sentence for sentence in compare_reading(read, "kokoro-onnx", IDS, 0.8).deviations)


def test_the_command_writes_a_probe_and_reads_what_was_made_of_it(session, tmp_path, capsys):
    assert main(["probe", "sherpa-onnx", str(tmp_path / "probe")]) == 0
    assert "silence_scale = 1" in capsys.readouterr().out
    rows = np.fromfile(tmp_path / "probe" / "voices.bin", np.float32).reshape(2, 511, 256)
    assert (rows[1, 510, 0], rows[1, 0, 128], rows[0, 3, 255]) == (510, 1, 777)
    write_wav(tmp_path / "right.wav", _fed(session).astype(np.float32), 24_000)
    assert main(["probe", "sherpa-onnx", "--read", str(tmp_path / "right.wav")]) == 0
    assert "row  5" in capsys.readouterr().out
    assert main(["probe", "kokoro-onnx", "--read", str(tmp_path / "right.wav"), "--speed", "1"]) == 1
    assert capsys.readouterr().out.count("deviation: ") == 2
    assert main(["probe", "sherpa-onnx", str(tmp_path / "probe")]) == 2
    assert main(["probe", "sherpa-onnx"]) == 2
    assert main(["probe", "sherpa", str(tmp_path / "other")]) == 2
    assert main(["probe", "fluidaudio", str(tmp_path / "other")]) == 2
    said = capsys.readouterr().err
    assert "the nearest is sherpa-onnx" in said
    assert "There is no probe for fluidaudio 0.15" in said
    assert not (tmp_path / "other").exists()
