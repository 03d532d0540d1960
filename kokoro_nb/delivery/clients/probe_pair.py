"""The probe as two ExecuTorch programs: durations for as many frames as it has numbers, then those numbers as audio."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.probe_form import BEGIN, END, FASTEST, PADDING, QUIET, REST, WHOLE, levels
from kokoro_nb.delivery.clients.program_cache import program_place
from kokoro_nb.delivery.clients.pte_programs import lowered
from kokoro_nb.delivery.clients.react_native_client import PREDICTOR, SYNTHESIZER
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.staged_speech import FEATURES
from kokoro_nb.storage import atomic


class ProbePredictor(nn.Module):
    """As many frames as the audio holds numbers and silences; the speed and the style are handed on as features."""

    def forward(self, tokens: Tensor, text_mask: Tensor, voice: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Return one frame a token, and the rest at the first; the speed and the style's first value as features."""
        place = torch.arange(tokens.shape[1])
        seen = torch.cat([speed, voice[0, :1]]) + 0.0 * text_mask.sum()
        features = F.pad(seen, (0, FEATURES - 2)).expand(1, 1, FEATURES) + 0.0 * tokens[..., None]
        return torch.where(place == 0, REST + 1, 1), features


class ProbeSynthesizer(nn.Module):
    """What was fed, each number for a frame."""

    def forward(self, tokens: Tensor, text_mask: Tensor, indices: Tensor, d: Tensor, voice: Tensor) -> Tensor:
        """Return the audio, (1, 1, 600 * frames)."""
        ids = torch.where(text_mask, tokens.to(d.dtype), float(PADDING))[0] / WHOLE
        count = text_mask.sum().to(d.dtype).reshape(1) / WHOLE
        row = torch.stack([voice[0, 0], d[0, 0, 1], voice[0, 255]]) / WHOLE
        front = levels(torch.cat([torch.tensor(BEGIN), count, ids]))
        back = levels(torch.cat([row, d[0, 0, :1] / FASTEST, torch.tensor(END)]))
        quiet = torch.zeros(QUIET)
        said = torch.cat([quiet, front, quiet, back, quiet])
        place = torch.arange(indices.shape[0]).clamp(max=said.shape[0] - 1)
        return said[place][:, None].expand(-1, SAMPLES_PER_FRAME).reshape(1, 1, -1)


def probe_pair(contract: ClientContract) -> Path:
    """Return the folder of both programs, out of the cache or made now."""
    folder = program_place(f"probe of {contract.client}", ("executorch",))
    if not folder.is_dir():
        with atomic(folder) as draft:
            draft.mkdir(parents=True)
            for name, module in ((PREDICTOR, ProbePredictor()), (SYNTHESIZER, ProbeSynthesizer())):
                (draft / name).write_bytes(lowered(module.eval(), contract.programs[name], contract.ranges))
    return folder
