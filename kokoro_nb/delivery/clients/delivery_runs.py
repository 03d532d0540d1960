"""What a program does when a client runs it: on two texts, two speeds, two styles, and twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.contract_deviation import ContractDeviation
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

SHORT, LONG = (0, 43, 0), (0, 50, 83, 54, 156, 57, 135, 16, 65, 87, 158, 54, 46, 4, 0)


class ProgramRuns:
    """A program, run as the clients do: three inputs by position or by name, the first output played."""

    def __init__(self, path: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [value.name for value in self.session.get_outputs()]
        held = self.session.get_inputs()
        order = {"input_ids": 0, "tokens": 0, "style": 1, "speed": 2}
        ranked = sorted(held, key=lambda value: order.get(value.name, held.index(value)))
        self.given = [(value.name, _DTYPES.get(value.type, np.float32), len(value.shape)) for value in ranked]

    def __call__(self, ids: tuple[int, ...], speed: float = 1.0, style: float = 0.1) -> tuple[np.ndarray, Any]:
        """Return audio, (samples,), and durations or None; the style alternates between `style` and its negative."""
        row = np.where(np.arange(256) % 2, style, -style)
        values: list[Any] = [np.array([ids]), row[None], np.array([speed])]
        fed = {}
        for (name, dtype, rank), value in zip(self.given, values, strict=True):
            rounded = np.rint(value) if np.issubdtype(dtype, np.integer) else value
            fed[name] = np.asarray(rounded, dtype).reshape((1,) * max(0, rank - value.ndim) + value.shape)
        made = dict(zip(self.names, self.session.run(None, fed), strict=True))
        audio = made.get("waveform", made.get("audio", next(iter(made.values()))))
        lasting = made.get("duration")
        return np.asarray(audio, np.float64).reshape(-1), None if lasting is None else np.asarray(lasting).reshape(-1)


_DTYPES = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


def behaviour(program: Path, path: str, rules: ClientContract, drawn: bool) -> Iterator[ContractDeviation]:
    """Run a program, and yield what a client would notice."""
    try:
        run = ProgramRuns(program)
        audio, lasting = run(LONG)
        again, _ = run(LONG)
        short, _ = run(SHORT)
        slow, _ = run(LONG, speed=0.5)
        other, _ = run(LONG, style=-0.4)
    except Exception as error:  # a runtime's errors have no common class
        yield ContractDeviation(
            "does not run", path, "audio for texts of 1 and 13 ids", str(error).splitlines()[0][:160]
        )
        return
    finite = all(np.isfinite(one).all() for one in (audio, short, slow, other))
    peak = float(np.abs(audio).max()) if audio.size else 0.0
    if not finite:
        yield ContractDeviation("not finite", path, "finite audio", f"{np.mean(~np.isfinite(audio)):.0%} of one text")
        return
    if not peak > 1e-4:
        yield ContractDeviation("silent", path, "audio", f"a peak of {peak:.1e}")
    if peak > 4:
        yield ContractDeviation("clipped", path, "a peak of about full scale", f"{peak:.1f} times full scale")
    if lasting is not None and SAMPLES_PER_FRAME * int(lasting.sum()) != len(audio):
        found = f"{len(audio)} samples for {int(lasting.sum())} frames"
        yield ContractDeviation("length", path, f"{SAMPLES_PER_FRAME} samples a frame", found)
    if len(slow) == len(audio):
        yield ContractDeviation("speed ignored", path, "longer audio at half the speed", f"{len(slow)} samples at both")
    if len(other) == len(audio) and np.array_equal(other, audio):
        yield ContractDeviation("style ignored", path, "other audio for another style", "the same")
    if not drawn and not (len(again) == len(audio) and np.array_equal(again, audio)):
        yield ContractDeviation("not repeatable", path, "the same audio twice", "other audio")
