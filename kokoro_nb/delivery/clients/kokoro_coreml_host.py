"""What kokoro-coreml does with its four programs: each in the smallest size that holds the text, padded with zeros."""

from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients import kokoro_coreml_client as client
from kokoro_nb.delivery.clients.chained_host import ChainedHost, ChainedUtterance
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.client_utterance import voice_row
from kokoro_nb.delivery.clients.hosted_source import hosted_har
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE
from kokoro_nb.storage import read_json


class KokoroCoreMlHost(ChainedHost):
    """Speaks from a folder as the client does."""

    symbols = client.VOCAB

    @cached_property
    def vocab(self) -> dict[str, int]:
        """Symbol -> id."""
        return dict(read_json(self.folder / self.symbols, "table of symbols")["vocab"])

    @cached_property
    def source(self) -> dict[str, Any]:
        """The layer that adds up the harmonics."""
        return dict(read_json(self.folder / client.SOURCE, "weights of the source"))

    def rooms(self) -> tuple[list[int], list[int]]:
        """Return for how many tokens, and for how many seconds, the folder has programs."""
        tokens = [size for size in client.TOKENS if (self.folder / client.durations(size)).is_dir()]
        seconds = [
            size for size in client.SECONDS if all((self.folder / one).is_dir() for one in client.frame_stages(size))
        ]
        return tokens, seconds

    def room(self, said: ChainedUtterance) -> int:
        """Return the size of the first stage, tokens, that an utterance was made with."""
        return int(said.values["input_ids"].shape[1])

    def size(self, said: ChainedUtterance) -> int:
        """Return the size of the stages over frames, seconds, that an utterance was made with."""
        return int(said.values["asr"].shape[2]) // client.FRAMES

    def utter(self, request: Request) -> ChainedUtterance:
        """Speak one text of phonemes: see `ChainedHost.utter`."""
        ids, (tokens, seconds) = self.ids(request), self.rooms()
        room = _smallest(tokens, len(ids), f"{len(ids)} tokens")
        row = voice_row(self.folder, self.contract, request, len(ids) - 2)
        values: dict[str, np.ndarray] = {
            "input_ids": np.array([[*ids, *[0] * (room - len(ids))]], np.int32),
            "attention_mask": (np.arange(room) < len(ids)).astype(np.int32)[None],
            "ref_s": row,
            "s": row[:, STYLE:],
            "speed": np.array([request.speed], np.float32),
        }
        values |= self.stage(client.durations(room))(values)
        durations = values["pred_dur"].reshape(-1)[: len(ids)].astype(np.int64).clip(min=0)
        frames = int(durations.sum())
        size = _smallest(seconds, frames / client.FRAMES, f"{frames / client.FRAMES:.1f} s of speech")
        values |= self._spread(values, np.repeat(np.arange(len(ids)), durations), client.FRAMES * size)
        pitch, trunk, generator = client.frame_stages(size)
        values |= self.stage(pitch)(values)
        f0, n = (values[name].reshape(1, 1, -1) for name in ("F0_pred", "N_pred"))
        values |= self.stage(trunk)({**values, "f0": f0, "n_input": n})
        values["har"] = hosted_har(
            f0.reshape(-1), self.source["linear_weights"], self.source["linear_bias"], client.SEED
        )
        values |= self.stage(generator)({**values, "mask": np.repeat(values["mask"], 2, axis=2)})
        audio = values["waveform"].reshape(-1)[: SAMPLES_PER_FRAME * frames].astype(np.float32)
        return ChainedUtterance(durations, audio, ids, values)

    def _spread(self, values: dict[str, np.ndarray], token: np.ndarray, room: int) -> dict[str, np.ndarray]:
        """Return what belongs to the tokens for each frame, zeros behind, and the mask of the frames."""
        behind = ((0, 0), (0, 0), (0, room - len(token)))
        en, asr = values["d"][:, token].swapaxes(1, 2), values["t_en"][:, :, token]
        mask = (np.arange(room) < len(token)).astype(np.float32)[None, None]
        return {"en": np.pad(en, behind), "asr": np.pad(asr, behind), "mask": mask}


def _smallest(sizes: list[int], wanted: float, what: str) -> int:
    for size in sizes:
        if size >= wanted:
            return size
    most = f"at most {sizes[-1]}" if sizes else "none"
    raise InputError(f"The folder has no program for {what}, {most}; deliver more sizes, or cut the text.")
