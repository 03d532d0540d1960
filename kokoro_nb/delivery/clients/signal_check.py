"""What programs do when they run: on other texts, speeds and styles, to level and phases, and with padding."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_nb.delivery.clients import fluidaudio_client, kokoro_coreml_client
from kokoro_nb.delivery.clients.client_contract import ContractDeviation
from kokoro_nb.delivery.clients.hosts import ClientHost, ClientUtterance
from kokoro_nb.delivery.clients.programs import OnnxSession
from kokoro_nb.errors import one_line
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

BINS, HOP, WINDOW = 11, 5, 20
CHANNELS = 2 * BINS  # of `har`: magnitudes and phases
LEAST = 100  # windows of noise, of which half have a phase of pi
PI = 3.0  # phases above are taken for it


@dataclass(frozen=True)
class InverseLevel:
    """How loud the inverse STFT of a program is, relative to torch.istft of the same spectrum.

    Attributes
    ----------
    middle : float
        Of bins 1 to 9, within the signal.
    ends : float
        Of the first and the last bin.
    """

    middle: float
    ends: float

    def deviation(self, where: str) -> Iterator[ContractDeviation]:
        """Yield what deviates, if one of the two is off by 1 % or more."""
        if abs(self.middle - 1) >= 0.01 or abs(self.ends - 1) >= 0.01:
            found = f"{self.middle:.2f} of it in bins 1 to 9, {self.ends:.2f} in the first and last"
            yield ContractDeviation("level", where, "the level of torch.istft", found)


def inverse_level(magnitude: np.ndarray, phase: np.ndarray, audio: np.ndarray) -> InverseLevel:
    """Return the level at which an audio is made of a spectrum.

    It is a sum of what the bins 1 to 9 and what the first and last bin give; both shares are found by least squares
    against `torch.istft`.

    Parameters
    ----------
    magnitude, phase : numpy.ndarray, shape (1, 11, windows)
    audio : numpy.ndarray, shape (samples,)
    """
    spectrum, parts = torch.polar(torch.tensor(magnitude), torch.tensor(phase)), []
    for bins in (slice(1, BINS - 1), [0, BINS - 1]):
        part = torch.zeros_like(spectrum)
        part[:, bins] = spectrum[:, bins]
        parts.append(torch.istft(part, WINDOW, HOP, WINDOW, torch.hann_window(WINDOW))[0].numpy())
    size = min(len(audio), len(parts[0]))
    within = slice(WINDOW, size - WINDOW)  # at the ends windows are missing
    shares, *_ = np.linalg.lstsq(np.stack([part[within] for part in parts], axis=1), audio[within], rcond=None)
    return InverseLevel(*map(float, shares))


def onnx_level(path: Path, given: Mapping[str, np.ndarray]) -> InverseLevel | None:
    """Measure the level of an ONNX program; None where there is no product of a magnitude of 11 bins with a cosine.

    Parameters
    ----------
    path : Path
    given : mapping
        Its inputs.
    """
    import onnx

    model = onnx.load(path)
    cosines = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Cos"}
    pairs = []
    for node in model.graph.node:
        turned = [name for name in node.input if name in cosines] if node.op_type == "Mul" else []
        pairs += [(name, cosines[turned[0]]) for name in node.input if turned and name != turned[0]]
    held = {value.name for value in model.graph.output}
    for name in {name for pair in pairs for name in pair} - held:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    program = OnnxSession(model.SerializeToString())
    made = program(given)
    for magnitude, phase in pairs:
        if made[magnitude].ndim == 3 and made[magnitude].shape[1] == BINS:
            return inverse_level(made[magnitude], made[phase], made[program.outputs[0]].reshape(-1))
    return None


def check_stages(host: ClientHost, said: ClientUtterance) -> Iterator[ContractDeviation]:
    """Yield what deviates, of an utterance of a folder's Core ML stages."""
    fluid = host.contract.client == "fluidaudio"
    last = fluidaudio_client.TAIL if fluid else kokoro_coreml_client.frame_stages(_seconds(said))[-1]
    yield from _phase(host, said) if fluid else _padding(host, said)
    seen: dict[str, list[np.ndarray]] = {"exp": [], "sin": []}

    def observe(kind: str, _name: str, _inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        (value,) = outputs.values() if len(outputs) == 1 else (None,)
        if kind in seen and value is not None and np.ndim(value) == 3 and np.shape(value)[1] == BINS:
            seen[kind].append(np.array(value, np.float32))

    host.load(last)(said.values if fluid else _of_generator(said), observe)
    if seen["exp"] and seen["sin"]:
        windows = 120 * said.frames + 1
        level = inverse_level(seen["exp"][0][..., :windows], seen["sin"][0][..., :windows], said.audio)
        yield from level.deviation(last)


def _seconds(said: ClientUtterance) -> int:
    """Return the size of the stages over frames that kokoro-coreml made an utterance with."""
    return int(said.values["asr"].shape[2]) // kokoro_coreml_client.FRAMES


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

    made = host.load(fluidaudio_client.NOISE)(said.values, observe)
    return found[-1], made


def _phase(host: ClientHost, said: ClientUtterance) -> Iterator[ContractDeviation]:
    """Yield a deviation where no bin of a real signal's spectrum is negative: an atan2 that gives 0 for pi."""
    har, _ = observed_har(host, said)
    if har.shape[-1] < LEAST:
        return
    ends = np.abs(har[0, [BINS, CHANNELS - 1]])
    if not (ends > PI).any():
        where, found = fluidaudio_client.NOISE, f"{ends.max():.2f} at most"
        yield ContractDeviation("phase", where, "0 and pi in the first and last bin", found)


def _padding(host: ClientHost, said: ClientUtterance) -> Iterator[ContractDeviation]:
    """Run each stage with something else behind what is valid, and yield where that changes what is valid."""
    count, frames = len(said.ids), said.frames
    sizes = {"input_ids": count, "asr": frames, "f0": 2 * frames, "n_input": 2 * frames}
    sizes |= {"x_pre": 2 * frames, "har": 120 * frames + 1}
    given = said.values
    spoilt = {name: _spoilt(given[name], size) for name, size in sizes.items()}
    _, trunk, generator = kokoro_coreml_client.frame_stages(_seconds(said))
    stages: list[tuple[str, Mapping[str, np.ndarray], dict[str, int]]] = [
        (kokoro_coreml_client.durations(given["input_ids"].shape[1]), given, {"pred_dur": count, "t_en": count}),
        (trunk, given, {"x_pre": 2 * frames}),
        (generator, _of_generator(said), {"waveform": SAMPLES_PER_FRAME * frames}),
    ]
    for name, right, valid in stages:
        made, other = host.load(name)({**given, **right}), host.load(name)({**given, **right, **spoilt})
        for output, size in valid.items():
            first, second = (np.asarray(one[output], np.float64)[..., :size] for one in (made, other))
            change, peak = np.abs(first - second).max(), np.abs(first).max()
            if not change <= 1e-3 * peak:
                what = f"{output} changes by {change:.2g}, of a peak of {peak:.2g}"
                yield ContractDeviation("padding leaks", name, "the same whatever stands behind the text", what)


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
    host: ClientHost, first: str, last: str, drawn: bool = False
) -> tuple[list[ContractDeviation], ClientUtterance | None]:
    """Run a folder's programs; return what a client would notice, and what was said if it can be heard.

    Parameters
    ----------
    host : ClientHost
    first, last : str
        The programs that give durations and audio.
    drawn : bool
        Whether it is known already that no two runs are alike.
    """
    try:
        said, again = (host.speak(TEXT, style_row()) for _ in range(2))
        slow, other = host.speak(TEXT, style_row(), 0.5), host.speak(TEXT, style_row(-0.4))
        short = host.speak(SHORT, style_row())
    except Exception as error:  # a runtime's errors have no common class
        counts = " and ".join(str(len(ids) - 2) for ids in (SHORT, TEXT))
        return [ContractDeviation("does not run", first, f"audio for texts of {counts} ids", one_line(error))], None
    found = []
    wrong = [one for one in (said, short) if len(one.audio) != SAMPLES_PER_FRAME * one.frames]
    if wrong:
        samples = f"{len(wrong[0].audio)} samples for {wrong[0].frames} frames"
        found.append(ContractDeviation("length", last, f"{SAMPLES_PER_FRAME} samples a frame", samples))
    wrong = [one for one in (said, short, slow, other) if not np.isfinite(one.audio).all()]
    if wrong:
        share = np.mean(~np.isfinite(wrong[0].audio))
        return [*found, ContractDeviation("not finite", last, "finite audio", f"{share:.0%} of one text")], None
    peak = float(np.abs(said.audio).max(initial=0))
    if not peak > QUIETEST:
        found.append(ContractDeviation("silent", last, "audio", f"a peak of {peak:.1e}"))
    if peak > LOUDEST:
        found.append(ContractDeviation("clipped", last, "a peak of about full scale", f"{peak:.1f} times full scale"))
    if _lasting(slow) == _lasting(said):
        found.append(ContractDeviation("speed ignored", first, "longer audio at half the speed", "the same length"))
    if np.array_equal(other.audio, said.audio):
        found.append(ContractDeviation("style ignored", last, "other audio for another style", "the same"))
    if not drawn and not np.array_equal(again.audio, said.audio):
        found.append(ContractDeviation("not repeatable", last, "the same audio twice", "other audio"))
    return found, said


def _lasting(said: ClientUtterance) -> int:
    return len(said.audio) if said.durations is None else int(said.durations.sum())
