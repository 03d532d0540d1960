"""A folder for a client is complete, says what PyTorch says from the same har, and is whole or absent."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients import client_delivery, client_programs
from kokoro_nb.delivery.clients.acceptance import TappedAudio, accept, judged, read_tapped
from kokoro_nb.delivery.clients.client_delivery import FILE, deliver_to, read_delivery
from kokoro_nb.delivery.clients.client_folder import vocabulary, voice_tables
from kokoro_nb.delivery.clients.client_programs import ClientEnded, Request, absence, speak_in
from kokoro_nb.delivery.clients.exported_programs import NoiseChoice
from kokoro_nb.delivery.clients.hosts import imitate
from kokoro_nb.delivery.clients.known_clients import CONTRACTS, contract
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.errors import InputError
from kokoro_nb.models.speaking import TextToAudio
from kokoro_nb.models.voices import load_voice
from tests.delivery.clients.conftest import SYMBOLS
from tests.refusals import refused

NAMES = [f"{rules.client}=={rules.versions}" for rules in CONTRACTS if rules.form == "ONNX"]


GIVEN = {"input_ids": np.array([[0, 50, 83, 54, 0]]), "style": np.zeros((1, 256), "f4"), "speed": np.ones(1, "f4")}


def _program(folder):
    (path,) = folder.rglob("*.onnx")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_delivery_has_what_the_contract_names(deliveries, name):
    folder, rules = deliveries(name), contract(name)
    about = read_delivery(folder)
    assert (about.client, about.versions, about.voices) == (rules.client, rules.versions, ("alto", "bass"))
    assert all((folder / file).exists() for file in rules.files)
    model = onnx.load(_program(folder))
    inputs, outputs = rules.programs[_program(folder).relative_to(folder).as_posix()]
    assert [value.name for value in model.graph.input] == [rule.name for rule in inputs]
    assert [value.name for value in model.graph.output] == [rule.name for rule in outputs]
    assert model.ir_version <= rules.ir_version
    assert max(one.version for one in model.opset_import) <= rules.opset
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert all(metadata[key] == value or not value for key, value in rules.metadata.items())
    assert json.loads(metadata["kokoro_config"])["vocab"] == vocabulary(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 509, 510])
def test_the_row_that_a_client_takes_is_the_one_of_pytorch(deliveries, voiced, name, count):
    rules = contract(name)
    tables = voice_tables(deliveries(name), rules).values()
    for voice, table in zip(read_delivery(deliveries(name)).voices, tables, strict=True):
        theirs, ours = table[rules.row.of(count, count, rules.voices.rows)], load_voice(voiced, voice)[count - 1, 0]
        if rules.client == "kokoro.js" and count == 509:  # it takes row 509 for 509 and for 510 ids: the longer wins
            ours = load_voice(voiced, voice)[509, 0]
        assert np.array_equal(theirs, ours.numpy())


def test_the_noise_is_the_bank_that_the_file_holds(deliveries):
    path = _program(deliveries("kokoro-onnx"))
    model = onnx.load(path)
    (bank,) = [one for one in model.graph.initializer if one.name == "bank"]
    held, said = numpy_helper.to_array(bank), []
    for values in (held, held[::-1].copy(), 0 * held):
        bank.CopyFrom(numpy_helper.from_array(values, "bank"))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        said.append(session.run(None, GIVEN))
    own, other, silent = said
    assert not np.array_equal(other[0], own[0])
    assert np.isfinite(silent[0]).all()  # bins of which both parts are 0 have a phase
    assert all(np.array_equal(one[1], own[1]) for one in (other, silent))


def test_fewer_bytes_are_fewer_bytes(deliveries):
    sizes = [_program(deliveries("kokoro-onnx", dtype)).stat().st_size for dtype in ("float32", "float16", "int8")]
    assert sizes[1] < 0.6 * sizes[0]
    assert sizes[2] < 0.35 * sizes[0]


@pytest.mark.slow  # another export
def test_drawn_noise_is_another_at_each_call(voiced, tmp_path):
    deliver_to(voiced, "kokoro-onnx", tmp_path / "drawn", noise=NoiseChoice("drawn"))
    session = onnxruntime.InferenceSession(_program(tmp_path / "drawn"), providers=["CPUExecutionProvider"])
    first, second = (session.run(None, GIVEN) for _ in range(2))
    assert np.array_equal(first[1], second[1])
    assert not np.array_equal(first[0], second[0])


def test_kokoro_js_finds_the_file_of_the_dtype_that_it_wants(deliveries):
    assert _program(deliveries("kokoro.js", "float16")).name == "model_fp16.onnx"


def test_sherpas_lexicon_has_the_words(deliveries):
    lines = (deliveries("sherpa-onnx") / "lexicon.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "hello h ə l ˈ O"
    assert {line.split()[0] for line in lines} == set(client_delivery.WORDS)


def test_a_folder_that_is_not_empty_is_replaced_only_by_force(voiced, deliveries, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty; choose another folder, or replace it whole with --force"):
        deliver_to(voiced, "kokoro-onnx", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    deliver_to(voiced, "kokoro-onnx", tmp_path, force=True)
    assert read_delivery(tmp_path).voices == ("alto",)
    assert not (tmp_path / "thesis.txt").exists()


def test_an_interrupted_delivery_leaves_nothing(voiced, tmp_path, monkeypatch):
    def interrupt(material, rules, folder):
        folder.mkdir()
        (folder / "half").write_text("x")
        raise KeyboardInterrupt

    monkeypatch.setattr(client_delivery, "write_client", interrupt)
    with pytest.raises(KeyboardInterrupt):
        deliver_to(voiced, "kokoro-onnx", tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"voices": ("no such voice!",)}, "no name of a voice"),
        ({"dtype": "float64"}, "reads no weights stored as float64; use one of float32, float16, int8"),
        ({"words": ("",), "client": "sherpa-onnx"}, "The text is empty"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(voiced, tmp_path, settings, said):
    refused(said, deliver_to, voiced, folder=tmp_path / "folder", **{"client": "kokoro-onnx", **settings})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "voices.npz").write_bytes(b""),
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / FILE).write_text((folder / FILE).read_text().replace('"config.json"', '"../x"')),
    ],
)
def test_a_changed_delivery_is_refused(deliveries, tmp_path, damage):
    folder = shutil.copytree(deliveries("kokoro-onnx"), tmp_path / "copy")
    damage(folder)
    refused("is not as it was delivered", read_delivery, folder)


def test_one_verb_and_one_command(tmp_path, capsys):
    out, words = tmp_path / "folder", tmp_path / "words.txt"
    words.write_text("It's a small, small world.")
    given = ["deliver", str(out), "--weights", "narrow", "--for", "sherpa-onnx"]
    assert main([*given, "--voices", "seeded:1", "--words", str(words)]) == 0
    assert "5 files for sherpa-onnx, narrow" in capsys.readouterr().out
    assert read_delivery(out).voices == ("seeded_1",)
    told = [line.split()[0] for line in (out / "lexicon.txt").read_text().splitlines()]
    assert told == ["it's", "a", "small", "world"]
    assert main(given) == 2
    assert main([*given[:-1], "sherpa-onnx==3", "--force"]) == 2
    assert main([*given[:-1], "say", "--force", "--dtype", "int8"]) == 2
    assert "leave the dtype out" in capsys.readouterr().err


CLIENTS = ("kokoro-onnx", "sherpa-onnx", "kokoro.js")


def _require(client):
    reason = absence(client)
    if reason:
        pytest.skip(reason)


def _requests():
    return [Request(SYMBOLS, "bass", 1, 0.8), Request("hˈ", "alto", 0, 1.5)]


def _judged(deliveries, voiced, speak, shift=0):
    table = load_voice(voiced, "alto").roll(shift, 0)
    (row,) = accept(voiced, "kokoro-onnx", deliveries("kokoro-onnx"), _requests()[1:], [table], speak)
    return row


def test_only_what_pytorch_says_from_the_same_har_is_accepted(deliveries, voiced):
    heard, tables = [], [load_voice(voiced, request.voice) for request in _requests()]

    def recorded(*given):
        heard.extend(imitate(*given))
        return heard

    rows = accept(voiced, "kokoro-onnx", deliveries("kokoro-onnx"), _requests(), tables, recorded)
    assert [row.ids for row in rows] == [len(SYMBOLS), 2]
    assert all(row.durations == "equal" and row.from_har > 100 for row in rows)  # the floor of float32 is 115 dB
    said = heard[1]
    assert _judged(deliveries, voiced, lambda *_: [said]).from_har > 100
    quiet = np.r_[said[:-600], 0.75 * said[-600:]]
    assert _judged(deliveries, voiced, lambda *_: [quiet]).from_har < 100
    row = _judged(deliveries, voiced, lambda *_: [said], shift=1)
    assert not (row.durations != "other" and row.from_har > 100)
    for spoilt in (said[:-1], np.r_[said[:1] + 1, said[1:]]):  # cut, and a token more
        refused("not what a tapped file says", _judged, deliveries, voiced, lambda *_, audio=spoilt: [audio])
    refused("not what a tapped file says", read_tapped, np.full(1200, 0.1, np.float32))


def test_other_durations_are_accepted_only_where_float16_gives_them(voiced):
    ids, row = [0, *(voiced.model.vocab[symbol] for symbol in SYMBOLS), 0], load_voice(voiced, "bass")[len(SYMBOLS) - 1]
    with torch.no_grad():
        lasting, _, _ = TextToAudio(voiced.model).eval().text_features(torch.tensor([ids]), row, torch.ones(1))
    own = lasting[0].numpy()
    other = own + np.eye(len(own), dtype=own.dtype)[3]
    frames = int(other.sum())
    said = TappedAudio(other, np.zeros((1, 22, 120 * frames + 1), np.float32), np.zeros(600 * frames, np.float32))
    assert judged(voiced, ids, row, 1.0, said, other) == ("equal after float16", 0.0)
    for rounded in (None, own, other + 1):
        durations, from_har = judged(voiced, ids, row, 1.0, said, rounded)
        assert durations == "other"
        assert np.isnan(from_har)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("speak", [imitate, speak_in])
def test_the_client_and_its_imitation_feed_what_the_contract_says(tmp_path, client, speak):
    if speak is speak_in:
        _require(client)
    write_probe(client, tmp_path / "probe")
    vocab = vocabulary(tmp_path / "probe")
    requests = [Request(SYMBOLS, "probe_1", 1, 0.8), Request("hˈ", "probe_0", 0, 1.5)]
    for request, audio in zip(requests, speak(client, tmp_path / "probe", requests), strict=True):
        read, ids = read_probe(audio), (0, *(vocab[symbol] for symbol in request.symbols), 0)
        assert compare_reading(read, client, ids, request.speed) == []
        assert read.voice == request.number
        assert (read.lead, read.middle, read.tail) == (0.5, 0.5, 0.5)


def test_a_client_that_is_not_there_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv(client_programs.ENVIRONMENT, str(tmp_path / "none"))
    assert "is not installed; install it apart" in absence("kokoro-onnx")
    refused("is not installed", speak_in, "kokoro-onnx", tmp_path, [])


def test_a_client_that_ends_says_what_it_said(tmp_path):
    _require("sherpa-onnx")
    with pytest.raises(ClientEnded, match="sherpa-onnx ended with status"):
        speak_in("sherpa-onnx", tmp_path, [Request("h", "")])
