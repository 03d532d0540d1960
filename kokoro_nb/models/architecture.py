"""Kokoro's architecture at full size and narrow, both out of the `kokoro` package's own classes."""

import io
import json
import math
from importlib import resources
from typing import Any

import torch
from kokoro.istftnet import AdainResBlk1d, Decoder, Generator
from kokoro.model import KModel
from kokoro.modules import CustomAlbert, ProsodyPredictor, TextEncoder
from torch import nn
from torch.nn.utils import weight_norm
from transformers import AlbertConfig

SAMPLE_RATE = 24_000  # Hz
SAMPLES_PER_FRAME = 600  # one frame of `asr`: f0_upsamp (300) times the two F0 values per frame
FRAMES_PER_SECOND = SAMPLE_RATE // SAMPLES_PER_FRAME  # 40
HARMONICS = 9  # the fundamental and eight overtones: SineGen.dim
STYLE = 128  # ref_s[:, :128] styles the decoder, ref_s[:, 128:] the predictor
MAX_PHONEMES = 510  # 512 positions less the two pad tokens


def full_config() -> dict[str, Any]:
    """Return the configuration of the published Kokoro-82M, in the form of its ``config.json``."""
    return json.loads(resources.files("kokoro_nb.models").joinpath("kokoro_82m.json").read_text(encoding="utf-8"))


def narrow_config(width: int = 144) -> dict[str, Any]:
    """Return the configuration of the narrow model: the same layers, kernels and rates, fewer channels.

    Parameters
    ----------
    width : int
        Channels of the decoder's blocks, in place of 1024; every other width follows from it. A multiple of 36.
    """
    config = full_config()
    hidden, initial = 5 * width // 9, 8 * width // 9
    config["hidden_dim"] = config["max_conv_dim"] = hidden
    config["istftnet"]["upsample_initial_channel"] = initial
    sizes = {"hidden_size": hidden, "embedding_size": hidden, "intermediate_size": 2 * hidden}
    config["plbert"] |= {**sizes, "num_attention_heads": 4, "num_hidden_layers": 2}
    config["decoder_width"], config["asr_residual"] = width, width // 6
    return config


class NarrowDecoder(Decoder):
    """Kokoro's decoder at any width; `forward` is the package's own.

    The package's constructor fixes 1024, 512 and 64 channels, while its `forward` does not depend on them.
    """

    def __init__(self, dim_in: int, style_dim: int, width: int, asr_residual: int, **istftnet: Any):
        nn.Module.__init__(self)
        inner, last = width + 2 + asr_residual, istftnet["upsample_initial_channel"]
        self.encode = AdainResBlk1d(dim_in + 2, width, style_dim)
        self.decode = nn.ModuleList(AdainResBlk1d(inner, width, style_dim) for _ in range(3))
        self.decode.append(AdainResBlk1d(inner, last, style_dim, upsample=True))
        self.F0_conv = weight_norm(nn.Conv1d(1, 1, kernel_size=3, stride=2, padding=1))
        self.N_conv = weight_norm(nn.Conv1d(1, 1, kernel_size=3, stride=2, padding=1))
        self.asr_res = nn.Sequential(weight_norm(nn.Conv1d(dim_in, asr_residual, kernel_size=1)))
        self.generator = Generator(style_dim, **istftnet)


class NarrowKModel(KModel):
    """`KModel` with a `NarrowDecoder`; every other part and each `forward` are the package's own."""

    def __init__(self, config: dict[str, Any]):
        nn.Module.__init__(self)
        self.repo_id, self.vocab = "", config["vocab"]
        self.bert = CustomAlbert(AlbertConfig(vocab_size=config["n_token"], **config["plbert"]))
        self.bert_encoder = nn.Linear(self.bert.config.hidden_size, config["hidden_dim"])
        self.context_length = self.bert.config.max_position_embeddings
        style, hidden, layers = config["style_dim"], config["hidden_dim"], config["n_layer"]
        self.predictor = ProsodyPredictor(style, hidden, layers, config["max_dur"], config["dropout"])
        self.text_encoder = TextEncoder(hidden, config["text_encoder_kernel_size"], layers, config["n_token"])
        widths = config["decoder_width"], config["asr_residual"]
        self.decoder = NarrowDecoder(hidden, style, *widths, **config["istftnet"])


def build(config: dict[str, Any]) -> KModel:
    """Build the model that `config` describes, in eval mode and without gradients; its weights mean nothing yet.

    Parameters
    ----------
    config : dict
        The content of a ``config.json``. With the key ``decoder_width`` the decoder is narrow.

    Returns
    -------
    kokoro.model.KModel
    """
    if "decoder_width" in config:
        model: KModel = NarrowKModel(config)
    else:
        nothing = io.BytesIO()
        torch.save({}, nothing)
        nothing.seek(0)
        model = KModel(repo_id="", config=config, model=nothing)
    return model.eval().requires_grad_(False)


def initialise(model: KModel, seed: int) -> None:
    """Fill `model` with seeded random weights that keep the audio bounded and every branch alive.

    The constructors leave some projections at zero or nearly so (AdaIN's style projections, LayerNorm's offsets), and
    then a wrong operator behind them cannot be seen. Here every weight is drawn, scaled by its fan-in, and the outputs
    are set to speech. How closely depends on the seed: phonemes last two to seven frames with most seeds (one to ten
    were seen), all nearly alike within an utterance; almost all of it is voiced, mostly at 40 to 260 Hz; the audio
    peaks at 0.1 to 0.7 of full scale.

    Parameters
    ----------
    model : kokoro.model.KModel
        Changed in place. The affine parameters of InstanceNorm, absent from the published checkpoint, are left alone.
    seed : int
        The same seed gives the same weights.
    """
    draw = torch.Generator().manual_seed(seed)
    instance_norms = {name for name, module in model.named_modules() if isinstance(module, nn.InstanceNorm1d)}
    for name, parameter in sorted(model.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        if owner in instance_norms:  # absent from the published checkpoint: they stay at one and zero
            continue
        normal = torch.randn(parameter.shape, generator=draw)
        if leaf in ("weight_g", "gamma") or (leaf == "weight" and owner.lower().endswith("norm")):  # gains
            value = 1 + 0.1 * normal
        elif "alpha" in name:  # Snake's frequency: divides, so it stays away from zero
            value = 1 + 0.2 * normal.clamp(-2, 2)
        elif parameter.dim() < 2:
            value = 0.1 * normal
        else:
            value = normal / math.sqrt(parameter[0].numel())
        parameter.data.copy_(value)
    _set_prosody(model, draw)
    _set_output(model)


@torch.no_grad()
def _set_prosody(model: KModel, draw: torch.Generator) -> None:
    """Scale the predictor's outputs to speech: durations in frames, F0 in Hz, N as a log energy.

    The durations are calibrated on one pass over all symbols: with random weights alone the 50 sigmoids hover about a
    half, and every phoneme lasts 25 frames.
    """
    predictor, logits = model.predictor, model.predictor.duration_proj.linear_layer
    ids = torch.tensor([[0, *model.vocab.values(), 0]])
    lengths, nothing = torch.tensor([ids.shape[1]]), torch.zeros_like(ids, dtype=torch.bool)
    encoded = model.bert_encoder(model.bert(ids, attention_mask=torch.ones_like(ids))).transpose(-1, -2)
    style = 0.3 * torch.randn(1, STYLE, generator=draw)
    hidden, _ = predictor.lstm(predictor.text_encoder(encoded, style, lengths, nothing))
    direction = 1.5 * logits.weight[0]
    logits.weight.data += direction
    logits.bias.data += math.log(3 / 47) - (hidden @ direction).mean()  # 50 sigmoids that add up to about 3 frames
    for head, mean, spread in ((predictor.F0_proj, 120.0, 60.0), (predictor.N_proj, 0.0, 1.0)):
        head.weight.data *= spread
        head.bias.data.fill_(mean)


def _set_output(model: KModel) -> None:
    """Lower the log-magnitude that the generator exponentiates, so that the audio stays below full scale."""
    conv = model.decoder.generator.conv_post
    bins = model.decoder.generator.post_n_fft // 2 + 1
    conv.weight_g.data[:bins] *= 0.25
    conv.bias.data[:bins] -= 2.0
