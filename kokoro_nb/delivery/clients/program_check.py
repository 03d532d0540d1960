"""Programs compared with a client's contract: what they declare, and what they do when they run.

On other texts, speeds and styles, to level and phases, and with padding; those of several stages chained.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from kokoro_nb.backends.onnx import tapped_model
from kokoro_nb.delivery.clients import known_clients as known
from kokoro_nb.delivery.clients.client_contract import ClientContract, Deviations, TensorRule
from kokoro_nb.delivery.clients.hosts import ClientHost, ClientUtterance, OnnxHost, ReactNativeHost, host, onnx_session
from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER, durations_path, frame_stages
from kokoro_nb.delivery.clients.programs import KINDS, METHOD, PteProgram, StageProgram, schema_faults
from kokoro_nb.errors import InputError, one_line
from kokoro_nb.inspection.onnx_model import run_session
from kokoro_nb.models.architecture import FRAMES_PER_SECOND, SAMPLES_PER_FRAME

_P = TypeVar("_P", PteProgram, StageProgram)
BINS, HOP, WINDOW = 11, 5, 20
CHANNELS = 2 * BINS  # of `har`: magnitudes and phases
LEAST = 100  # windows of noise, of which half have a phase of pi
PI = 3.0  # phases above are taken for it


def _check_inverse(magnitude: np.ndarray, phase: np.ndarray, audio: np.ndarray, where: str, seen: Deviations) -> None:
    """Note a deviation where an inverse STFT is by 1 % or more louder or quieter than torch.istft of the same spectrum.

    An audio is a sum of what the bins 1 to 9 and what the first and last bin give; both shares are found by least
    squares.

    Parameters
    ----------
    magnitude, phase : numpy.ndarray, shape (1, 11, windows)
    audio : numpy.ndarray, shape (samples,)
    where : str
        The program.
    seen : Deviations
    """
    spectrum, parts = torch.polar(torch.tensor(magnitude), torch.tensor(phase)), []
    for bins in (slice(1, BINS - 1), [0, BINS - 1]):
        part = torch.zeros_like(spectrum)
        part[:, bins] = spectrum[:, bins]
        parts.append(torch.istft(part, WINDOW, HOP, WINDOW, torch.hann_window(WINDOW))[0].numpy())
    size = min(len(audio), len(parts[0]))
    within = slice(WINDOW, size - WINDOW)  # at the ends windows are missing
    shares, *_ = np.linalg.lstsq(np.stack([part[within] for part in parts], axis=1), audio[within], rcond=None)
    found = "{:.2f} of it in bins 1 to 9, {:.2f} in the first and last".format(*shares)
    seen.require((np.abs(shares - 1) < 0.01).all(), "level", where, "the level of torch.istft", found)


def check_level(host: OnnxHost, seen: Deviations) -> None:
    """Note a level that is off in an ONNX program: of a product of a magnitude of 11 bins with a cosine, if it has one.

    Parameters
    ----------
    host : OnnxHost
        Of the folder.
    seen : Deviations
    """
    import onnx

    path = host.folder / host.program
    model = onnx.load(path, load_external_data=False)
    cosines = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Cos"}
    pairs = []
    for node in model.graph.node:
        turned = [name for name in node.input if name in cosines] if node.op_type == "Mul" else []
        pairs += [(name, cosines[turned[0]]) for name in node.input if turned and name != turned[0]]
    session = onnx_session(tapped_model(path, {name for pair in pairs for name in pair}))
    made = run_session(session, host.given(TEXT, style_row()))
    for magnitude, phase in ((made[magnitude], made[phase]) for magnitude, phase in pairs if magnitude in made):
        if magnitude.ndim == 3 and magnitude.shape[1] == BINS:
            _check_inverse(magnitude, phase, next(iter(made.values())).reshape(-1), host.program, seen)
            return


def check_stages(host: ClientHost, said: ClientUtterance, seen: Deviations) -> None:
    """Note what deviates, of an utterance of a folder's Core ML stages."""
    fluid = host.contract.client == "fluidaudio"
    last = known.TAIL if fluid else frame_stages(_seconds(said))[-1]
    (_check_phase if fluid else _check_padding)(host, said, seen)
    found: dict[str, list[np.ndarray]] = {"exp": [], "sin": []}

    def observe(kind: str, _name: str, _inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        (value,) = outputs.values() if len(outputs) == 1 else (None,)
        if kind in found and value is not None and np.ndim(value) == 3 and np.shape(value)[1] == BINS:
            found[kind].append(np.array(value, np.float32))

    host.load(last)(said.values if fluid else _of_generator(said), observe)
    if found["exp"] and found["sin"]:
        magnitude, phase = (found[kind][0][..., : 120 * said.frames + 1] for kind in ("exp", "sin"))
        _check_inverse(magnitude, phase, said.audio, last, seen)


def _seconds(said: ClientUtterance) -> int:
    """Return the size of the stages over frames that kokoro-coreml made an utterance with."""
    return int(said.values["asr"].shape[2]) // FRAMES_PER_SECOND


def _of_generator(said: ClientUtterance) -> dict[str, np.ndarray]:
    return {**said.values, "mask": np.repeat(said.values["mask"], 2, axis=2)}


def observed_har(host: ClientHost, said: ClientUtterance) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return what FluidAudio's stage of the noise convolves: `har`, (1, 22, windows), of no windows if there is none.

    The second value is what the stage gives in the same run.
    """
    found = [np.zeros((1, CHANNELS, 0), np.float32)]

    def observe(kind: str, _name: str, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]) -> None:
        value: Any = inputs.get("x")
        if kind == "conv" and np.ndim(value) == 3 and np.shape(value)[1] == CHANNELS:
            found.append(np.array(value, np.float32))

    made = host.load(known.NOISE)(said.values, observe)
    return found[-1], made


def _check_phase(host: ClientHost, said: ClientUtterance, seen: Deviations) -> None:
    """Note a deviation where no bin of a real signal's spectrum is negative: an atan2 that gives 0 for pi."""
    har, _ = observed_har(host, said)
    if har.shape[-1] >= LEAST:
        largest, wanted = np.abs(har[0, [BINS, CHANNELS - 1]]).max(), "0 and pi in the first and last bin"
        seen.require(largest > PI, "phase", known.NOISE, wanted, f"{largest:.2f} at most")


def _check_padding(host: ClientHost, said: ClientUtterance, seen: Deviations) -> None:
    """Run each stage with something else behind what is valid, and note where that changes what is valid."""
    count, frames = len(said.ids), said.frames
    sizes = {"input_ids": count, "asr": frames, "f0": 2 * frames, "n_input": 2 * frames}
    sizes |= {"x_pre": 2 * frames, "har": 120 * frames + 1}
    given = said.values
    spoilt = {name: _spoilt(given[name], size) for name, size in sizes.items()}
    _, trunk, generator = frame_stages(_seconds(said))
    stages: list[tuple[str, Mapping[str, np.ndarray], dict[str, int]]] = [
        (durations_path(given["input_ids"].shape[1]), given, {"pred_dur": count, "t_en": count}),
        (trunk, given, {"x_pre": 2 * frames}),
        (generator, _of_generator(said), {"waveform": SAMPLES_PER_FRAME * frames}),
    ]
    for name, right, valid in stages:
        made, other = host.load(name)({**given, **right}), host.load(name)({**given, **right, **spoilt})
        for output, size in valid.items():
            first, second = (np.asarray(one[output], np.float64)[..., :size] for one in (made, other))
            change, peak = np.abs(first - second).max(), np.abs(first).max()
            wanted, what = "the same whatever stands behind the text", f"{output} changes by {change:.2g}"
            seen.require(change <= 1e-3 * peak, "padding leaks", name, wanted, f"{what}, of a peak of {peak:.2g}")


def _spoilt(value: np.ndarray, size: int) -> np.ndarray:
    other = np.array(value)
    other[..., size:] = 50 if other.dtype.kind == "i" else 0.5
    return other


SHORT, TEXT = (0, 50, 0), (0, 50, 83, 54, 156, 57, 135, 0)
LOUDEST, QUIETEST = 4, 1e-4  # of full scale


def style_row(size: float = 0.1) -> np.ndarray:
    """Return a style of one size and alternating sign, (1, 256) float32."""
    return np.where(np.arange(256) % 2, size, -size).astype(np.float32)[None]


def check_behaviour(
    host: ClientHost, first: str, last: str, seen: Deviations, drawn: bool = False
) -> ClientUtterance | None:
    """Run a folder's programs, and note what a client would notice; return what was said if it can be heard.

    Parameters
    ----------
    host : ClientHost
    first, last : str
        The programs that give durations and audio.
    seen : Deviations
    drawn : bool
        Whether it is known already that no two runs are alike.
    """
    try:
        said, again = (host.speak(TEXT, style_row()) for _ in range(2))
        slow, other = host.speak(TEXT, style_row(), 0.5), host.speak(TEXT, style_row(-0.4))
        short = host.speak(SHORT, style_row())
    except Exception as error:  # a runtime's errors have no common class
        counts = " and ".join(str(len(ids) - 2) for ids in (SHORT, TEXT))
        seen.require(False, "does not run", first, f"audio for texts of {counts} ids", one_line(error))
        return None
    for one in (said, short):
        samples = f"{len(one.audio)} samples for {one.frames} frames"
        right = len(one.audio) == SAMPLES_PER_FRAME * one.frames
        if not seen.require(right, "length", last, f"{SAMPLES_PER_FRAME} samples a frame", samples):
            break
    for one in (said, short, slow, other):
        finite = np.isfinite(one.audio)
        if not seen.require(finite.all(), "not finite", last, "finite audio", f"{np.mean(~finite):.0%} of one text"):
            return None
    peak = float(np.abs(said.audio).max(initial=0))
    seen.require(peak > QUIETEST, "silent", last, "audio", f"a peak of {peak:.1e}")
    seen.require(peak <= LOUDEST, "clipped", last, "a peak of about full scale", f"{peak:.1f} times full scale")
    paced = _lasting(slow) != _lasting(said)
    seen.require(paced, "speed ignored", first, "longer audio at half the speed", "the same length")
    styled = not np.array_equal(other.audio, said.audio)
    seen.require(styled, "style ignored", last, "other audio for another style", "the same")
    repeated = drawn or np.array_equal(again.audio, said.audio)
    seen.require(repeated, "not repeatable", last, "the same audio twice", "other audio")
    return said


def _lasting(said: ClientUtterance) -> int:
    return len(said.audio) if said.durations is None else int(said.durations.sum())


_FATAL = ("program missing", "program unreadable", "input name", "output name", "input shape")


def check_packages(root: Path, rules: ClientContract, seen: Deviations) -> None:
    """Note what deviates in the packages of a folder: in what they declare, and in what they do, chained."""
    before = len(seen)
    there = [name for name in rules.programs if (root / name).is_dir()]
    if rules.alternatives and there:
        _check_sizes(root, seen)
    for name, stage in _opened(root, rules, StageProgram, "a Core ML program", seen).items():
        inputs, outputs = rules.programs[name]
        declared = {feature.name: feature.type.multiArrayType for feature in stage.description.input}
        given = {feature.name for feature in stage.description.output}
        stated, masked = ", ".join(declared), "mask" in {rule.name for rule in inputs}
        if not seen.require("mask" in declared or not masked, "mask missing", name, "an input mask", stated):
            inputs = tuple(rule for rule in inputs if rule.name != "mask")
        known = {rule.name for rule in inputs} | {*declared} & {"mask"}  # which is optional over the prosody
        if not seen.require({*declared} == known, "input name", name, _names(inputs), stated):
            continue
        found = ", ".join(sorted(given))
        seen.require({rule.name for rule in outputs} <= given, "output name", name, _names(outputs), found)
        for rule in inputs:
            _check_input(name, rule, declared[rule.name], rules, seen)
    complete = there and (rules.alternatives or len(there) == len(rules.programs))
    if not complete or any(one.rule in _FATAL for one in seen[before:]):
        return
    speaker = host(root, rules)
    said = check_behaviour(speaker, there[0], there[-1], seen)
    if said is not None:
        check_stages(speaker, said, seen)


def _opened(root: Path, rules: ClientContract, kind: type[_P], what: str, seen: Deviations) -> dict[str, _P]:
    """Return the programs that are there and can be read, by name, and note the others."""
    found = {}
    for name in rules.programs:
        if (root / name).exists():
            try:
                found[name] = kind(root / name)
            except InputError as error:
                seen.require(False, "program unreadable", name, what, one_line(error))
    return found


def _names(rules: tuple[TensorRule, ...]) -> str:
    return ", ".join(rule.name for rule in rules)


def _check_sizes(root: Path, seen: Deviations) -> None:
    """Note what a client of programs in several sizes lacks: a first stage, or a stage of a size that others have."""
    first = any((root / durations_path(size)).is_dir() for size in known.TOKEN_SIZES)
    seen.require(first, "program missing", durations_path(known.TOKEN_SIZES[0]), "a first stage of some size", "none")
    sets = [[name for name in frame_stages(size) if not (root / name).is_dir()] for size in known.SECONDS]
    for missing in sets:
        if len(missing) < 3:
            words = "each stage of a size", "others of it alone"
            seen.require(not missing, "program missing", "".join(missing[:1]), *words)
    some = any(len(missing) < 3 for missing in sets)
    seen.require(some, "program missing", sets[0][0] if sets[0] else "", "the stages over frames of some size", "none")


def _check_input(name: str, rule: TensorRule, declared: Any, rules: ClientContract, seen: Deviations) -> None:
    where, shape = f"{name} {rule.name}", declared.shape
    seen.same("input dtype", where, rule.dtype, KINDS.get(declared.dataType, str(declared.dataType)))
    if not seen.require(len(shape) == len(rule.shape), "input shape", where, f"{len(rule.shape)} axes", len(shape)):
        return
    ranges = declared.shapeRange.sizeRanges
    for place, axis in enumerate(rule.shape):
        if isinstance(axis, int):
            seen.same("input shape", where, axis, shape[place])
        elif axis in rules.ranges:
            least, most, _ = rules.ranges[axis]
            low, high = (ranges[place].lowerBound, ranges[place].upperBound) if ranges else (shape[place],) * 2
            fits = low <= least and not 0 <= high < most
            seen.require(fits, "length limits", where, f"{least} to {most}", f"{low} to {high}")


def check_pair(root: Path, rules: ClientContract, seen: Deviations) -> None:
    """Note what deviates in the programs of a folder: in what they tell, and in what they do."""
    loaded = _opened(root, rules, PteProgram, "an ExecuTorch program", seen)
    for name, program in loaded.items():
        schema = program.schema()
        if seen.require(schema is not None, "schema missing", name, f"a constant method {METHOD}", "none"):
            for rule, expected, found in schema_faults(schema, rules.programs[name], rules):
                seen.require(False, rule, f"{name} {METHOD}", expected, found)
    if len(loaded) == len(rules.programs):
        _check_speech(root, rules, seen)


def _check_speech(root: Path, rules: ClientContract, seen: Deviations) -> None:
    """Note what deviates in what a pair gives: first the durations of a text that is padded, then all of it."""
    speaker = ReactNativeHost(root, rules)
    try:
        _, mask, *made = speaker.predict(SHORT, style_row())
    except InputError as error:
        seen.require(False, "does not run", PREDICTOR, f"durations for {len(SHORT)} tokens", one_line(error))
        return
    if not _check_made(made, PREDICTOR, rules, seen):
        return
    text, padding = made[0].reshape(-1)[mask[0]], made[0].reshape(-1)[~mask[0]]
    reversed_ = (text < 1).all() and (padding > 0).any()
    where = "durations where the mask is True", "durations where not"
    if not seen.require(not reversed_, "mask reversed", PREDICTOR, *where):
        return
    seen.require(not padding.any(), "padding lasts", PREDICTOR, "0 behind the text", int(padding.sum()))
    seen.require(text.min() >= 1, "durations", PREDICTOR, "1 frame or more a token", int(text.min()))
    said = check_behaviour(speaker, PREDICTOR, SYNTHESIZER, seen)
    if said is not None:
        _check_made([said.values["audio"]], SYNTHESIZER, rules, seen)


def _check_made(made: Sequence[np.ndarray], name: str, rules: ClientContract, seen: Deviations) -> bool:
    """Note what deviates in what a program gave; return whether nothing does."""
    before, (_, wanted) = len(seen), rules.programs[name]
    if seen.same("number of outputs", name, len(wanted), len(made)):
        for value, rule in zip(made, wanted, strict=True):
            where, shown = f"{name} {rule.name}", f"({', '.join(map(str, rule.shape))})"
            if seen.same("output dtype", where, rule.dtype, str(value.dtype)):
                seen.require(value.ndim == len(rule.shape), "output shape", where, shown, value.shape)
    return len(seen) == before
