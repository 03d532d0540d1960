"""float16 with exceptions, as `coremltools` documents it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class MixedPrecision:
    """float16, but for some operators.

    Attributes
    ----------
    keep : tuple of str
        The operators that stay float32, each by the name of its first result: that of the saved float32 file.
    """

    keep: tuple[str, ...]

    @property
    def op_selector(self) -> Callable[[Any], bool]:
        """The predicate by which coremltools decides whether an operator computes in float16."""
        kept = frozenset(self.keep)
        return lambda operation: operation.outputs[0].name not in kept

    def as_code(self) -> str:
        """Return the same as Python to paste, for a plain `coremltools.convert` of the exported program."""
        names = "".join(f'    "{name}",\n' for name in self.keep)
        return (
            f"keep_float32 = {{\n{names}}}\n"
            "compute_precision = coremltools.transform.FP16ComputePrecision(\n"
            "    op_selector=lambda op: op.outputs[0].name not in keep_float32\n"
            ")\n"
        )


Precision = Literal["float32"] | MixedPrecision | None


def compute_precision(precision: Precision) -> Any:
    """Return the value for the ``compute_precision`` of `coremltools.convert`; None for its default."""
    import coremltools as ct

    if isinstance(precision, MixedPrecision):
        return ct.transform.FP16ComputePrecision(op_selector=precision.op_selector)
    return ct.precision.FLOAT32 if precision == "float32" else None
