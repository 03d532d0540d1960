"""The probe as two ExecuTorch programs: durations for as many frames as it has numbers, then those numbers as audio."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.program_cache import program_place
from kokoro_nb.delivery.clients.pte_programs import lowered
from kokoro_nb.delivery.clients.react_native_client import PREDICTOR, SYNTHESIZER
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.staged_speech import FEATURES
from kokoro_nb.storage import atomic


class ProbePredictor(nn.Module):
    """As many frames as the audio holds numbers and silences; the speed and the style are handed on as features.

    Parameters
    ----------
    frames : int
        Of the audio beside one for each token.
    """

    def __init__(self, frames: int):
        super().__init__()
        self.frames = frames

    def forward(self, tokens: Tensor, text_mask: Tensor, voice: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Return one frame a token, and the rest at the first; the speed and the style's first value as features."""
        place = torch.arange(tokens.shape[1])
        seen = torch.cat([speed, voice[0, :1]]) + 0.0 * text_mask.sum()
        features = F.pad(seen, (0, FEATURES - 2)).expand(1, 1, FEATURES) + 0.0 * tokens[..., None]
        return torch.where(place == 0, self.frames + 1, 1), features


class ProbeSynthesizer(nn.Module):
    """What was fed, each number for a frame: see `probe`.

    Parameters
    ----------
    begin, end : tuple of float
        The markers.
    whole, fastest : float
        What ids and rows, and the speed, are divided by.
    floor, span : float
        Level of the number 0, and how much more 1 has.
    silence : int
        Frames of each of the three silences.
    padding : float
        The id that stands for a token that the mask hides.
    """

    def __init__(
        self,
        begin: tuple[float, ...],
        end: tuple[float, ...],
        whole: float,
        fastest: float,
        floor: float,
        span: float,
        silence: int,
        padding: float,
    ):
        super().__init__()
        self.begin, self.end, self.whole, self.fastest = begin, end, whole, fastest
        self.floor, self.span, self.silence, self.padding = floor, span, silence, padding

    def forward(self, tokens: Tensor, text_mask: Tensor, indices: Tensor, d: Tensor, voice: Tensor) -> Tensor:
        """Return the audio, (1, 1, 600 * frames)."""
        ids = torch.where(text_mask, tokens.to(d.dtype), self.padding)[0] / self.whole
        count = text_mask.sum().to(d.dtype).reshape(1) / self.whole
        row = torch.stack([voice[0, 0], d[0, 0, 1], voice[0, 255]]) / self.whole
        front = self._levels(torch.cat([torch.tensor(self.begin), count, ids]))
        back = self._levels(torch.cat([row, d[0, 0, :1] / self.fastest, torch.tensor(self.end)]))
        quiet = torch.zeros(self.silence)
        levels = torch.cat([quiet, front, quiet, back, quiet])
        place = torch.arange(indices.shape[0]).clamp(max=levels.shape[0] - 1)
        return levels[place][:, None].expand(-1, SAMPLES_PER_FRAME).reshape(1, 1, -1)

    def _levels(self, numbers: Tensor) -> Tensor:
        side = 1.0 - 2.0 * (torch.arange(numbers.shape[0]) % 2).to(numbers.dtype)
        return (numbers * self.span + self.floor) * side


def probe_pair(contract: ClientContract, predictor: nn.Module, synthesizer: nn.Module) -> Path:
    """Return the folder of both programs, out of the cache or made now."""
    folder = program_place(f"probe of {contract.client}", ("executorch",))
    if not folder.is_dir():
        with atomic(folder) as draft:
            draft.mkdir(parents=True)
            for name, module in ((PREDICTOR, predictor), (SYNTHESIZER, synthesizer)):
                (draft / name).write_bytes(lowered(module.eval(), contract.programs[name], contract.ranges))
    return folder
