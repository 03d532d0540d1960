"""The probe as Core ML packages: FluidAudio's seven of any length, kokoro-coreml's four by size.

A first token that lasts all the frames which the other numbers need makes room for them; ids, speed and style go from
stage to stage as features, pitch and energy.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.delivery.clients import fluidaudio_client, kokoro_coreml_client, mlpackage_stages, sized_packages
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.probe_form import PADDING, REST, spoken_frames
from kokoro_nb.delivery.clients.program_cache import program_place
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.open_length import held
from kokoro_nb.models.seven_stages import SpreadStage
from kokoro_nb.models.sized_stages import TEXT
from kokoro_nb.models.staged_speech import FEATURES
from kokoro_nb.storage import atomic

BERT, WIDE, NEAR = 768, 256, 128  # widths of the published model


def _durations(ids: Tensor, mask: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return frames, (1, tokens), features with the id and the speed, (1, tokens, 640), and the text's, (1, 512, T)."""
    there = mask.to(torch.float32)
    first = (torch.arange(ids.shape[1]) == 0).to(torch.float32)[None]
    known = ids.to(torch.float32) * there + PADDING * (1.0 - there)
    d = F.pad(torch.stack([known, speed + 0.0 * known], dim=2), (0, FEATURES - 2))
    return (REST * first + 1.0) * there, d, (0.0 * known)[:, None].expand(-1, TEXT, -1) * 1.0


def _pitch(en: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
    """Return the id of each frame as its pitch, and speed, voice and layout as the first three energies."""
    place = torch.arange(2 * en.shape[2])
    numbers = (en[:, 1, :1], style[:, :1], style[:, STYLE - 1 :])
    n = [number * (place == at).to(torch.float32) for at, number in enumerate(numbers)]
    return held(en[:, 0], 2), n[0] + n[1] + n[2]


def _about(row: Tensor, n: Tensor) -> Tensor:
    return torch.cat([row, n[1:3], n[:1]])


class ProbeAlbert(nn.Module):
    """Nothing of what is read."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return (1, tokens, 768)."""
        return (0.0 * input_ids.to(torch.float32) * attention_mask)[..., None].expand(-1, -1, BERT) * 1.0


class ProbePostAlbert(nn.Module):
    """Ids, speed and the number of frames."""

    def forward(
        self, bert_dur: Tensor, input_ids: Tensor, style_s: Tensor, speed: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, ...]:
        """Return durations before they are rounded, and both kinds of features."""
        lasting, d, t_en = _durations(input_ids, attention_mask, speed)
        return lasting + 0.0 * bert_dur[..., 0] + 0.0 * style_s[:, :1], d, t_en


class ProbePitch(nn.Module):
    """Ids as pitch, the rest as energy."""

    output_names = ("F0_pred", "N_pred")

    def forward(self, en: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """Return (1, 2 * frames) twice."""
        return _pitch(en, s)


class ProbeSources(nn.Module):
    """Nothing of what is read."""

    def forward(self, F0_curve: Tensor, style_timbre: Tensor) -> tuple[Tensor, Tensor]:
        """Return zeros for both rates."""
        nothing = 0.0 * F0_curve[:, None] + 0.0 * style_timbre[:, None, :1]
        slow, fast = held(nothing, 10), held(nothing, 60)
        fast = torch.cat([fast, fast[..., :1]], dim=2)
        return slow.expand(-1, WIDE, -1) * 1.0, fast.expand(-1, NEAR, -1) * 1.0


class ProbeVocoder(nn.Module):
    """The levels, held."""

    def forward(
        self,
        asr: Tensor,
        F0_curve: Tensor,
        N_pred: Tensor,
        x_source_0: Tensor,
        x_source_1: Tensor,
        style_timbre: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return a number that the host ignores, and (1, 128, 120 * frames + 1)."""
        ids = F0_curve[0].reshape(-1, 2)[:, 0]
        said = held(spoken_frames(ids, _about(style_timbre[0, :1], N_pred[0]), ids.shape[0])[None, None], 120)
        said = torch.cat([said, said[..., -1:]], dim=2)
        unread = 0.0 * (asr.mean() + x_source_0.mean() + x_source_1.mean()).reshape(1)
        return unread, said.expand(-1, NEAR, -1) + unread


class ProbeTail(nn.Module):
    """The audio."""

    def forward(self, x_pre: Tensor) -> Tensor:
        """Return (600 * frames,)."""
        return held(x_pre[0, :1, :-1], 5).reshape(-1)


class ProbeDurations(nn.Module):
    """The first of four stages: as `ProbePostAlbert`."""

    output_names = ("pred_dur", "d", "t_en", "s", "ref_s_out")

    def forward(self, input_ids: Tensor, attention_mask: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, ...]:
        """Return durations, both kinds of features, half of the style, and the style."""
        lasting, d, t_en = _durations(input_ids, attention_mask, speed)
        return lasting.to(torch.int32), d, t_en, ref_s[:, STYLE:] * 1.0, ref_s * 1.0


class ProbeTrunk(nn.Module):
    """Pitch and energy, handed on."""

    output_names = ("x_pre",)

    def forward(self, asr: Tensor, f0: Tensor, n_input: Tensor, ref_s: Tensor, mask: Tensor) -> Tensor:
        """Return (1, 512, 2 * frames)."""
        unread = 0.0 * (asr.mean() + ref_s.mean() + mask.mean())
        return F.pad(torch.cat([f0, n_input], dim=1), (0, 0, 0, TEXT - 2)) + unread


class ProbeGenerator(nn.Module):
    """The audio."""

    output_names = ("waveform",)

    def forward(self, x_pre: Tensor, ref_s: Tensor, har: Tensor, mask: Tensor) -> Tensor:
        """Return (1, 600 * frames)."""
        frames = torch.round(mask[..., ::2].sum()).to(torch.int32)
        said = spoken_frames(x_pre[0, 0, ::2], _about(ref_s[0, :1], x_pre[0, 1]), frames)
        return held(said[None], 600) + 0.0 * har.mean()


_SEVEN: dict[str, type[nn.Module]] = {
    fluidaudio_client.ALBERT: ProbeAlbert,
    fluidaudio_client.POST_ALBERT: ProbePostAlbert,
    fluidaudio_client.ALIGNMENT: SpreadStage,
    fluidaudio_client.NOISE: ProbeSources,
    fluidaudio_client.VOCODER: ProbeVocoder,
    fluidaudio_client.TAIL: ProbeTail,
    fluidaudio_client.PROSODY: ProbePitch,
}


def probe_seven(contract: ClientContract) -> Path:
    """Return the folder of FluidAudio's packages, out of the cache or made now."""
    folder = program_place(f"probe of {contract.client}", ("coremltools",))
    if not folder.is_dir():
        signatures = fluidaudio_client.programs(BERT, TEXT, WIDE, NEAR)
        with atomic(folder) as draft:
            draft.mkdir(parents=True)
            for name, module in _SEVEN.items():
                mlpackage_stages.package(module().eval(), signatures[name], contract.ranges, True, draft / name)
    return folder


def probe_sizes(contract: ClientContract, room: sized_packages.Room) -> Path:
    """Return the folder of kokoro-coreml's packages, of which those of `room` are there."""
    folder = program_place(f"probe of {contract.client}", ("coremltools",))
    signatures = kokoro_coreml_client.programs(TEXT)
    kinds = {"duration": ProbeDurations, "f0ntrain": ProbePitch, "decoder_pre": ProbeTrunk}
    for name in room.programs:
        if not (folder / name).is_dir():
            module = next((kind for word, kind in kinds.items() if word in name), ProbeGenerator)
            sized_packages.package(module(), signatures[name], True, folder / name)
    return folder
