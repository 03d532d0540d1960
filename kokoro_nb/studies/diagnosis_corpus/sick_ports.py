"""Modules that were rewritten for an export, each beside what it was rewritten from: a program, inputs, the reference.

Here no runtime is at fault: the rewriting is, and every operator of the export is right by itself. The reference is a
module and its own inputs; where it is shorter than the program, the program's buffer is longer than what is in it.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.studies.diagnosis_corpus import speech_networks as networks
from kokoro_nb.studies.diagnosis_corpus.healthy_programs import Program, seeded

Port = tuple[Any, Mapping[str, Any], Program]


class TokenLstm(nn.Module):
    """Embedding and an LSTM in both directions: (1, tokens) -> (1, tokens, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 16, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the features of the tokens."""
        return self.lstm(self.embedding(ids))[0]


class LeftPadded(nn.Module):
    """A transposed convolution whose output padding is imitated by a zero before its input."""

    def __init__(self, right: nn.ConvTranspose1d) -> None:
        super().__init__()
        self.weight, self.bias, self.groups = right.weight, right.bias, right.groups

    def forward(self, x: Tensor) -> Tensor:
        """Return (1, channels, 2 length) of (1, channels, length)."""
        made = F.conv_transpose1d(F.pad(x, (1, 0)), self.weight, self.bias, stride=2, padding=1, groups=self.groups)
        return made[..., 1:]


class CountedPadding(nn.Module):
    """PocketTTS' conditioning with a length of its whole room, padding included."""

    output_names = ("cache", "position")

    def __init__(self, right: nn.Module, room: int) -> None:
        super().__init__()
        self.transformer, self.write = right.transformer, right.write
        self.register_buffer("room", torch.tensor([room]))

    def forward(self, embeddings: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Read all embeddings, whatever their number is."""
        from kokoro_nb.models.pocket.transformer import run

        room: Any = self.room
        _, cache = run(self.transformer, embeddings, cache, position, room, self.write)  # type: ignore[arg-type]
        return cache, position + room


def backward_lstm(seed: int = 0) -> Port:
    """An LSTM in both directions over padding, as in soniqo/speech-swift#173."""
    module, inputs = seeded(seed, TokenLstm, lambda: {"ids": torch.randint(1, 50, (1, 10))})
    return module, {"ids": F.pad(inputs["ids"], (0, 14))}, (module, inputs)


def padded_norm(seed: int = 0) -> Port:
    """Instance norm over a buffer that is longer than the speech, as in pytorch/pytorch#81985."""

    def inputs() -> dict[str, Tensor]:
        return {"x": torch.randn(1, 32, 24) + 1, "style": torch.randn(1, 16)}

    module, inputs_ = seeded(seed, networks.AdaptiveBlock, inputs)
    return module, {**inputs_, "x": F.pad(inputs_["x"], (0, 168))}, (module, inputs_)


def static_bucket(seed: int = 0) -> Port:
    """Kokoro's decoder with noise made of its signal, in a buffer eight times as long as the speech."""
    from kokoro_nb.backends.exported import export_program
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.models.patches import EXPORT_PATCHES, patched
    from kokoro_nb.models.stages import DecoderStage
    from kokoro_nb.studies.decoder import TEXT

    kokoro = load_model("narrow", seed)
    inputs = capture(kokoro, TEXT, seed=seed).decoder_inputs(6)
    given = {name: inputs[name] for name in ("asr", "f0", "n", "s", "harmonic_noise")}
    longer = {name: value if name == "s" else F.pad(value, (0, 7 * value.shape[-1])) for name, value in given.items()}
    noise = given["harmonic_noise"]  # not read, as the noise is made of the signal
    longer["harmonic_noise"] = F.pad(noise, (0, 0, 0, 7 * noise.shape[1]))
    names = [name for name in EXPORT_PATCHES if name != "explicit_noise"]
    with patched(kokoro.model, (*names, "signal_noise")):
        stage = DecoderStage(kokoro.model.decoder)
        return export_program(stage, longer), longer, (export_program(stage, given), given)


def unweighted_istft(seed: int = 0) -> Port:
    """An inverse STFT without the sum of the windows, 1.5 times too loud: as in FluidInference/FluidAudio#852."""
    right, inputs = seeded(seed, networks.VocosLike, lambda: {"mel": torch.randn(1, 20, 24)})
    port, _ = seeded(seed, networks.VocosLike, dict)
    port.inverse.weighted = False
    return port, inputs, (right, inputs)


def left_padded_transpose(seed: int = 0) -> Port:
    """Output padding imitated by padding at the left, a frame late: as in Blaizzy/mlx-audio#859."""

    def make() -> nn.Module:
        up = nn.ConvTranspose1d(8, 8, 3, stride=2, padding=1, output_padding=1, groups=8)
        return nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), up, nn.Conv1d(8, 4, 3, padding=1))

    right, inputs = seeded(seed, make, lambda: {"input": torch.randn(1, 8, 28)})
    first, up, last = right
    return nn.Sequential(first, LeftPadded(up), last).eval(), inputs, (right, inputs)


def counted_padding(seed: int = 0) -> Port:
    """PocketTTS' conditioning in a padded buffer, whose padding moves the position: recorded by an earlier port."""
    from kokoro_nb.models.pocket.pocket_architecture import load_pocket
    from kokoro_nb.models.pocket.pocket_steps import host_of, step_modules

    model = load_pocket(seed=seed)
    step = step_modules(model, host_of(model, capacity=16, frames=4, room=6))["conditioning"]
    draw = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(step.inputs["embeddings"].shape, generator=draw)
    embeddings[:, 4:] = 0
    given = {**step.inputs, "embeddings": embeddings, "length": torch.tensor([4])}
    counted = {name: value for name, value in given.items() if name != "length"}
    return CountedPadding(step.module, 6).eval(), counted, (step.module, given)
