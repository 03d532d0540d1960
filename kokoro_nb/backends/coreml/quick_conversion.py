"""Conversion by coremltools without checks and texts whose result is known before; the file is the same to the byte.

After each of its hundred passes coremltools compares what every value of the program is read by with what reads it, and
it writes the whole program out for a log that is switched off: for a decoder of 1,900 operators that is half of the
conversion. At its end it has Python look for garbage among all objects of the process, half a second where there are
many.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch


@contextmanager
def quick_conversion() -> Iterator[None]:
    """Have coremltools check a program at the end of each of its pipelines; for the whole process.

    A pass that breaks the program is then noticed at the end of its pipeline, by the same check and the same error, and
    not right after it. Values that may not be replaced are followed only where there are any: none but the results of
    the operators ``constexpr_...``, of compressed weights, are. Garbage is left to Python's own search, and to
    the one after a large export.
    """
    from coremltools.converters import _converters_entry
    from coremltools.converters.mil.mil.block import Block
    from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipelineManager
    from coremltools.converters.mil.mil.program import Program

    apply, follow = PassPipelineManager.apply_pipeline, Block._propagate_nonreplaceable_vars

    def apply_pipeline(program: Any, pipeline: Any) -> None:
        with (
            patch.object(Program, "validate", lambda *_, **__: None),
            patch.object(Program, "__str__", object.__repr__),
        ):
            apply(program, pipeline)
        program.validate()

    def propagate(block: Any) -> None:
        if block.outer_op is not None or any(map(_fixed, block.operations)):
            follow(block)

    with (
        patch.object(PassPipelineManager, "apply_pipeline", staticmethod(apply_pipeline)),
        patch.object(Block, "_propagate_nonreplaceable_vars", propagate),
        patch.object(_converters_entry, "gc", SimpleNamespace(collect=lambda: 0)),
    ):
        yield


def _fixed(operation: Any) -> bool:
    """Return whether results of an operator may not be replaced, or were taken for such; of those inside it too."""
    if operation.op_type.startswith("constexpr_") or any(
        result.nonreplaceable_vars_upstream for result in operation.outputs or ()
    ):
        return True
    return any(_fixed(inner) for block in operation.blocks for inner in block.operations)
