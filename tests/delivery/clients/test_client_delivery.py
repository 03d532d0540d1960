"""A folder for a client is complete, says what PyTorch says, and is whole or absent."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients import client_delivery
from kokoro_nb.delivery.clients.client_delivery import FILE, deliver_to, read_delivery
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.known_clients import CONTRACTS, JS_FILES, contract
from kokoro_nb.delivery.clients.speech_program import NoiseChoice
from kokoro_nb.errors import InputError
from kokoro_nb.models.voices import load_voice

NAMES = [f"{rules.client}=={rules.versions}" for rules in CONTRACTS if rules.form == "ONNX"]


def _program(folder):
    (path,) = folder.rglob("*.onnx")
    return path


def _tables(folder, rules):
    path = folder / rules.voices.path
    if rules.voices.form == "npz":
        return {name: table[:, 0] for name, table in np.load(path).items()}
    if rules.voices.form == "raw of all":
        every = np.fromfile(path, np.float32).reshape(-1, rules.voices.rows, 256)
        return dict(zip(read_delivery(folder).voices, every, strict=True))
    names = read_delivery(folder).voices
    return {
        name: np.fromfile(folder / rules.voices.path.format(voice=name), np.float32).reshape(-1, 256) for name in names
    }


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
@pytest.mark.parametrize("count", [1, 2, 300, 509, 510])
def test_the_row_that_a_client_takes_is_the_one_of_pytorch(deliveries, voiced, name, count):
    rules = contract(name)
    for voice, table in _tables(deliveries(name), rules).items():
        theirs, ours = table[rules.row.of(count, count, rules.voices.rows)], load_voice(voiced, voice)[count - 1, 0]
        if rules.client == "kokoro.js" and count == 509:  # it takes row 509 for 509 and for 510 ids: the longer wins
            ours = load_voice(voiced, voice)[509, 0]
        assert np.array_equal(theirs, ours.numpy())


def test_the_noise_is_the_bank_that_the_file_holds(deliveries):
    path = _program(deliveries("kokoro-onnx"))
    model = onnx.load(path)
    given = {"input_ids": np.array([[0, 50, 83, 54, 0]]), "style": np.zeros((1, 256), np.float32)}
    given["speed"] = np.ones(1, np.float32)
    (bank,) = [one for one in model.graph.initializer if one.name == "bank"]
    held, said = numpy_helper.to_array(bank), []
    for values in (held, held[::-1].copy(), 0 * held):
        bank.CopyFrom(numpy_helper.from_array(values, "bank"))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        said.append(session.run(None, given))
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
    given = {"input_ids": np.array([[0, 50, 83, 54, 0]]), "style": np.zeros((1, 256), np.float32)}
    given["speed"] = np.ones(1, np.float32)
    first, second = (session.run(None, given) for _ in range(2))
    assert np.array_equal(first[1], second[1])
    assert not np.array_equal(first[0], second[0])


@pytest.mark.parametrize("dtype", JS_FILES)
def test_kokoro_js_finds_the_file_of_the_dtype_that_it_wants(deliveries, dtype):
    assert _program(deliveries("kokoro.js", dtype)).name == JS_FILES[dtype]


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
        ({"client": "kokoro"}, "the nearest is kokoro"),
        ({"words": ("",), "client": "sherpa-onnx"}, "The text is empty"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(voiced, tmp_path, settings, said):
    with pytest.raises(InputError, match=said):
        deliver_to(voiced, folder=tmp_path / "folder", **{"client": "kokoro-onnx", **settings})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["changed", "missing", "outside"])
def test_a_changed_delivery_is_refused(deliveries, tmp_path, damage):
    folder = shutil.copytree(deliveries("kokoro-onnx"), tmp_path / "copy")
    about = json.loads((folder / FILE).read_text())
    about["files"]["../x"] = about["files"]["config.json"]
    {
        "changed": lambda: (folder / "voices.npz").write_bytes(b""),
        "missing": lambda: (folder / "config.json").unlink(),
        "outside": lambda: (folder / FILE).write_text(json.dumps(about)),
    }[damage]()
    with pytest.raises(InputError, match="is not as it was delivered"):
        read_delivery(folder)


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
