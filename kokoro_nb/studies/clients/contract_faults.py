"""Three wrong contracts as they are met in the field, planted in good deliveries, and what catches each."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_programs import Request, muteness, speak_in
from kokoro_nb.delivery.clients.delivery_check import check_delivery
from kokoro_nb.delivery.clients.hosts import imitate
from kokoro_nb.delivery.clients.probe import compare_reading, read_probe, write_probe
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.phonemes import encode


@dataclass(frozen=True)
class ContractFault:
    """One fault.

    Attributes
    ----------
    name, client : str
    heard : str
        What the client makes of it, in figures.
    caught : tuple of str
        The deviations that are named; none if it is not caught.
    """

    name: str
    client: str
    heard: str
    caught: tuple[str, ...]

    def as_dict(self) -> dict[str, str]:
        """Return a row of a table."""
        caught = " ".join(self.caught) or "not caught"
        return {"fault": self.name, "client": self.client, "heard": self.heard, "caught as": caught}


def contract_faults(kokoro: Kokoro, text: str, folder: str | Path) -> list[ContractFault]:
    """Plant three faults and return what is heard of each, and what catches it.

    Parameters
    ----------
    kokoro : Kokoro
    text : str
        English.
    folder : path
        Holds what `spoken_by_clients` delivered; the faulty folders are written beside.
    """
    symbols = encode(kokoro.model.vocab, text, "espeak").symbols
    symbols = "".join(symbol for symbol in symbols if symbol in kokoro.model.vocab)
    return [_integer_speed(Path(folder), symbols), _half_audio(Path(folder), symbols), _row(Path(folder), symbols)]


def _integer_speed(folder: Path, symbols: str) -> ContractFault:
    """Hexgrad's recipe traces an int32 speed: kokoro-onnx 0.6 rounds what it is given."""
    from onnx import TensorProto, helper

    def change(model: Any) -> None:
        for node in model.graph.node:
            for position, name in enumerate(node.input):
                if name == "speed":
                    node.input[position] = "speed_as_float"
        cast = helper.make_node("Cast", ["speed"], ["speed_as_float"], to=TensorProto.FLOAT)
        model.graph.node.insert(0, cast)
        model.graph.input[2].type.tensor_type.elem_type = TensorProto.INT32

    place = _copy(folder / "kokoro-onnx", folder / "faulty-speed", change)
    requests = [Request(symbols, _voice(folder), 0, speed) for speed in (1.0, 0.8)]
    normal, slow = _speak("kokoro-onnx", place, requests)
    heard = f"{len(normal)} samples at speed 1, {len(slow)} at 0.8"
    return ContractFault("int32 speed", "kokoro-onnx", heard, _deviations(place, "kokoro-onnx"))


def _half_audio(folder: Path, symbols: str) -> ContractFault:
    """A file converted to float16 whole: sherpa-onnx reads its audio as float32."""
    from onnx import TensorProto, helper

    def change(model: Any) -> None:
        for node in model.graph.node:
            for position, name in enumerate(node.output):
                if name == "waveform":
                    node.output[position] = "waveform_float"
        model.graph.node.append(helper.make_node("Cast", ["waveform_float"], ["waveform"], to=TensorProto.FLOAT16))
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16

    place = _copy(folder / "sherpa-onnx", folder / "faulty-dtype", change)
    request = Request(symbols, _voice(folder))
    (right,), (wrong,) = (_speak("sherpa-onnx", one, [request]) for one in (folder / "sherpa-onnx", place))
    peak = float(np.abs(wrong[np.isfinite(wrong)]).max()) if np.isfinite(wrong).any() else float("nan")
    size = min(len(right), len(wrong))
    with np.errstate(all="ignore"):
        alike = float(np.corrcoef(right[:size], wrong[:size])[0, 1])
    heard = f"a peak of {peak:.3g} of full scale, correlation with the right audio {alike:.2f}"
    return ContractFault("float16 audio", "sherpa-onnx", heard, _deviations(place, "sherpa-onnx"))


def _row(folder: Path, symbols: str) -> ContractFault:
    """A client of one contract given the voices of another: sherpa-onnx takes row n where hexgrad takes n - 1."""
    place = folder / "faulty-row"
    write_probe("sherpa-onnx", place, force=True)
    (audio,) = _speak("sherpa-onnx", place, [Request(symbols, "probe_0")])
    reading = read_probe(audio)
    heard = f"row {reading.row} for {reading.count} ids; tables of kokoro-onnx have that style in {reading.count - 1}"
    return ContractFault("style row", "sherpa-onnx", heard, compare_reading(reading, "kokoro-onnx").deviations)


def _voice(folder: Path) -> str:
    from kokoro_nb.delivery.clients.client_delivery import read_delivery

    return read_delivery(folder / "kokoro-onnx").voices[0]


def _speak(client: str, folder: Path, requests: list[Request]) -> list[np.ndarray]:
    return (imitate if muteness(client) else speak_in)(client, folder, requests)


def _copy(good: Path, faulty: Path, change: Any) -> Path:
    import onnx

    shutil.rmtree(faulty, ignore_errors=True)
    shutil.copytree(good, faulty)
    (path,) = faulty.rglob("*.onnx")
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)
    return faulty


def _deviations(folder: Path, client: str) -> tuple[str, ...]:
    found = check_delivery(folder, client).deviations
    return tuple(str(one) for one in found if one.rule != "checksum")  # which any change of a delivery fails
