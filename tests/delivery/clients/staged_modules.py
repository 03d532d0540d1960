"""Two tiny programs with the signatures of a staged client, lowered in seconds."""

import torch

from kokoro_nb.delivery.clients.known_clients import PREDICTOR, SYNTHESIZER
from kokoro_nb.delivery.clients.staged_programs import lowered


class TinyPredictor(torch.nn.Module):
    """Each token lasts two to four frames over the speed, padding none; the ids are the first feature."""

    def forward(self, tokens, text_mask, voice, speed):
        lasting = torch.round((2 + (tokens % 3).float()) / speed).clamp(min=1) * text_mask
        d = torch.nn.functional.pad(tokens[..., None].float() + voice[:, None, :1], (0, 639))
        return lasting.reshape(-1).to(torch.int64), d


class TinySynthesizer(torch.nn.Module):
    """Each frame has the level of its id."""

    def forward(self, tokens, text_mask, indices, d, voice):
        level = (d[:, indices, :1] + 0.001 * voice[:, None, 1:2] + tokens[:, indices, None] * 0) / 200
        return (level + 0 * text_mask.float().sum()).expand(1, -1, 600).reshape(1, 1, -1)


def tiny_pair(contract, folder):
    """Write both programs of a contract into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in ((PREDICTOR, TinyPredictor()), (SYNTHESIZER, TinySynthesizer())):
        (folder / name).write_bytes(lowered(module.eval(), contract.programs[name], contract.ranges))
    return folder
