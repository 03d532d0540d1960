"""One call of an operator in a graph of PyTorch's, as a converter sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.called_operators import arguments_by_name
from kokoro_nb.backends.signature import dtype_name

_OPAQUE = 8  # kOpaque of TVM's OpPatternKind


@dataclass(frozen=True)
class GraphCall:
    """A node of the exported graph, and the importer that is at work on it."""

    node: Any  # torch.fx.Node
    importer: Any  # TVM's ExportedProgramImporter, which holds what the nodes before it became
    checks: bool = True  # whether indices are checked: code for a graphics processor cannot raise an error

    @property
    def op(self) -> Any:
        """Return Relax's operators."""
        from tvm import relax

        return relax.op

    @property
    def result(self) -> Any:
        """Return PyTorch's stand-in for the result: dtype and shape, or several of them."""
        return self.node.meta["val"]

    @property
    def dtype(self) -> str:
        """Return the dtype of the result."""
        return dtype_name(self.result.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the result."""
        return tuple(self.result.shape)

    def arguments(self) -> list[Any]:
        """Return all arguments in the order of the operator's schema, tensors as Relax expressions."""
        return [self.importer._retrieve_args(value) for value in arguments_by_name(self.node).values()]

    def operands(self) -> list[Any]:
        """Return the same, tensors as PyTorch's stand-ins."""
        from torch import fx

        return [
            value.meta["val"] if isinstance(value, fx.Node) else value
            for value in arguments_by_name(self.node).values()
        ]

    def emit(self, expression: Any) -> Any:
        """Add a binding to the Relax function and return its variable."""
        return self.importer.block_builder.emit(expression)

    def compute(self, expression: Callable[..., Any], *operands: Any) -> Any:
        """Add a call of a tensor expression of `arithmetic` or `kernels` and return the variable of its result."""
        return self.importer.block_builder.emit_te(expression, *operands, primfunc_name_hint=_name(expression))

    def loops(self, kernel: Callable[..., Any], *operands: Any) -> Any:
        """Add a call of a kernel of `kernels` that is written as loops, which no pass is to fuse or to schedule."""
        attributes = {"op_pattern": _OPAQUE, "tirx.is_scheduled": True}
        return self.importer.block_builder.emit_te(
            kernel, *operands, primfunc_name_hint=_name(kernel), primfunc_attrs=attributes
        )

    def constant(self, value: Any, dtype: str) -> Any:
        """Return a constant."""
        from tvm import relax

        return relax.const(value, dtype)

    def cast(self, value: Any, dtype: str) -> Any:
        """Return a tensor, or a number, as a tensor of `dtype`."""
        if not hasattr(value, "ty"):
            return self.constant(value, dtype)
        return value if str(value.ty.dtype.dtype) == dtype else self.emit(self.op.astype(value, dtype))


def _name(function: Callable[..., Any]) -> str:
    """Return the name of the function that made `function`."""
    return function.__qualname__.partition(".")[0]
