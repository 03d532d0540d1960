"""Known defects of converters and runtimes, each on the smallest module that shows it, beside the form that is right.

A defect is a claim about today's versions: `reproduce` measures it, and what has been mended upstream shows as such.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.models import gelu, rewrites
from kokoro_nb.numerics.survey import Row, survey


class _Remainder(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x % 1


class _Fraction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - torch.floor(x)


class _InstanceNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(256)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class _TwoPassNorm(_InstanceNorm):
    def forward(self, x: Tensor) -> Tensor:
        return rewrites.instance_norm(self.norm, x)


class _TanhGelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")


class _WrittenGelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return gelu.tanh_gelu(x)


class _Atan2(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.atan2(x[0], x[1])


class _WherePhase(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where((x[0] == 0) & (x[1] < 0), torch.pi, torch.atan2(x[0], x[1]))


class _Reciprocal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[0] * (1 / x[1])


class _Quotient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[0] / x[1]


def _around(mean: float, deviation: float, *shape: int) -> Tensor:
    return mean + deviation * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Defect:
    """What a converter or runtime gets wrong.

    Attributes
    ----------
    name : str
        The operator.
    backend : str
        Key of `BACKENDS` on which it shows.
    cause : str
        What happens, in one sentence.
    broken, mended : callable
        Make the module that shows it and the one, equal in exact arithmetic, that does not.
    x : torch.Tensor
        The input of both.
    mended_by : str
        What puts the second in the first one's place in a model: the name of a patch, or a function of `models.gelu`.
    limit : float
        Largest difference to float64 that rounding explains, of the peak.
    """

    name: str
    backend: str
    cause: str
    broken: Callable[[], nn.Module]
    mended: Callable[[], nn.Module]
    x: Tensor
    mended_by: str
    limit: float


DEFECTS: tuple[Defect, ...] = (
    Defect(
        "remainder by 1",
        "coreml-reference",
        "coremltools lowers x % 1 to x - floor_div(x, 1) * 1, and its pass noop_elimination takes the division for one "
        "that does nothing: what is left is x - x.",
        _Remainder,
        _Fraction,
        torch.linspace(0, 40, 161)[:-1],
        "floor_phase",
        1e-5,  # the spacing of float32 at 40 is 4e-6
    ),
    Defect(
        "reciprocal",
        "coreml-reference",
        "coremltools lowers 1 / x to MIL's inverse, and leaves that its default: 1 / (x + 0.0001).",
        _Reciprocal,
        _Quotient,
        torch.stack([torch.linspace(-1, 1, 16), torch.full((16,), 0.5)]),
        "divided_snake",
        1e-5,
    ),
    Defect(
        "instance norm",
        "tvm",
        "TVM computes the variance in one pass, E[x²] - E[x]², without a floor: where the mean is large against the "
        "deviation, rounding takes it below 0, and its root is NaN.",
        _InstanceNorm,
        _TwoPassNorm,
        _around(10, 0.01, 1, 256, 3840),
        "two_pass_norm",
        1e-2,  # rounding of the input alone, 5e-7, is 5e-5 of the deviation
    ),
    Defect(
        "gelu(approximate='tanh')",
        "executorch-xnnpack",
        "The partitioner gives XNNPACK the tanh form as if it were the erf form.",
        _TanhGelu,
        _WrittenGelu,
        torch.linspace(-6, 6, 401),
        "tanh_gelu_written_out",
        1e-5,
    ),
    Defect(
        "atan2(+0, x < 0)",
        "onnxruntime",
        "torch's exporter writes atan2 as atan(y / x) with corrections: on the branch cut it is -pi instead of +pi.",
        _Atan2,
        _WherePhase,
        torch.stack([torch.zeros(8), -torch.arange(1.0, 9.0)]),
        "where_phase",
        1e-5,
    ),
)


@dataclass(frozen=True)
class Reproduction:
    """A defect as it is today.

    Attributes
    ----------
    defect : Defect
        What was claimed.
    broken, mended : Row
        Both forms on its backend.
    """

    defect: Defect
    broken: Row
    mended: Row

    @property
    def present(self) -> bool | None:
        """Whether the backend still gets it wrong; None where it is not here."""
        return None if self.broken.eager64 is None else not _within(self.broken, self.defect.limit)

    @property
    def mends(self) -> bool | None:
        """Whether the other form is right there; None where the backend is not here."""
        return None if self.mended.eager64 is None else _within(self.mended, self.defect.limit)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row: dict[str, Any] = {"operator": self.defect.name, "backend": self.defect.backend}
        for name, measured in (("as it is", self.broken), ("mended", self.mended)):
            if measured.eager64 is None:
                row[name] = measured.outcome
            else:
                row[f"{name}: finite (%)"] = 100 * measured.eager64.finite
                row[f"{name}: error (of peak)"] = measured.eager64.of_peak
        return {**row, "mended by": self.defect.mended_by, "cause": self.defect.cause}


def reproduce(defect: Defect, backend: str = "", folder: str | Path | None = None) -> Reproduction:
    """Measure `defect` on its own backend, or on another one for comparison."""
    name = backend or defect.backend
    rows = [
        survey(make(), {"x": defect.x}, [name], calls=2, folder=folder)[0] for make in (defect.broken, defect.mended)
    ]
    return Reproduction(defect, *rows)


def _within(row: Row, limit: float) -> bool:
    return row.eager64 is not None and row.eager64.finite == 1 and row.eager64.of_peak <= limit
