"""A checkpoint into a model, with every key accounted for.

The package loads without ``strict``, and where that fails it cuts seven characters off each key: weights that do not
fit are then left as they were drawn, without a word. Here every key is used, or named with what became of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import build
from kokoro_nb.models.weights import read_config

POSITION_IDS = "bert.embeddings.position_ids"  # 0, 1, 2 ...: a constant that older transformers stored as a weight


def build_from(config: Path) -> KModel:
    """Build the model that a ``config.json`` describes; its weights mean nothing yet.

    Raises
    ------
    InputError
        If the file is absent or no configuration of a Kokoro.
    """
    content = read_config(config)
    try:
        return build(content)
    except Exception as error:  # the constructors of three packages each refuse a wrong value in their own way
        raise InputError(
            f"No model can be built from {config} ({type(error).__name__}: {error}); use the one that belongs to the "
            "weights."
        ) from error


@dataclass(frozen=True)
class LoadingReport:
    """What became of every key of a checkpoint, and of every parameter of the model.

    Attributes
    ----------
    source : str
        Name of the file.
    keys : dict of str to tuple of str
        Outcome -> keys. ``used`` fill a tensor of the model; ``missing`` are those that the model needs and the
        checkpoint lacks; for the ``unexpected`` the model has no tensor; then those ``of another shape``, each with
        its shape and the model's, and ``with NaN or infinity``. ``absent: one and zero`` are affine parameters of
        InstanceNorm, which the published checkpoint lacks too; ``superfluous`` is BERT's table of position numbers,
        the same in every model. ``filters of zeros`` names convolutions with weight norm, each with how many of their
        filters are zero throughout: weight norm divides by the norm of each, so that they are loaded as zero times a
        filter of ones.
    dtypes : tuple of str
        Of the tensors as stored; all become float32.
    """

    source: str
    keys: Mapping[str, tuple[str, ...]]
    dtypes: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each outcome that occurs: how many keys, and which."""
        many = {"used", "absent: one and zero"}
        return [
            {"keys": outcome, "how many": len(keys), "which": ", ".join(_parts(keys) if outcome in many else keys)}
            for outcome, keys in self.keys.items()
            if keys
        ]

    def sentence(self) -> str:
        """Return what is wrong and how to mend it, ``""`` where the checkpoint fits."""
        wrong = [_listed(word, self.keys[word]) for word in ("missing", "unexpected") if self.keys[word]]
        if wrong:
            return (
                f"The weights in {self.source} do not fit the model: {'; '.join(wrong)}; "
                "use the weights and the config.json that belong together."
            )
        for key in self.keys["of another shape"]:
            return f"{self.source} has another shape of {key}; use the config.json that belongs to the weights."
        for key in self.keys["with NaN or infinity"]:
            return f"'{key}' in {self.source} holds NaN or infinity; the file is damaged, copy it again."
        return ""


class LoadingError(InputError):
    """Weights that do not fit; `report` names every key."""

    def __init__(self, report: LoadingReport):
        super().__init__(report.sentence())
        self.report = report


def load_state(model: KModel, state: Mapping[str, Tensor], source: str) -> LoadingReport:
    """Load `state` into `model`, and account for every key.

    Only the affine parameters of InstanceNorm may be absent (the published checkpoint has none; they stay at one and
    zero), and only BERT's table of position numbers may be superfluous.

    Parameters
    ----------
    model : kokoro.model.KModel
        Changed in place, if all is right.
    state : dict of str to torch.Tensor
        ``part.key`` -> tensor of any float dtype.
    source : str
        Name of the file.

    Raises
    ------
    LoadingError
        If any other key is missing or unexpected, or a shape or a value is not right; the model is as it was.
    """
    expected = model.state_dict()
    norms = [name for name, module in model.named_modules() if isinstance(module, nn.InstanceNorm1d)]
    optional = {f"{name}.{leaf}" for name in norms for leaf in ("weight", "bias")}
    used = [key for key in state if key in expected and key != POSITION_IDS]
    zeros = dict(_zero_filters(model, state))
    shapes = [(key, tuple(state[key].shape), tuple(expected[key].shape)) for key in used]
    keys = {
        "used": used,
        "missing": sorted(set(expected) - set(state) - optional),
        "unexpected": sorted(set(state) - set(expected) - {POSITION_IDS}),
        "of another shape": [f"{key} {mine}, not {own}" for key, mine, own in shapes if mine != own],
        "with NaN or infinity": [key for key in used if not torch.isfinite(state[key]).all()],
        "absent: one and zero": sorted(optional - set(state)),
        "superfluous": [POSITION_IDS] * (POSITION_IDS in state),
        "filters of zeros": [f"{int(rows.sum())} of {name}" for name, rows in zeros.items()],
    }
    dtypes = tuple(sorted({str(state[key].dtype).removeprefix("torch.") for key in used}))
    report = LoadingReport(source, {outcome: tuple(names) for outcome, names in keys.items()}, dtypes)
    if report.sentence():
        raise LoadingError(report)
    for key in used:
        expected[key].copy_(state[key])
    for name, rows in zeros.items():
        expected[f"{name}.weight_v"][rows] = 1.0
        expected[f"{name}.weight_g"][rows] = 0.0
    return report


def _zero_filters(model: KModel, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield convolutions with weight norm that have filters of zeros alone, and which."""
    for name, module in model.named_modules():
        direction = state.get(f"{name}.weight_v")
        if hasattr(module, "weight_g") and direction is not None and direction.dim() > 1:
            rows = (direction == 0).flatten(1).all(1)
            if rows.any():
                yield name, rows


def _listed(word: str, keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{word} {', '.join(keys[:3])}{more}"


def _parts(keys: tuple[str, ...]) -> list[str]:
    """Return the parts that keys belong to, each with how many of them."""
    counts = Counter(key.partition(".")[0] for key in keys)
    return [f"{part} {count}" for part, count in counts.items()]
