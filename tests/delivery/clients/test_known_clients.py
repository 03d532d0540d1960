import copy
import json

import numpy as np
import onnxruntime
import pytest
import torch

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients import client_programs
from kokoro_nb.delivery.clients.client_contract import TensorRule
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import Request, require_speakable
from kokoro_nb.delivery.clients.exported_programs import package, quantise
from kokoro_nb.delivery.clients.known_clients import CONTRACTS, PREDICTOR, SYNTHESIZER, contract
from kokoro_nb.delivery.clients.probe import compare_reading, probe_program, read_probe
from kokoro_nb.delivery.clients.programs import StageProgram, model_schema, schema_faults
from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import write_wav
from tests.refusals import refused


def test_a_name_stands_for_its_newest_known_version():
    labels = {"kokoro-onnx": "kokoro-onnx 0.6", "kokoro-onnx==0.5": "kokoro-onnx 0.5"}
    labels |= {"kokoro-onnx==0.6.1": "kokoro-onnx 0.6", "sherpa-onnx": "sherpa-onnx 2.0"}
    labels |= {"sherpa-onnx==2": "sherpa-onnx 2.0", "sherpa-onnx==1": "sherpa-onnx 1.13"}
    labels |= {"sherpa-onnx==1.13.4": "sherpa-onnx 1.13", "kokoro.js": "kokoro.js 1.2"}
    assert {asked: contract(asked).label for asked in labels} == labels


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("kokoro_onnx", "the nearest is kokoro-onnx, and all are kokoro-onnx, sherpa-onnx, kokoro.js"),
        ("kokoro-onnx==0.7", "kokoro-onnx 0.7 is not known; use 0.6 or 0.5"),
        ("sherpa-onnx==new", "sherpa-onnx new is not known; use 2.0 or 1.13"),
    ],
)
def test_what_is_not_known_names_what_is(asked, said):
    refused(said, contract, asked)


@pytest.mark.parametrize(("file", "text"), [("tokens.txt", "a 1\n\nb 2\n"), ("tokenizer.json", "[]")])
def test_a_damaged_table_of_symbols_is_refused(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    refused(r"cannot be read .*; deliver it again", vocabulary, tmp_path)


def test_what_a_client_cannot_speak_is_one_sentence():
    for request, said in (
        (Request("h" * 511, ""), "511 phonemes are more than the 510 of kokoro-onnx 0.6"),
        (Request("h", "", speed=3.0), "speaks at a speed of 0.5 to 2, not 3"),
    ):
        refused(said, require_speakable, contract("kokoro-onnx"), request)
    assert require_speakable(contract("sherpa-onnx"), Request("h" * 510, "")) is None  # nothing is raised


def test_a_client_that_takes_text_alone_is_given_no_phonemes(tmp_path, monkeypatch):
    monkeypatch.setattr(client_programs, "absence", lambda client: None)
    assert client_programs.muteness("sherpa-onnx") is None
    with pytest.raises(InputError, match=r"sherpa-onnx 1\.13 takes text alone, and no phonemes"):
        client_programs.speak_in("sherpa-onnx==1.13", tmp_path, [Request("h", "")])


SIZE = 256
SIGNATURE = ((TensorRule("x", "float32", (1, SIZE)),), (TensorRule("y", "float32", (1, SIZE)),))


def _bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_int8_is_a_quarter_of_float32_and_off_by_its_rounding(tmp_path):
    torch.manual_seed(0)
    layer = torch.nn.Linear(SIZE, SIZE, bias=False).eval()
    path = tmp_path / "layer.mlpackage"
    package(layer, SIGNATURE, {}, True, path)
    given = {"x": np.random.default_rng(0).standard_normal((1, SIZE)).astype(np.float32)}
    whole, before = StageProgram(path)(given)["y"], _bytes(path)
    quantise(path)
    rounded = StageProgram(path)(given)["y"]
    assert _bytes(path) < 0.3 * before
    assert rounded.dtype == whole.dtype
    step = layer.weight.detach().abs().amax(dim=1).numpy() / 127  # of each channel
    off = np.abs(rounded - whole)[0]
    assert off.any()
    assert (off <= step / 2 * np.abs(given["x"]).sum() + 1e-5).all()


RULES = contract("react-native-executorch")


def _in(tensor, axis):
    return {"paramSide": "input", "tensorIdx": tensor, "dimIdx": axis}


def _out(tensor, axis):
    return {"paramSide": "output", "tensorIdx": tensor, "dimIdx": axis}


def _schema(name, rules=RULES):
    return json.loads(json.dumps(model_schema(rules.programs[name], rules.ranges)))


def test_the_constraints_are_exactly_those_of_the_client():
    (equal,) = _schema(PREDICTOR)["forward"]["runtimeConstraints"]
    assert equal == {"kind": "equality", "dims": [_in(0, 1), _in(1, 1), _out(0, 0), _out(1, 1)]}
    equal, linear = _schema(SYNTHESIZER)["forward"]["runtimeConstraints"]
    assert equal == {"kind": "equality", "dims": [_in(0, 1), _in(1, 1), _in(3, 1)]}
    assert linear == {"kind": "linear", "dimLhs": _out(0, 2), "dimRhs": _in(2, 0), "coefficients": [600, 0]}


@pytest.mark.parametrize("name", [PREDICTOR, SYNTHESIZER])
@pytest.mark.parametrize("client", ["react-native-executorch", "react-native-executorch-padded"])
def test_our_own_has_no_fault_in_whatever_order_an_equality_is(name, client):
    rules = contract(client)
    told = _schema(name, rules)
    assert list(schema_faults(told, rules.programs[name], rules)) == []
    for one in told["forward"]["runtimeConstraints"]:
        one.get("dims", []).reverse()
    assert list(schema_faults(told, rules.programs[name], rules)) == []


def _change(*path, to):
    def change(schema):
        place = schema["forward"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


FAULTS = {
    "no forward": (lambda schema: schema.pop("forward"), "schema form"),
    "no constraints": (_change("runtimeConstraints", to=[]), "schema constraints"),
    "another factor": (_change("runtimeConstraints", 1, "coefficients", to=[300, 0]), "schema constraints"),
    "no mask": (lambda schema: schema["forward"]["inputs"].pop(1), "schema form"),
    "a mask of int64": (_change("inputs", 1, "dtype", to="int64"), "schema dtype"),
    "fixed frames": (_change("inputs", 2, "shape", 0, to={"kind": "constant", "value": 296}), "schema size"),
    "512 features": (_change("inputs", 3, "shape", 2, "value", to=512), "schema size"),
    "two ranges of tokens": (_change("inputs", 3, "shape", 1, "range", "max", to=64), "schema range"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named(fault):
    change, rule = FAULTS[fault]
    told = copy.deepcopy(_schema(SYNTHESIZER))
    change(told)
    assert rule in [kind for kind, _, _ in schema_faults(told, RULES.programs[SYNTHESIZER], RULES)]


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
def test_what_is_fed_is_read(session, ids):
    read = read_probe(_fed(session, ids, 510, 7.9))
    assert (read.ids, read.row, read.voice, read.layout, read.gain) == (ids, 510, 1, True, pytest.approx(1))
    assert read.speed == pytest.approx(7.9, abs=1e-5)
    assert (read.lead, read.middle, read.tail) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    "played",
    [
        lambda x: np.round(x * 32767) / 32768,  # a 16-bit file
        lambda x: -0.3 * x,
        lambda x: x + 1e-3 * np.random.default_rng(0).standard_normal(len(x)),
        lambda x: x[9000:-9000],  # silence trimmed
    ],
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
        (np.ones(24_000), 24_000, "no marker"),
        (np.ones(24_000), 44_100, "without resampling"),
    ):
        refused(reason, read_probe, spoilt, rate)


@pytest.mark.parametrize("rules", CONTRACTS, ids=lambda rules: rules.label)
def test_a_client_that_keeps_the_contract_passes_and_one_row_off_does_not(session, rules):
    name = f"{rules.client}=={rules.versions}"
    row = rules.row.of(5, 5, rules.voices.rows)
    assert compare_reading(read_probe(_fed(session, row=row)), name, IDS, 0.8) == []
    (sentence,) = compare_reading(read_probe(_fed(session, row=row + 1)), name)
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
    assert any(said in sentence for sentence in compare_reading(read, "kokoro-onnx", IDS, 0.8))


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
    assert main(["probe", "sherpa", str(tmp_path / "other")]) == 2
    assert main(["probe", "fluidaudio", str(tmp_path / "other")]) == 2
    said = capsys.readouterr().err
    assert "the nearest is sherpa-onnx" in said
    assert "There is no probe for fluidaudio 0.15" in said
    assert not (tmp_path / "other").exists()
