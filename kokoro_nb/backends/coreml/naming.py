"""Stable names: an operator has the same name when coremltools decides on its precision as in the saved file.

coremltools names operators and their results separately, renames operators while it optimises, and cleans names only
when it writes the file. Results keep their names. So an operator is known here by its first result, names are cleaned
before the float16 pass, and each operator is given the name of that result, from which its float16 copy takes its own.
"""

import re
from typing import Any

PASS = "settle_names"
BEFORE = "common::add_fp16_cast"
_COPY = re.compile(r"(?P<name>.+)_cast_fp16(?:_(?P<place>\d+))?")


def name_of(operation: Any) -> str:
    """Return the name by which an operator of a MIL program is known: that of its first result."""
    return operation.outputs[0].name


def before_float16(copied: str) -> tuple[str, int] | None:
    """Return what the result of a float16 operator was copied from: its operator, and which of its results.

    None for the name of any other result.

    >>> before_float16("split_3_0_cast_fp16_1")
    ('split_3_0', 1)
    >>> before_float16("x_to_fp16") is None
    True
    """
    found = _COPY.fullmatch(copied)
    return (found["name"], int(found["place"] or 0)) if found else None


def settle(program: Any) -> None:
    """Clean the names of a MIL program as its file will have them, and name each operator after its first result."""
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    PASS_REGISTRY["mil_backend::sanitize_name_strings"](program)
    PASS_REGISTRY["common::dedup_op_and_var_names"](program)
    blocks = list(program.functions.values())
    while blocks:
        for operation in blocks.pop().operations:
            blocks += operation.blocks
            if operation.outputs:
                operation.name = name_of(operation)


def settling_pipeline() -> Any:
    """Return coremltools' default passes with `settle` before the float16 pass."""
    import coremltools as ct
    from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
    from coremltools.converters.mil.mil.passes.pass_registry import register_pass

    @register_pass(namespace="kokoro_nb", name=PASS, override=True)
    class SettleNames(AbstractGraphPass):
        def apply(self, prog: Any) -> None:
            settle(prog)

    pipeline = ct.PassPipeline.DEFAULT
    pipeline.insert_pass(pipeline.passes.index(BEFORE), f"kokoro_nb::{PASS}")
    return pipeline
