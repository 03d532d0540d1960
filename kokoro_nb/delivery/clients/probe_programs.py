"""The probe as programs of every form, whose audio is what was fed: ids, row, voice and speed, number by number.

Each number is held for a frame as a level of alternating sign; see `probe`. Where durations come first, a first token
that lasts all the frames which the other numbers need makes room for them; ids, speed and style go from stage to stage
as features, pitch and energy.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.delivery.clients import fluidaudio_client, kokoro_coreml_client, mlpackages
from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.kokoro_coreml_client import Room
from kokoro_nb.delivery.clients.pte_programs import lowered
from kokoro_nb.delivery.clients.react_native_client import PREDICTOR, SYNTHESIZER
from kokoro_nb.delivery.clients.speech_program import program_place, write_speech
from kokoro_nb.models.architecture import SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.padding import held
from kokoro_nb.models.seven_stages import TEXT, SpreadStage
from kokoro_nb.models.speaking import FEATURES
from kokoro_nb.storage import atomic

HOLD = SAMPLES_PER_FRAME  # samples of one number
SILENCE = SAMPLE_RATE // 2  # samples of each of the three silences
FLOOR, RANGE = 0.1, 0.4  # level of the number 0, and how much more 1 has
WHOLE = 1024.0  # ids and rows are divided by it
FASTEST = 8.0  # speeds are divided by it
LAYOUT = 777  # stands in the last column of every row
PADDING = 1023  # stands for a token that a mask hides
BEGIN, END = (1.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 1.0)
QUIET = SILENCE // HOLD  # frames of a silence
REST = 3 * QUIET + len(BEGIN) + len(END) + 5  # frames beside one for each token
BERT, WIDE, NEAR = 768, 256, 128  # widths of the published model


def _levels(numbers: Tensor) -> Tensor:
    """Return numbers of 0 to 1 as levels of alternating sign, (numbers,)."""
    side = 1.0 - 2.0 * (torch.arange(numbers.shape[0]) % 2).to(numbers.dtype)
    return (numbers * RANGE + FLOOR) * side


def _numbers(ids: Tensor, count: Tensor, about: Tensor) -> Tensor:
    """Return the level of each frame, (frames,): silences, ids, and behind them what else was fed.

    Parameters
    ----------
    ids : torch.Tensor, shape (tokens,), float32
    count : torch.Tensor, shape (1,), float32
        How many of them count.
    about : torch.Tensor, shape (4,)
        Row, voice and layout, then the speed.
    """
    front = _levels(torch.cat([torch.tensor(BEGIN), count / WHOLE, ids / WHOLE]))
    back = _levels(torch.cat([about[:3] / WHOLE, about[3:] / FASTEST, torch.tensor(END)]))
    quiet = torch.zeros(QUIET)
    return torch.cat([quiet, front, quiet, back, quiet])


def _spoken_frames(ids: Tensor, about: Tensor, frames: int | Tensor) -> Tensor:
    """Return the level of each frame, (room,), for programs that know no tokens any more.

    Parameters
    ----------
    ids : torch.Tensor, shape (room,)
        The id that each frame belongs to, of which the first lasts `REST` frames more than one.
    about : torch.Tensor, shape (4,)
        Row, voice and layout, then the speed.
    frames : int or torch.Tensor of one number
        How many are valid.
    """
    place, ahead = torch.arange(ids.shape[0]), len(BEGIN) + 1
    tokens, front = frames - REST, place - QUIET
    shifted = ids[(place + REST - QUIET - ahead).clamp(0, ids.shape[0] - 1)]
    among = torch.logical_and(front >= ahead, front < ahead + tokens).to(ids.dtype)
    count = (among * (shifted != PADDING).to(ids.dtype)).sum().reshape(1)
    head = torch.cat([torch.tensor(BEGIN), count / WHOLE])
    last = torch.cat([about[:3] / WHOLE, about[3:] / FASTEST, torch.tensor(END)])
    back = front - (ahead + tokens + QUIET)
    heading = torch.logical_and(front >= 0, front < ahead).to(ids.dtype)
    lasting = torch.logical_and(back >= 0, back < last.shape[0]).to(ids.dtype)
    number = head[front.clamp(0, ahead - 1)] * heading + shifted / WHOLE * among
    number = number + last[back.clamp(0, last.shape[0] - 1)] * lasting
    index = torch.where(back >= 0, back, front).to(ids.dtype)
    side = 1.0 - 2.0 * (index - 2.0 * torch.floor(index / 2.0))
    return (number * RANGE + FLOOR) * side * (heading + among + lasting)


class ProbeSpeech(nn.Module):
    """The whole in one program."""

    output_names = ("waveform", "duration")

    def forward(self, input_ids: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the audio, (600 * frames,), and durations, (tokens,) int64, that add up to its frames."""
        ids = input_ids[0]
        about = torch.cat([style[0, :1], style[0, STYLE : STYLE + 1], style[0, -1:], speed])
        said = _numbers(ids.to(style.dtype), torch.ones_like(ids).sum().reshape(1).to(style.dtype), about)
        place = torch.arange(ids.shape[0])
        return said[:, None].expand(-1, HOLD).reshape(-1), torch.where(place == 0, REST + 1, 1)


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
        ids = torch.where(text_mask, tokens.to(d.dtype), float(PADDING))[0]
        about = torch.stack([voice[0, 0], d[0, 0, 1], voice[0, 255], d[0, 0, 0]])
        said = _numbers(ids, text_mask.sum().to(d.dtype).reshape(1), about)
        place = torch.arange(indices.shape[0]).clamp(max=said.shape[0] - 1)
        return said[place][:, None].expand(-1, SAMPLES_PER_FRAME).reshape(1, 1, -1)


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
        said = held(_spoken_frames(ids, _about(style_timbre[0, :1], N_pred[0]), ids.shape[0])[None, None], 120)
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
        said = _spoken_frames(x_pre[0, 0, ::2], _about(ref_s[0, :1], x_pre[0, 1]), frames)
        return held(said[None], 600) + 0.0 * har.mean()


def probe_program(contract: ClientContract, room: Room) -> Path:
    """Return the probe, out of the cache or made now: the same file for all that take ONNX, or the folder of several.

    Parameters
    ----------
    contract : ClientContract
    room : Room
        The sizes that have to be there, where the client has programs of several.
    """
    if contract.form == "ONNX":
        path = program_place("probe", ("onnx",)).with_suffix(".onnx")
        if not path.is_file():
            with atomic(path) as draft:
                write_speech(ProbeSpeech(), draft)
        return path
    package = "executorch" if contract.form == "ExecuTorch" else "coremltools"
    folder = program_place(f"probe of {contract.client}", (package,))
    for name in room.programs if contract.client == "kokoro-coreml" else contract.programs:
        if not (folder / name).exists():
            with atomic(folder / name) as draft:
                _write(name, contract, draft)
    return folder


_MODULES: dict[str, type[nn.Module]] = {  # by a part of the program's path
    PREDICTOR: ProbePredictor,
    SYNTHESIZER: ProbeSynthesizer,
    fluidaudio_client.ALBERT: ProbeAlbert,
    fluidaudio_client.POST_ALBERT: ProbePostAlbert,
    fluidaudio_client.ALIGNMENT: SpreadStage,
    fluidaudio_client.PROSODY: ProbePitch,
    fluidaudio_client.NOISE: ProbeSources,
    fluidaudio_client.VOCODER: ProbeVocoder,
    fluidaudio_client.TAIL: ProbeTail,
    "kokoro_duration": ProbeDurations,
    "kokoro_f0ntrain": ProbePitch,
    "kokoro_decoder_pre": ProbeTrunk,
    "kokoro_decoder_har": ProbeGenerator,
}


def _write(name: str, contract: ClientContract, path: Path) -> None:
    module = next(kind for part, kind in _MODULES.items() if part in name)().eval()
    if contract.form == "ExecuTorch":
        path.write_bytes(lowered(module, contract.programs[name], contract.ranges))
    elif contract.client == "fluidaudio":
        signature = fluidaudio_client.programs(BERT, TEXT, WIDE, NEAR)[name]
        mlpackages.package(module, signature, contract.ranges, True, path)
    else:
        mlpackages.package_of_size(module, kokoro_coreml_client.programs(TEXT)[name], {}, True, path)
