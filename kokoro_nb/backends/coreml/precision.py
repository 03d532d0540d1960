"""The precision of the operators of a Core ML model: one for all of them, or float16 with exceptions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kokoro_nb.backends.coreml.naming import name_of


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
        return lambda operation: name_of(operation) not in kept

    def as_code(self) -> str:
        """Return the same as Python to paste, for a plain `coremltools.convert` of the exported program."""
        names = "".join(f'    "{name}",\n' for name in self.keep)
        return (
            f"keep_float32 = {{\n{names}}}\n"
            "compute_precision = coremltools.transform.FP16ComputePrecision(\n"
            "    op_selector=lambda op: op.outputs[0].name not in keep_float32\n"
            ")\n"
        )


Precision = Literal["float32", "float16"] | MixedPrecision


def compute_precision(precision: Precision) -> Any:
    """Return the value for the ``compute_precision`` of `coremltools.convert`."""
    import coremltools as ct

    if isinstance(precision, MixedPrecision):
        return ct.transform.FP16ComputePrecision(op_selector=precision.op_selector)
    return {"float32": ct.precision.FLOAT32, "float16": ct.precision.FLOAT16}[precision]
