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
    used : tuple of str
        Keys of the checkpoint that fill a tensor of the model.
    missing : tuple of str
        Keys that the model needs and the checkpoint lacks.
    unexpected : tuple of str
        Keys that the model has no tensor for.
    wrong_shape : dict of str to tuple of tuple of int
        Key -> its shape in the checkpoint, and in the model.
    not_finite : tuple of str
        Keys of tensors with NaN or infinity in them.
    constant : tuple of str
        Affine parameters of InstanceNorm, which the published checkpoint lacks: they stay at one and zero.
    superfluous : tuple of str
        Keys that hold what is the same in every model: BERT's table of position numbers.
    zero_filters : dict of str to int
        Convolution with weight norm -> how many of its filters are zero throughout. The norm of such a filter is zero,
        and weight norm divides by it: NaN. They are loaded as zero times a filter of ones.
    dtypes : tuple of str
        Of the tensors as stored; all become float32.
    remarks : tuple of str
        What else there is to say of a form of file.
    """

    source: str
    used: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    wrong_shape: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
    not_finite: tuple[str, ...]
    constant: tuple[str, ...]
    superfluous: tuple[str, ...]
    zero_filters: Mapping[str, int]
    dtypes: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each outcome that occurs: how many keys, and which."""
        shapes = [f"{key} {mine}, not {own}" for key, (mine, own) in self.wrong_shape.items()]
        zeros = [f"{count} of {name}" for name, count in self.zero_filters.items()]
        outcomes = (
            ("used", self.used, _parts(self.used)),
            ("missing", self.missing, self.missing),
            ("unexpected", self.unexpected, self.unexpected),
            ("of another shape", shapes, shapes),
            ("with NaN or infinity", self.not_finite, self.not_finite),
            ("absent, as in the published checkpoint: one and zero", self.constant, _parts(self.constant)),
            ("superfluous", self.superfluous, self.superfluous),
            ("filters of zeros, loaded as zero", zeros, zeros),
            ("remark", self.remarks, self.remarks),
        )
        found = (row for row in outcomes if row[1])
        return [{"keys": name, "how many": len(keys), "which": ", ".join(which)} for name, keys, which in found]

    def sentence(self) -> str:
        """Return what is wrong and how to mend it, ``""`` where the checkpoint fits."""
        if self.missing or self.unexpected:
            both = "; ".join(filter(None, (_listed("missing", self.missing), _listed("unexpected", self.unexpected))))
            return (
                f"The weights in {self.source} do not fit the model: {both}; "
                "use the weights and the config.json that belong together."
            )
        for key, (mine, own) in self.wrong_shape.items():
            return (
                f"'{key}' in {self.source} has the shape {mine}, the model needs {own}; "
                "use the config.json that belongs to the weights."
            )
        for key in self.not_finite:
            return f"'{key}' in {self.source} holds NaN or infinity; the file is damaged, copy it again."
        return ""


class LoadingError(InputError):
    """Weights that do not fit; `report` names every key."""

    def __init__(self, report: LoadingReport):
        super().__init__(report.sentence())
        self.report = report


def load_state(model: KModel, state: Mapping[str, Tensor], source: str, remarks: tuple[str, ...] = ()) -> LoadingReport:
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
    remarks : tuple of str
        For the report.

    Raises
    ------
    LoadingError
        If any other key is missing or unexpected, or a shape or a value is not right; the model is as it was.
    """
    expected = model.state_dict()
    optional = {
        f"{name}.{leaf}"
        for name, module in model.named_modules()
        if isinstance(module, nn.InstanceNorm1d)
        for leaf in ("weight", "bias")
    }
    used = [key for key in state if key in expected and key != POSITION_IDS]
    shapes = {key: (tuple(state[key].shape), tuple(expected[key].shape)) for key in used}
    zeros = dict(_zero_filters(model, state))
    report = LoadingReport(
        source,
        tuple(used),
        tuple(sorted(set(expected) - set(state) - optional)),
        tuple(sorted(set(state) - set(expected) - {POSITION_IDS})),
        {key: pair for key, pair in shapes.items() if pair[0] != pair[1]},
        tuple(key for key in used if not torch.isfinite(state[key]).all()),
        tuple(sorted(optional - set(state))),
        (POSITION_IDS,) if POSITION_IDS in state else (),
        {name: int(rows.sum()) for name, rows in zeros.items()},
        tuple(sorted({str(state[key].dtype).removeprefix("torch.") for key in used})),
        remarks,
    )
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
    if not keys:
        return ""
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{word} {', '.join(keys[:3])}{more}"


def _parts(keys: tuple[str, ...]) -> list[str]:
    """Return the parts that keys belong to, each with how many of them."""
    counts = Counter(key.partition(".")[0] for key in keys)
    return [f"{part} {count}" for part, count in counts.items()]
