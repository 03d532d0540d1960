"""What Core ML stages do to the signal: level of the inverse STFT, phases of the source, what padding changes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from kokoro_nb.delivery.clients import fluidaudio_client, kokoro_coreml_client
from kokoro_nb.delivery.clients.chained_host import ChainedHost, ChainedUtterance
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.delivery.clients.har_tap import CHANNELS
from kokoro_nb.delivery.clients.inverse_level import BINS, HOP, WINDOW, InverseLevel
from kokoro_nb.delivery.clients.kokoro_coreml_host import KokoroCoreMlHost
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

LEAST = 100  # windows of noise, of which half have a phase of pi
PI = 3.0  # phases above are taken for it


def check_signal(host: ChainedHost, said: ChainedUtterance) -> Iterator[ContractDeviation]:
    """Yield what deviates, of an utterance of a folder's stages."""
    last = last_stage(host, said)
    yield from _padding(host, said) if isinstance(host, KokoroCoreMlHost) else _phase(host, said)
    level = stage_level(host, last, said)
    if level is not None and not level.exact:
        found = f"{level.middle:.2f} of it in bins 1 to 9, {level.ends:.2f} in the first and last"
        yield ContractDeviation("level", last, "the level of torch.istft", found)


def last_stage(host: ChainedHost, said: ChainedUtterance) -> str:
    """Return the program that the audio of an utterance came from."""
    if isinstance(host, KokoroCoreMlHost):
        return kokoro_coreml_client.frame_stages(host.size(said))[-1]
    return fluidaudio_client.TAIL


def stage_level(host: ChainedHost, name: str, said: ChainedUtterance) -> InverseLevel | None:
    """Return the level of the inverse STFT of the last stage; None where it has no exponential and sine of 11 bins.

    The audio is a sum of what the bins 1 to 9 and what the first and last bin give; both shares are found by least
    squares against `torch.istft` of the same spectrum.
    """
    seen: dict[str, list[np.ndarray]] = {"exp": [], "sin": []}

    def observe(kind: str, _name: str, _inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        (value,) = outputs.values() if len(outputs) == 1 else (None,)
        if kind in seen and value is not None and np.ndim(value) == 3 and np.shape(value)[1] == BINS:
            seen[kind].append(np.array(value, np.float32))

    given = said.values if host.contract.client == "fluidaudio" else _generator_inputs(said)
    host.stage(name)(given, observe)
    if not seen["exp"] or not seen["sin"]:
        return None
    count = 120 * int(said.durations.sum()) + 1
    spectrum = torch.polar(torch.tensor(seen["exp"][0]), torch.tensor(seen["sin"][0]))[..., :count]
    parts = []
    for bins in (slice(1, BINS - 1), [0, BINS - 1]):
        part = torch.zeros_like(spectrum)
        part[:, bins] = spectrum[:, bins]
        parts.append(torch.istft(part, WINDOW, HOP, WINDOW, torch.hann_window(WINDOW))[0].numpy())
    size = min(len(said.audio), len(parts[0]))
    within = slice(WINDOW, size - WINDOW)
    shares, *_ = np.linalg.lstsq(np.stack([part[within] for part in parts], axis=1), said.audio[within], rcond=None)
    return InverseLevel(*map(float, shares))


def _generator_inputs(said: ChainedUtterance) -> dict[str, np.ndarray]:
    return {**said.values, "mask": np.repeat(said.values["mask"], 2, axis=2)}


def _phase(host: ChainedHost, said: ChainedUtterance) -> Iterator[ContractDeviation]:
    """Yield a deviation where no bin of a real signal's spectrum is negative: an atan2 that gives 0 for pi."""
    found: list[np.ndarray] = []

    def observe(kind: str, _name: str, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]) -> None:
        value: Any = inputs.get("x")
        if kind == "conv" and np.ndim(value) == 3 and np.shape(value)[1] == CHANNELS:
            found.append(np.array(value, np.float32))

    name = fluidaudio_client.NOISE
    host.stage(name)(said.values, observe)
    if not found or found[0].shape[-1] < LEAST:
        return
    ends = np.abs(found[0][0, [BINS, CHANNELS - 1]])
    if not (ends > PI).any():
        yield ContractDeviation("phase", name, "0 and pi in the first and last bin", f"{ends.max():.2f} at most")


def _padding(host: KokoroCoreMlHost, said: ChainedUtterance) -> Iterator[ContractDeviation]:
    """Run each stage with something else behind what is valid, and yield where that changes what is valid."""
    count, frames = len(said.ids), int(said.durations.sum())
    sizes = {"input_ids": count, "asr": frames, "f0": 2 * frames, "n_input": 2 * frames}
    sizes |= {"x_pre": 2 * frames, "har": 120 * frames + 1}
    curves = {new: said.values[old].reshape(1, 1, -1) for new, old in (("f0", "F0_pred"), ("n_input", "N_pred"))}
    given = {**said.values, **curves}
    spoilt = {name: _spoilt(given[name], size) for name, size in sizes.items()}
    _, trunk, generator = kokoro_coreml_client.frame_stages(host.size(said))
    stages: list[tuple[str, dict[str, np.ndarray], dict[str, int]]] = [
        (kokoro_coreml_client.durations(host.room(said)), given, {"pred_dur": count, "t_en": count}),
        (trunk, given, {"x_pre": 2 * frames}),
        (generator, _generator_inputs(said), {"waveform": SAMPLES_PER_FRAME * frames}),
    ]
    for name, right, valid in stages:
        made, other = host.stage(name)({**given, **right}), host.stage(name)({**given, **right, **spoilt})
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
