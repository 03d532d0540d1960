"""Folders for react-native-executorch: spoken from as the client does, and what deviates in them named."""

import json

import numpy as np
import pytest
import torch

from kokoro_nb.delivery.clients.acceptance import accept
from kokoro_nb.delivery.clients.client_delivery import deliver_to, read_delivery
from kokoro_nb.delivery.clients.client_folder import vocabulary
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.exported_programs import lowered
from kokoro_nb.delivery.clients.hosts import ReactNativeHost, fitted
from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER, contract
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.delivery.clients.programs import METHOD, PteProgram
from kokoro_nb.errors import InputError
from kokoro_nb.models.voices import load_voice
from tests.delivery.clients.conftest import SYMBOLS, chained, says_what_pytorch_says, write_voice

CLIENT = "react-native-executorch"
RULES = contract(CLIENT)


class TinyPredictor(torch.nn.Module):
    """Each token lasts two to four frames over the speed, padding none; the ids are the first feature."""

    def forward(self, tokens, text_mask, voice, speed):
        lasting = torch.round((2 + (tokens % 3).float()) / speed).clamp(min=1) * text_mask
        d = torch.nn.functional.pad(tokens[..., None].float() + voice[:, None, :1], (0, 639))
        return lasting.reshape(-1).to(torch.int64), d


class TinySynthesizer(torch.nn.Module):
    """Each frame has the level of its id."""

    def forward(self, tokens, text_mask, indices, d, voice):
        level = (d[:, indices, :1] + 0.001 * voice[:, None, 1:2] + tokens[:, indices, None] * 0) / 200
        return (level + 0 * text_mask.float().sum()).expand(1, -1, 600).reshape(1, 1, -1)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("staged")
    for name, module in ((PREDICTOR, TinyPredictor()), (SYNTHESIZER, TinySynthesizer())):
        (folder / name).write_bytes(lowered(module.eval(), RULES.programs[name], RULES.ranges))
    write_voice(folder / "voices" / "alto.bin")
    return folder


def test_it_is_spoken_as_the_client_speaks(good):
    said, ids, row = chained(ReactNativeHost, CLIENT, good)
    tokens, mask, indices, voice = (said.values[name] for name in ("tokens", "text_mask", "indices", "voice"))
    assert tokens[0].tolist() == ids
    assert mask.all()
    assert indices.tolist() == np.repeat(np.arange(len(ids)), said.durations).tolist()
    assert np.array_equal(voice[0], row)
    told = PteProgram(good / PREDICTOR).schema()
    assert json.dumps(told, sort_keys=True)
    assert told["forward"]["inputs"][0]["dtype"] == "int64"


def test_a_short_text_is_padded_and_stretched_and_an_unknown_symbol_dropped_yet_counted(good):
    said = ReactNativeHost(good, RULES).utter(Request("h", "alto", speed=3.0))
    assert said.values["tokens"].shape == (1, 8)
    assert said.values["text_mask"][0].tolist() == [True] * 3 + [False] * 5
    assert not said.durations[3:].any()
    assert len(said.audio) == 600 * 16
    said = ReactNativeHost(good, RULES).utter(Request("hˈɛ☃lOlO", "alto"))
    assert int(said.values["text_mask"].sum()) == 10
    assert np.count_nonzero(said.values["tokens"]) == 7


@pytest.mark.parametrize(("lasting", "total"), [([3] * 60 + [9] * 60, 296), ([1, 1, 0, 0], 16), ([4] * 10, 40)])
def test_durations_are_fitted_into_the_room(lasting, total):
    fit = fitted(np.array(lasting), 16, 296)
    assert fit.sum() == total
    assert ((fit > 0) == (np.array(lasting) > 0)).all()


class _Flat(TinySynthesizer):
    def forward(self, tokens, text_mask, indices, d, voice):
        return super().forward(tokens, text_mask, indices, d, voice).reshape(1, -1)


class _Durations(TinyPredictor):
    """The predictor, of which the inputs or the durations are changed."""

    def __init__(self, before=lambda *given: given, after=lambda found: found):
        super().__init__()
        self.before, self.after = before, after

    def forward(self, tokens, text_mask, voice, speed):
        lasting, d = super().forward(*self.before(tokens, text_mask, voice, speed))
        return self.after(lasting), d


def _in_place_of(path, module):
    return lambda folder: (folder / path).write_bytes(lowered(module.eval(), RULES.programs[path], RULES.ranges))


def _lasts(**spoilt):
    return _in_place_of(PREDICTOR, _Durations(**spoilt))


# what every client's audio may have wrong is tested with others
BROKEN = {
    "no pte": (lambda f: (f / SYNTHESIZER).write_bytes(b"no program"), "program unreadable"),
    "programs swapped": (lambda f: (f / PREDICTOR).write_bytes((f / SYNTHESIZER).read_bytes()), "schema form"),
    "two axes": (_in_place_of(SYNTHESIZER, _Flat()), "output shape"),
    "mask reversed": (_lasts(before=lambda ids, mask, *rest: (ids, mask.logical_not(), *rest)), "mask reversed"),
    "padding lasts": (_lasts(before=lambda ids, mask, *rest: (ids, mask | (ids == ids), *rest)), "padding lasts"),
    "int32 durations": (_lasts(after=lambda lasting: lasting.to(torch.int32)), "output dtype"),
    "no frame for a token": (_lasts(after=lambda lasting: lasting - 2), "durations"),
}
QUICK = ("no pte", "programs swapped", "mask reversed")


@pytest.mark.parametrize("name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in BROKEN])
def test_what_is_wrong_is_named(folder, name):
    change, rule = BROKEN[name]
    change(folder)
    assert rule in [one.rule for one in check_delivery(folder, CLIENT).deviations]


def test_a_program_without_a_schema_is_named(folder, monkeypatch):
    monkeypatch.setattr(PteProgram, "schema", lambda self: None)
    found = check_delivery(folder, CLIENT).deviations
    assert [one.rule for one in found] == ["schema missing"] * 2
    assert METHOD in str(found[0])


def test_weights_with_symbols_of_their_own_are_refused(voiced, tmp_path, monkeypatch):
    monkeypatch.setattr(voiced.model, "vocab", {**voiced.model.vocab, "h": 51})
    with pytest.raises(InputError, match="these weights' has another 'h'"):
        deliver_to(voiced, CLIENT, tmp_path / "folder")


@pytest.mark.slow  # three programs of the narrow model are lowered
@pytest.mark.parametrize("client", [CLIENT, "react-native-executorch-padded"])
def test_a_delivery_says_what_pytorch_says(voiced, tmp_path, client):
    deliver_to(voiced, client, tmp_path / "folder", ("alto", "bass"))
    assert read_delivery(tmp_path / "folder").max_tokens == 126
    requests = [Request(SYMBOLS, "bass", 1, 0.8), Request("hˈɛlO", "alto", 0, 0.5)]
    rows = says_what_pytorch_says(voiced, client, tmp_path / "folder", requests, 95)
    assert [row.ids for row in rows] == [len(SYMBOLS), 5]
    with pytest.raises(InputError, match="which the client stretches"):
        accept(voiced, client, tmp_path / "folder", [Request("h", "alto", speed=3.0)], [load_voice(voiced, "alto")])


def test_the_probe_says_what_the_client_feeds(tmp_path):
    write_probe(CLIENT, tmp_path / "probe")
    host = ReactNativeHost(tmp_path / "probe", RULES)
    known = vocabulary(tmp_path / "probe")
    for symbols, speed, hidden in ((SYMBOLS, 0.8, 0), ("hˈ", 1.5, 4)):
        ids = (0, *(known[symbol] for symbol in symbols), 0)
        said = host.utter(Request(symbols, "probe_1", 1, speed))
        read = read_probe(said.audio)
        assert (read.ids, read.row, read.voice) == (ids, len(symbols) - 1, 1)
        assert (read.hidden, read.layout) == (hidden, True)
        assert compare_reading(read, CLIENT, ids, speed) == []
        assert (read.lead, read.tail) == (0.5, 0.5)
    assert read_probe(np.round(said.audio * 32767) / 32768).dtype == "16 bit"
    assert read_probe(said.audio).dtype == "float"
    told = [one.rule for one in check_delivery(tmp_path / "probe", CLIENT).deviations]
    assert not [rule for rule in told if rule.startswith(("schema", "output", "does not"))]
