"""The schema of ExecuTorch programs mended: the method that tells it is written anew, the program stays as it is."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.client_contract import ClientContract, Signature
from kokoro_nb.delivery.clients.model_schema import METHOD, model_schema, schema_faults
from kokoro_nb.delivery.clients.react_native_host import PteProgram
from kokoro_nb.errors import InputError

RULES = tuple(f"schema {what}" for what in ("missing", "form", "dtype", "size", "range", "constraints"))


def tell_schemas(root: Path, rules: ClientContract) -> tuple[str, str, str]:
    """Write the client's schema into the programs of a folder that tell another one, or none.

    Returns
    -------
    tuple of str
        What was changed, and what a client refuses in the schemas before and after.

    Raises
    ------
    InputError
        If a program itself takes other sizes than the schema would tell.
    """
    before, changed = _refused(root, rules), []
    for name, signature in rules.programs.items():
        if (root / name).is_file() and _faults(root / name, signature, rules):
            (root / name).write_bytes(_told(root / name, signature, rules))
            changed.append(name)
    return f"{METHOD} written into {', '.join(changed)}", before, _refused(root, rules)


def _faults(path: Path, signature: Signature, rules: ClientContract) -> list[tuple[str, str, str]]:
    schema = PteProgram(path).schema()
    if schema is None:
        return [("schema missing", METHOD, "none")]
    return list(schema_faults(schema, signature, rules))


def _refused(root: Path, rules: ClientContract) -> str:
    programs = {name: signature for name, signature in rules.programs.items() if (root / name).is_file()}
    counts = {name: len(_faults(root / name, signature, rules)) for name, signature in programs.items()}
    return ", ".join(f"{count} in {name}" for name, count in counts.items())


def _told(path: Path, signature: Signature, rules: ClientContract) -> bytes:
    with quietly():
        from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary
        from executorch.exir.schema import Chain, ContainerMetadata, EValue, ExecutionPlan, String

        file = deserialize_pte_binary(path.read_bytes())
        plans = file.program.execution_plan
        (forward,) = [plan for plan in plans if plan.name == "forward"]
        _require_sizes(path.name, forward.values, zip(forward.inputs, signature[0], strict=True), rules)
        text = json.dumps(model_schema(signature, rules.ranges))
        wanted = ExecutionPlan(
            name=METHOD,
            container_meta_type=ContainerMetadata("", forward.container_meta_type.encoded_out_str),
            values=[EValue(String(text))],
            inputs=[],
            outputs=[0],
            chains=[Chain([], [], [], None)],
            operators=[],
            delegates=[],
            non_const_buffer_sizes=[0],
        )
        file.program.execution_plan = [*(plan for plan in plans if plan.name != METHOD), wanted]
        return bytes(serialize_pte_binary(file))


def _require_sizes(name: str, values: Any, inputs: Iterable[tuple[int, Any]], rules: ClientContract) -> None:
    """Refuse a program that does not take the sizes that the schema tells: the file itself has the largest of each."""
    for number, rule in inputs:
        own = list(getattr(values[number].val, "sizes", ()))
        wanted = [rules.ranges[axis][1] if isinstance(axis, str) else axis for axis in rule.shape]
        if own != wanted:
            raise InputError(f"{name} takes {rule.name} of {own}, and the client wants {wanted}; export it anew.")
