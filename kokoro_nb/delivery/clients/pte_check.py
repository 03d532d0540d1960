"""Both programs of a folder for react-native-executorch, compared with what the client loads and feeds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract, TensorRule
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.delivery_runs import LONG
from kokoro_nb.delivery.clients.model_schema import METHOD, schema_faults
from kokoro_nb.delivery.clients.react_native_client import PREDICTOR, SYNTHESIZER, TOKENS
from kokoro_nb.delivery.clients.react_native_host import PteProgram
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE


def check_pair(root: Path, rules: ClientContract) -> Iterator[ContractDeviation]:
    """Yield what deviates in the programs of a folder: in what they tell, and in what they do."""
    loaded: dict[str, PteProgram] = {}
    for name, signature in rules.programs.items():
        if not (root / name).is_file():
            continue  # named already
        try:
            loaded[name] = PteProgram(root / name)
        except InputError as error:
            yield ContractDeviation("program unreadable", name, "an ExecuTorch program", _first(error))
            continue
        schema = loaded[name].schema()
        if schema is None:
            yield ContractDeviation("schema missing", name, f"a constant method {METHOD}", "none")
        elif isinstance(schema, str):
            yield ContractDeviation("schema form", f"{name} {METHOD}", "JSON", schema[:60])
        else:
            for rule, expected, found in schema_faults(schema, signature, rules):
                yield ContractDeviation(rule, f"{name} {METHOD}", expected, found)
    if len(loaded) == len(rules.programs):
        yield from _behaviour(loaded, rules)


class _Pair:
    """Both programs, fed as the client feeds them, on styles of one size and alternating sign."""

    def __init__(self, loaded: dict[str, PteProgram], rules: ClientContract):
        self.predictor, self.synthesizer = loaded[PREDICTOR], loaded[SYNTHESIZER]
        size = rules.programs[PREDICTOR][0][0].shape[1]
        self.least = size if isinstance(size, int) else TOKENS[0]

    def predicted(self, ids: tuple[int, ...], speed: float = 1.0, style: float = 0.1) -> list[np.ndarray]:
        room = max(len(ids), self.least)
        tokens, mask = np.zeros((1, room), np.int64), np.arange(room)[None] < len(ids)
        tokens[0, : len(ids)] = ids
        voice = np.where(np.arange(2 * STYLE) % 2, style, -style).astype(np.float32)[None]
        made = self.predictor(tokens, mask, voice[:, STYLE:], np.array([speed], np.float32))
        return [tokens, mask, voice, *made]

    def spoken(self, ids: tuple[int, ...], style: float = 0.1) -> tuple[int, np.ndarray]:
        """Return frames and what the second program gives."""
        tokens, mask, voice, durations, d = self.predicted(ids, style=style)
        indices = np.resize(np.repeat(np.arange(tokens.shape[1]), np.maximum(durations.reshape(-1), 0)), 40)
        return len(indices), self.synthesizer(tokens, mask, np.sort(indices), d, voice)[0]


def _behaviour(loaded: dict[str, PteProgram], rules: ClientContract) -> Iterator[ContractDeviation]:
    pair = _Pair(loaded, rules)
    try:
        _, mask, _, *made = pair.predicted((*LONG[:5], 0))
        _, _, _, *whole = pair.predicted(LONG)
    except InputError as error:
        yield ContractDeviation("does not run", PREDICTOR, "durations for texts of 6 and 15 tokens", _first(error))
        return
    found = list(_outputs(made, PREDICTOR, rules.programs[PREDICTOR][1]))
    yield from found
    if found:
        return
    durations, text = made[0].reshape(-1), mask[0]
    if (durations[text] < 1).all() and (durations[~text] > 0).any():
        yield ContractDeviation("mask reversed", PREDICTOR, "durations where the mask is True", "durations where not")
        return
    if durations[~text].any():
        yield ContractDeviation("padding lasts", PREDICTOR, "0 behind the text", str(int(durations[~text].sum())))
    if (durations[text] < 1).any():
        yield ContractDeviation("durations", PREDICTOR, "1 frame or more a token", str(int(durations[text].min())))
    slow = pair.predicted(LONG, speed=0.5)[3]
    if slow.sum() == whole[0].sum():
        yield ContractDeviation("speed ignored", PREDICTOR, "longer at half the speed", f"{slow.sum()} frames at both")
    yield from _audio(pair, rules)


def _audio(pair: _Pair, rules: ClientContract) -> Iterator[ContractDeviation]:
    try:
        frames, audio = pair.spoken(LONG)
        again, other = pair.spoken(LONG)[1], pair.spoken(LONG, style=-0.4)[1]
    except InputError as error:
        yield ContractDeviation("does not run", SYNTHESIZER, "audio for 40 frames", _first(error))
        return
    found = list(_outputs([audio], SYNTHESIZER, rules.programs[SYNTHESIZER][1]))
    yield from found
    if found:
        return
    if audio.size != SAMPLES_PER_FRAME * frames:
        yield ContractDeviation(
            "length", SYNTHESIZER, f"{SAMPLES_PER_FRAME} samples a frame", f"{audio.size / frames:g}"
        )
    if not np.isfinite(audio).all():
        yield ContractDeviation(
            "not finite", SYNTHESIZER, "finite audio", f"{np.mean(~np.isfinite(audio)):.0%} of a text"
        )
        return
    peak = float(np.abs(audio).max())
    if not peak > 1e-4:
        yield ContractDeviation("silent", SYNTHESIZER, "audio", f"a peak of {peak:.1e}")
    if peak > 4:
        yield ContractDeviation("clipped", SYNTHESIZER, "a peak of about full scale", f"{peak:.1f} times full scale")
    if np.array_equal(audio, other):
        yield ContractDeviation("style ignored", SYNTHESIZER, "other audio for another style", "the same")
    if not np.array_equal(audio, again):
        yield ContractDeviation("not repeatable", SYNTHESIZER, "the same audio twice", "other audio")


def _outputs(made: list[np.ndarray], name: str, rules: tuple[TensorRule, ...]) -> Iterator[ContractDeviation]:
    if len(made) != len(rules):
        yield ContractDeviation("number of outputs", name, str(len(rules)), str(len(made)))
        return
    for value, rule in zip(made, rules, strict=True):
        if value.dtype != rule.dtype:
            yield ContractDeviation("output dtype", f"{name} {rule.name}", rule.dtype, str(value.dtype))
        elif value.ndim != len(rule.shape):
            shown = f"({', '.join(map(str, rule.shape))})"
            yield ContractDeviation("output shape", f"{name} {rule.name}", shown, str(value.shape))


def _first(error: Exception) -> str:
    return str(error).splitlines()[0][:160]
