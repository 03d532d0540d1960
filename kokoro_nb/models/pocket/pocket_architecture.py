"""PocketTTS by its package's own constructors: offline, small or at full size, or with published weights.

The package fetches weights and a tokenizer when it is given none. Here it is given a configuration without weights, a
tokenizer trained on the spot, and seeded random weights in which nothing is dead.
"""

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from pocket_tts import TTSModel
from pocket_tts.modules.mlp import SimpleMLPAdaLN
from pocket_tts.modules.transformer import StreamingTransformer
from pocket_tts.utils.config import CONFIGS_DIR, Config
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.weights import hub_file, label_weights

HUB = "kyutai/pocket-tts"  # the repository of the package's default model
_HF = "hf://"
NARROW, SEEDED = "narrow", "seeded"  # as Kokoro's: few channels, and the full size
TEXT = (
    "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. It's easy to tell the "
    "depth of a well. These days a chicken leg is a rare dish. Rice is often served in round bowls. The juice of "
    "lemons makes fine punch. The box was thrown beside the parked truck. The hogs were fed chopped corn and garbage. "
    "Four hours of steady work faced us. A large size in stockings is hard to sell."
)  # Harvard sentences, list 1 (IEEE Recommended Practice for Speech Quality Measurements, 1969)
LEARNT = 320  # pieces that the tokenizer learns: 256 bytes, so that it reads any text, and some of the letters above


def small_config() -> dict[str, Any]:
    """Return a configuration of some 0.1 M parameters: every part and rate of the default model, few channels.

    Attention in Mimi's decoder reaches back 20 positions, a little over one frame of 16, so that a short run already
    drops what is too old.
    """
    transformer = {"d_model": 32, "num_heads": 2, "num_layers": 2, "context": 20, "dim_feedforward": 64}
    seanet = {"dimension": 32, "channels": 1, "n_filters": 4, "n_residual_layers": 1, "ratios": [6, 5, 4]}
    kernels = {"kernel_size": 7, "residual_kernel_size": 3, "last_kernel_size": 3, "dilation_base": 2, "compress": 2}
    return {
        "flow_lm": {
            "dtype": "float32",
            "insert_bos_before_voice": True,
            "flow": {"dim": 32, "depth": 2},
            "transformer": {"d_model": 48, "hidden_scale": 2, "max_period": 10_000, "num_heads": 3, "num_layers": 2},
            "lookup_table": {"dim": 48, "n_bins": LEARNT, "tokenizer": "sentencepiece", "tokenizer_path": ""},
        },
        "mimi": {
            **{"dtype": "float32", "sample_rate": 24_000, "channels": 1, "frame_rate": 12.5},
            **{"inner_dim": 8, "outer_dim": 32, "quantizer": {"dimension": 8, "output_dimension": 32}},
            "seanet": {**seanet, **kernels, "pad_mode": "constant"},
            "transformer": {**transformer, "layer_scale": 0.01, "input_dimension": 32, "output_dimensions": [32]},
        },
    }


def _default_config() -> dict[str, Any]:
    """Return the configuration of the package's default model."""
    return yaml.safe_load((CONFIGS_DIR / "english.yaml").read_text(encoding="utf-8"))


def load_pocket(config: str | dict[str, Any] = NARROW, seed: int = 0) -> TTSModel:
    """Build PocketTTS with seeded random weights; nothing is fetched.

    Parameters
    ----------
    config : str or dict
        ``narrow``, few channels; ``seeded``, the package's default at full size; or the content of a configuration.
        Where it says where weights and a tokenizer are, that is passed over.
    seed : int
        The same seed gives the same weights.

    Returns
    -------
    pocket_tts.TTSModel
        In eval mode and without gradients.
    """
    name = config if isinstance(config, str) else "own configuration"
    if isinstance(config, str):
        config = {NARROW: small_config, SEEDED: _default_config}[config]()
    model = _build(config).eval().requires_grad_(False)
    initialise(model, seed)
    label_weights(model, f"PocketTTS {name}", f"random, seed {seed}")
    return model


def train_tokenizer(pieces: int, folder: Path) -> Path:
    """Train a small sentencepiece tokenizer that reads any text, byte by byte where it must.

    Parameters
    ----------
    pieces : int
        Size of the vocabulary, at least 320. What goes beyond that are control symbols that no text contains, so that
        the table of embeddings has the size that the configuration says.
    folder : Path
        Where to put the model.

    Returns
    -------
    Path
        The model file.
    """
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split(". ")),
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=pieces,
        byte_fallback=True,
        control_symbols=[f"<{i}>" for i in range(pieces - LEARNT)],
        num_threads=1,
        minloglevel=2,
    )
    return folder / "tokenizer.model"


@torch.no_grad()
def initialise(model: TTSModel, seed: int) -> None:
    """Fill `model` with seeded random weights that keep every branch alive.

    The constructors leave projections at zero (``speaker_proj_weight``), gains at one, offsets at zero and the residual
    branches of Mimi at a hundredth; what goes wrong behind them cannot be seen. Here each weight is drawn and scaled by
    the number of inputs that it sums, gains around one, Mimi's scales of residual branches around a half, offsets at a
    tenth. The last matrix of each residual branch is divided by the root of the number of branches, as in GPT-2:
    without that, rounding grows a thousandfold over fifty frames at full size.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Changed in place.
    seed : int
        The same seed gives the same weights.
    """
    draw = torch.Generator().manual_seed(seed)
    transposed = {name for name, part in model.named_modules() if isinstance(part, nn.ConvTranspose1d)}
    tables = {name for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
    for name, parameter in sorted(model.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        normal = torch.randn(parameter.shape, generator=draw)
        if leaf == "scale":  # LayerScale
            value = 0.5 + 0.1 * normal
        elif leaf == "alpha" or (leaf == "weight" and parameter.dim() == 1):  # RMSNorm, LayerNorm
            value = 1 + 0.1 * normal
        elif leaf == "bias":
            value = 0.1 * normal
        elif owner in tables or leaf in ("bos_emb", "bos_before_voice"):
            value = normal
        elif owner in transposed:  # (in, out / groups, kernel): one sample sums two strides' worth of each input
            module = model.get_submodule(owner)
            value = normal / math.sqrt(2 * module.in_channels // module.groups)
        else:
            value = normal / math.sqrt(parameter[0].numel())
        parameter.copy_(value)
    for matrix, branches in _branches(model):
        matrix.div_(math.sqrt(branches))
    # the scale of the latents, one and zero until it is trained; a stop that comes after some ten frames, mostly; audio
    # within full scale, mostly
    model.flow_lm.emb_std.copy_(1 + 0.2 * torch.rand(model.flow_lm.emb_std.shape, generator=draw))
    model.flow_lm.emb_mean.copy_(0.2 * torch.randn(model.flow_lm.emb_mean.shape, generator=draw))
    model.flow_lm.out_eos.bias.fill_(model.eos_threshold - 0.5)
    model.mimi.decoder.model[-1].conv.weight.mul_(0.15)


def _branches(model: TTSModel) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield the last matrix of each residual branch of transformers and flow network, and how many are added up."""
    for part in model.modules():
        if isinstance(part, StreamingTransformer):
            for layer in part.layers:
                yield from ((last.weight, 2 * len(part.layers)) for last in (layer.self_attn.out_proj, layer.linear2))
        elif isinstance(part, SimpleMLPAdaLN):
            yield from ((block.mlp[-1].weight, len(part.res_blocks)) for block in part.res_blocks)


def _build(content: dict[str, Any]) -> TTSModel:
    """Have the package build the model from a file, as its users do, with a tokenizer of ours and without weights."""
    with tempfile.TemporaryDirectory() as name:
        path, table = Path(name) / "config.yaml", content["flow_lm"]["lookup_table"]
        tokenizer = {"tokenizer": "sentencepiece", "tokenizer_path": str(train_tokenizer(table["n_bins"], path.parent))}
        language = {**content["flow_lm"], "lookup_table": {**table, **tokenizer}, "weights_path": None}
        mimi = {**content["mimi"], "weights_path": None}
        offline = {key: value for key, value in content.items() if not key.startswith("weights_path")}
        path.write_text(yaml.safe_dump({**offline, "flow_lm": language, "mimi": mimi}), encoding="utf-8")
        return TTSModel.load_model(config=path)


def is_published(source: str) -> bool:
    """Return whether `source` names weights that are loaded: the hub id, or the path of a configuration file."""
    return source == HUB or Path(source).suffix in (".yaml", ".yml")


def load_published(source: str) -> TTSModel:
    """Load PocketTTS with the weights that its configuration names.

    Parameters
    ----------
    source : str
        ``kyutai/pocket-tts``: the package's default model, from the hub or its cache. Else the path of a configuration
        of the package's form, whose ``weights_path`` and ``tokenizer_path`` are local files or ``hf://`` addresses.

    Returns
    -------
    pocket_tts.TTSModel
        In eval mode and without gradients.

    Raises
    ------
    InputError
        If a file cannot be had or does not fit, or a weight is not finite.
    """
    content = _default_config() if source == HUB else _read(Path(source))
    parts = (content, content["flow_lm"], content["mimi"])
    addresses = [str(part["weights_path"]) for part in parts if part.get("weights_path")]
    if not addresses:
        raise InputError(f"{source} names no weights; set weights_path, or use 'narrow' or 'seeded' for random ones.")
    for address in addresses:  # the package would try for long
        if address.startswith(_HF):
            owner, name, *rest = address.removeprefix(_HF).partition("@")[0].split("/")
            hub_file(f"{owner}/{name}", "/".join(rest), address.partition("@")[2] or None)
        elif not address.startswith("http") and not Path(address).is_file():
            raise InputError(f"There is no file {address}, which {source} names; check the path.")
    try:
        model = TTSModel.load_model(config=None if source == HUB else source)
    except Exception as error:  # the package, safetensors, the tokenizers and torch have errors of their own
        lines = str(error).strip().splitlines()
        raise InputError(
            f"PocketTTS cannot be loaded from {source} ({type(error).__name__}: {lines[0] if lines else ''}); "
            "use the configuration, the weights and the tokenizer that belong together."
        ) from error
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise InputError(f"'{name}' of {source} holds NaN or infinity; the file is damaged, copy it again.")
    label_weights(model, f"PocketTTS {source if source == HUB else Path(source).name}", "published")
    return model.eval().requires_grad_(False)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        Config(**content)
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}; check the path.") from error
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        what = f"{path} is no configuration of PocketTTS ({type(error).__name__})"
        raise InputError(f"{what}; start from one of the package's own.") from error
    return content
