"""Folders, each with one thing that is not as the contract says: each is named, and the good one passes."""

import shutil
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients.client_contract import CONSEQUENCES
from kokoro_nb.delivery.clients.client_delivery import FILE
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.exported_programs import rename
from kokoro_nb.storage import checksums, write_json


def _edit(change: Callable):
    def broken(folder):
        (path,) = folder.rglob("*.onnx")
        model = onnx.load(path)
        change(model)
        onnx.save(model, path)

    return broken


def _drop(file):
    return lambda folder: (folder / file).unlink()


def _text(file, change):
    def broken(folder):
        (folder / file).write_text(change((folder / file).read_text(encoding="utf-8")), encoding="utf-8")

    return broken


def _raw(change):
    def broken(folder):
        path = folder / "voices.bin"
        change(np.fromfile(path, np.float32).reshape(2, -1, 256)).astype("<f4").tofile(path)

    return broken


def _npz(change):
    def broken(folder):
        tables = {name: change(table) for name, table in np.load(folder / "voices.npz").items()}
        np.savez(folder / "voices.npz", **tables)

    return broken


def _swap(values):
    first, second = (type(values[0]).FromString(one.SerializeToString()) for one in values[:2])
    values[0].CopyFrom(second)
    values[1].CopyFrom(first)


def _inner(model):
    """Call what was the audio ``inner``."""
    (node,) = (node for node in model.graph.node if "waveform" in node.output)
    node.output[0] = "inner"


def _retype(kind):
    def change(model):
        model.graph.output[0].type.tensor_type.elem_type = kind
        _inner(model)
        model.graph.node.append(helper.make_node("Cast", ["inner"], ["waveform"], to=kind))

    return change


def _input(position, kind):
    def change(model):
        value = model.graph.input[position]
        name, before = value.name, value.type.tensor_type.elem_type
        rename_reads(model, name, f"{name}_cast")
        model.graph.node.insert(0, helper.make_node("Cast", [name], [f"{name}_cast"], to=before))
        value.type.tensor_type.elem_type = kind

    return change


def rename_reads(model, old, new):
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            if name == old:
                node.input[position] = new


def _scaled(factor):
    def change(model):
        model.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "factor"))
        _inner(model)
        model.graph.node.append(helper.make_node("Mul", ["inner", "factor"], ["waveform"]))

    return change


def _fixed(model):
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5


def _ignored(name, shape, value):
    def change(model):
        constant = np.full(shape, value, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(constant, "constant_in_place"))
        rename_reads(model, name, "constant_in_place")

    return change


def _set_metadata(model, but=None, **told):
    kept = {entry.key: entry.value for entry in model.metadata_props if entry.key != but}
    helper.set_model_props(model, {**kept, **told})


def _third(model):
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, [1, "tokens"]))


def _foreign(model):
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    _inner(model)
    model.graph.node.append(helper.make_node("Gelu", ["inner"], ["waveform"], domain="com.microsoft"))


def _pickled(folder):
    with (folder / "voices.npz").open("wb") as stream:
        np.save(stream, np.array([{"alto": 1}], dtype=object), allow_pickle=True)


def _renamed_output(model):
    model.graph.output[1].name = "y"
    model.graph.node.append(helper.make_node("Identity", ["duration"], ["y"]))


def _beside(folder):
    """Keep the weights in a file beside the program."""
    model = onnx.load(folder / "kokoro.onnx")
    onnx.save(model, folder / "kokoro.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)


def _lost(folder):
    _beside(folder)
    (folder / "weights.bin").unlink()


def _short(model):
    _scaled(1.0)(model)
    for name, value in (("from", 0), ("to", -600), ("axis", 0)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
    model.graph.node[-1].output[0] = "longer"
    model.graph.node.append(helper.make_node("Slice", ["longer", "from", "to", "axis"], ["waveform"]))


K, S, J = "kokoro-onnx", "sherpa-onnx", "kokoro.js"
BROKEN = {
    "no program": (K, _drop("kokoro.onnx"), "program missing"),
    "program cut": (S, lambda f: (f / "model.onnx").write_bytes(b"\x08\x08\x12"), "program unreadable"),
    "weights lost": (K, _lost, "weights missing"),
    "IR 14": (S, _edit(lambda m: setattr(m, "ir_version", 14)), "IR version"),
    "opset 23": (K, _edit(lambda m: setattr(m.opset_import[0], "version", 23)), "opset"),
    "contrib operator": (J, _edit(_foreign), "foreign operators"),
    "a fourth input": (S, _edit(_third), "number of inputs"),
    "ids called x": (K, _edit(lambda m: rename(m, {"input_ids": "x"})), "input name"),
    "style and speed swapped": (S, _edit(lambda m: _swap(m.graph.input[1:])), "input order"),
    "ids of int32": (S, _edit(_input(0, TensorProto.INT32)), "input dtype"),
    "speed of int32": (K, _edit(_input(2, TensorProto.INT32)), "integer speed"),
    "one length": (K, _edit(_fixed), "input shape"),
    "durations first": (S, _edit(lambda m: _swap(m.graph.output)), "output order"),
    "durations called y": (J, _edit(_renamed_output), "output name"),
    "audio of float16": (S, _edit(_retype(TensorProto.FLOAT16)), "audio dtype"),
    "no style_dim": (S, _edit(lambda m: _set_metadata(m, but="style_dim")), "metadata missing"),
    "style_dim turned": (S, _edit(lambda m: _set_metadata(m, style_dim="1,510,256")), "metadata value"),
    "three speakers": (S, _edit(lambda m: _set_metadata(m, n_speakers="3")), "voices count"),
    "no voices": (J, lambda f: shutil.rmtree(f / "voices"), "voices missing"),
    "pickled voices": (K, _pickled, "voices form"),
    "100 rows": (K, _npz(lambda t: t[:100]), "voices rows"),
    "a voice with NaN": (S, _raw(lambda t: np.where(np.arange(256) == 3, np.nan, t)), "voices not finite"),
    "no tokens.txt": (S, _drop("tokens.txt"), "file missing"),
    "a symbol twice": (S, _text("tokens.txt", lambda t: f"{t}a 5\n"), "symbols"),
    "symbols shifted": (S, _text("tokens.txt", lambda t: t.replace("ə 83", "ə 84")), "symbols"),
    "a symbol with id 0": (S, _text("tokens.txt", lambda t: f"{t}@ 0\n"), "pad"),
    "an id of 200": (J, _text("tokenizer.json", lambda t: t.replace(": 177", ": 200")), "id out of range"),
    "three quarters of the level": (K, "quiet", "level"),
    "draws": (K, "drawn", "draws"),
    "NaN": (J, _edit(_scaled(np.nan)), "not finite"),
    "silence": (K, _edit(_scaled(0.0)), "silent"),
    "16-bit scale": (S, _edit(_scaled(32768.0)), "clipped"),
    "last frame cut": (K, _edit(_short), "length"),
    "speed unread": (S, _edit(_ignored("speed", 1, 1.0)), "speed ignored"),
    "style unread": (K, _edit(_ignored("style", (1, 256), 0.1)), "style ignored"),
}


@pytest.mark.parametrize("client", ["kokoro-onnx", "kokoro-onnx==0.5", "sherpa-onnx", "sherpa-onnx==1", "kokoro.js"])
def test_a_good_folder_passes(made, client):
    check = check_delivery(made(client), client)
    assert check.deviations == check.notes == ()


def test_weights_may_lie_beside_the_program_and_a_repeated_row_is_a_note(made):
    folder = made(K)
    _beside(folder)
    assert check_delivery(folder, K).deviations == ()
    _npz(lambda table: np.repeat(table[:1], len(table), axis=0))(folder)
    check = check_delivery(folder, K)

    assert check.deviations == ()
    assert "The voice alto has one row, repeated" in check.notes[0]


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_folder_is_named(made, name):
    client, change, rule = BROKEN[name]
    folder = made(client, change if isinstance(change, str) else "good")
    if callable(change):
        change(folder)
    found = check_delivery(folder, client).deviations
    assert rule in [one.rule for one in found]
    assert rule in CONSEQUENCES
    assert all(one.consequence and str(one).endswith(one.consequence) for one in found)


def test_a_file_that_was_changed_since_it_was_delivered_is_named(made):
    folder = made(S)
    write_json(folder / FILE, {"files": checksums(folder, (FILE,))})
    assert check_delivery(folder, S).deviations == ()
    with (folder / "lexicon.txt").open("a", encoding="utf-8") as stream:
        stream.write("a ɐ\n")
    (found,) = check_delivery(folder, S).deviations
    assert (found.rule, found.where, found.found) == ("checksum", "lexicon.txt", "another")


def test_the_command_names_deviations_and_what_one_would_hear(made, tmp_path, capsys):
    folder = made(K, "quiet")
    assert main(["check-delivery", str(folder), "--for", K]) == 1
    said = capsys.readouterr().out
    assert "kokoro.onnx: level: 0.75 of it in bins 1 to 9, 1.50 in the first and last" in said
    assert "The audio is too quiet or too loud" in said
    assert "Deliver it again" in said
    assert main(["check-delivery", str(tmp_path / "none"), "--for", K]) == 2
