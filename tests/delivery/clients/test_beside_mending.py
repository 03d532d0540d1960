"""Faults beside the program, each planted, named, mended, and gone by the same check."""

import json
from dataclasses import fields

import numpy as np
import onnx
import pytest

from kokoro_nb.__main__ import main
from kokoro_nb.delivery.clients.beside_mending import stored_as
from kokoro_nb.delivery.clients.client_delivery import FILE, SCHEMA, ClientDelivery, read_delivery
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.mending import mend
from kokoro_nb.delivery.clients.speech_program import set_metadata
from kokoro_nb.errors import InputError
from kokoro_nb.storage import checksums, write_json

K, S, J = "kokoro-onnx", "sherpa-onnx", "kokoro.js"


def _voices(pattern, kind):
    def broken(folder):
        for path in folder.glob(pattern):
            np.fromfile(path, "<f4").astype(kind).tofile(path)

    return broken


def _archive(change):
    def broken(folder):
        tables = {name: change(table) for name, table in np.load(folder / "voices.npz").items()}
        np.savez(folder / "voices.npz", **tables)

    return broken


def _tokens(change):
    def broken(folder):
        lines = (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()
        pairs = [(line[0], int(line[1:])) for line in lines]
        text = "".join(f"{symbol} {number}\n" for symbol, number in change(pairs))
        (folder / "tokens.txt").write_text(text, encoding="utf-8")

    return broken


def _tokenizer(folder):
    about = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = about["model"]["vocab"]
    about["model"]["vocab"] = {symbol: number and number - 1 for symbol, number in vocab.items()}
    (folder / "tokenizer.json").write_text(json.dumps(about), encoding="utf-8")


def _metadata(drop=(), **values):
    def broken(folder):
        (path,) = folder.rglob("*.onnx")
        model = onnx.load(path)
        kept = {entry.key: entry.value for entry in model.metadata_props if entry.key not in drop} | values
        del model.metadata_props[:]
        set_metadata(model, kept)
        onnx.save(model, path)

    return broken


def _drop(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def _rotated(pairs):
    symbols, numbers = zip(*pairs, strict=True)
    return zip(symbols, (*numbers[1:], numbers[0]), strict=True)


ALL = ("sample_rate", "n_speakers", "style_dim", "has_espeak", "version", "voice")
PLANTED = {
    "rows of two axes": (K, _archive(lambda table: table[:, 0]), "voices form"),
    "rows of two axes, float16": (K, _archive(lambda table: table[:, 0].astype(np.float16)), "voices form"),
    "rows of four axes, float64": (K, _archive(lambda table: table[:, None].astype(np.float64)), "voices form"),
    "rows of two axes in 0.5": ("kokoro-onnx==0.5", _archive(lambda table: table[:, 0]), "voices form"),
    "all voices of float16": (S, _voices("voices.bin", "<f2"), "voices count"),
    "all voices of float64": (S, _voices("voices.bin", "<f8"), "voices form"),
    "all voices of float16 in 1.13": ("sherpa-onnx==1.13", _voices("voices.bin", "<f2"), "voices count"),
    "each voice of float16": (J, _voices("voices/*.bin", "<f2"), "voices rows"),
    "each voice of float64": (J, _voices("voices/*.bin", "<f8"), "voices form"),
    "ids shifted by one": (S, _tokens(lambda pairs: [(symbol, number + 1) for symbol, number in pairs]), "symbols"),
    "ids in another order": (S, _tokens(_rotated), "symbols"),
    "ids from 0": (S, _tokens(lambda pairs: [(symbol, at) for at, (symbol, _) in enumerate(pairs)]), "pad"),
    "ids of a tokenizer shifted": (J, _tokenizer, "symbols"),
    "no tokens": (S, _drop("tokens.txt"), "file missing"),
    "no tokenizer": (J, _drop("tokenizer.json", "tokenizer_config.json", "config.json"), "file missing"),
    "no configuration": (K, _drop("config.json"), "file missing"),
    "no metadata": (S, _metadata(ALL), "metadata missing"),
    "metadata of another model": (S, _metadata(sample_rate="22050", version="1"), "metadata value"),
    "rows and speakers of another file": (S, _metadata(style_dim="1,510,256", n_speakers="54"), "metadata value"),
    "three speakers": (S, _metadata(n_speakers="3"), "voices count"),
    "no table in the program": (K, _metadata(("kokoro_config",)), "metadata missing"),
}


def _list(folder):
    write_json(folder / FILE, {"files": checksums(folder, (FILE,))})


def _contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", PLANTED)
def test_what_the_folder_tells_is_mended_and_is_gone_by_the_same_check(made, tmp_path, name):
    client, change, rule = PLANTED[name]
    folder = made(client)
    _list(folder)
    good = _contents(folder)
    change(folder)
    broken = _contents(folder)
    check = check_delivery(folder, client)
    assert {rule, "checksum"} <= {one.rule for one in check.deviations}
    mended = mend(check, client, tmp_path / "mended")
    rows = [row for row in mended.rows if row.rule != "checksum"]
    assert rule in [row.rule for row in rows]
    assert all(int(row.before) > 0 and row.after == "0" for row in mended.rows)
    assert mended.left.deviations == ()
    assert _contents(folder) == broken  # the folder itself is as it was
    mine = _contents(tmp_path / "mended")
    for path in (path for path in good if path.suffix in (".txt", ".bin")):
        if path.suffix == ".txt" or "float16" not in name:
            assert mine[path] == good[path]
        else:  # as near as float16 is
            said, wanted = (np.frombuffer(each[path], "<f4") for each in (mine, good))
            assert np.abs(said - wanted).max() < 2**-11 * np.abs(wanted).max()


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8"])
def test_how_a_voice_is_stored_is_told_of_numbers_that_float16_holds_too(tmp_path, kind):
    values = (0.3 * np.random.default_rng(0).standard_normal(2 * 511 * 256)).astype(np.float16)
    values.astype(kind).tofile(tmp_path / "voices.bin")
    assert stored_as(tmp_path / "voices.bin", contract(S)) == kind


def test_what_the_folder_does_not_tell_stays(made, tmp_path):
    folder = made(S)
    path = folder / "voices.bin"
    table = np.fromfile(path, "<f4")
    for values in (np.where(np.arange(table.size) == 700, np.nan, table), table[: 700 * 256]):
        values.astype("<f4").tofile(path)
        assert check_delivery(folder, S).deviations
        with pytest.raises(InputError, match="by what the folder itself tells"):
            mend(check_delivery(folder, S), S, tmp_path / "mended")
        assert not (tmp_path / "mended").exists()


def test_a_file_that_was_changed_is_named_and_its_checksum_stays(made, tmp_path):
    folder = made(S)
    _list(folder)
    with (folder / "lexicon.txt").open("a", encoding="utf-8") as stream:
        stream.write("a ɐ\n")
    (found,) = check_delivery(folder, S).deviations
    assert (found.rule, found.where, found.found) == ("checksum", "lexicon.txt", "another")
    _voices("voices.bin", "<f2")(folder)
    mended = mend(check_delivery(folder, S), S, tmp_path / "mended")
    assert [one.where for one in mended.left.deviations] == ["lexicon.txt"]
    assert [(row.before, row.after) for row in mended.rows if row.rule == "checksum"] == [("2", "1")]


def test_the_command_mends_a_delivery_that_can_be_read_again(made, tmp_path, capsys):
    folder = made(J)
    about = dict.fromkeys((field.name for field in fields(ClientDelivery)), "")
    about |= {"schema": SCHEMA, "voices": ["alto", "bass"], "files": checksums(folder, (FILE,))}
    write_json(folder / FILE, about)
    _voices("voices/*.bin", "<f2")(folder)
    with pytest.raises(InputError, match="not as it was delivered"):
        read_delivery(folder)
    assert main(["check-delivery", str(folder), "--for", J, "--mend", str(tmp_path / "mended")]) == 1
    said = capsys.readouterr().out
    assert "voices/alto.bin from float16" in said
    assert "0 deviations left" in said
    assert read_delivery(tmp_path / "mended").voices == ("alto", "bass")
