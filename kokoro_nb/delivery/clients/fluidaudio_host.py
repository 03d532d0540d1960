"""What FluidAudio does with its seven programs, step by step: durations are rounded and clamped by the host."""

import numpy as np

from kokoro_nb.delivery.clients import fluidaudio_client as client
from kokoro_nb.delivery.clients.chained_host import ChainedHost, ChainedUtterance
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.client_utterance import voice_row
from kokoro_nb.models.architecture import STYLE


class FluidAudioHost(ChainedHost):
    """Speaks from a folder as the client does."""

    symbols = client.VOCAB

    def utter(self, request: Request) -> ChainedUtterance:
        """Speak one text of phonemes: see `ChainedHost.utter`."""
        ids = self.ids(request)
        row = voice_row(self.folder, self.contract, request, len(ids) - 2)
        values: dict[str, np.ndarray] = {
            "input_ids": np.array([ids], np.int32),
            "attention_mask": np.ones((1, len(ids)), np.int32),
            "style_s": row[:, STYLE:],
            "style_timbre": row[:, :STYLE],
            "speed": np.array([request.speed], np.float32),
        }
        for name in self.contract.programs:
            values |= self.stage(name)(values)
            if name == client.POST_ALBERT:
                values["pred_dur"] = np.maximum(np.rint(values["duration"].astype(np.float32)), 1).astype(np.int32)
            if name == client.PROSODY:
                values |= {"F0_curve": values["F0"], "N_pred": values["N"]}
        durations = values["pred_dur"].reshape(-1).astype(np.int64)
        return ChainedUtterance(durations, values["audio"].reshape(-1).astype(np.float32), ids, values)
