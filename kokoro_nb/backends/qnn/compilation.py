"""ONNX files compiled to context binaries for the NPU, in a process of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.backends.qnn.log import complaints, validations
from kokoro_nb.backends.qnn.process import QnnError, Worker
from kokoro_nb.backends.qnn.target import require_taken


@dataclass(frozen=True)
class CompiledContext:
    """The result of a compilation."""

    nodes: tuple[tuple[str, str, str, str], ...]  # provider, name, domain, operator type of every node that was placed
    log: str  # of the session, verbose


def compile_onnx(model: Path, context: Path, options: Mapping[str, str]) -> CompiledContext:
    """Compile `model` and write `context`, an ONNX file, with the binary beside it; neither if the NPU takes no node.

    Parameters
    ----------
    model : Path
        ONNX file.
    context : Path
        ``<name>.onnx``; the binary becomes ``<name>_qnn.bin``.
    options : mapping
        See `target.checked_options`.

    Raises
    ------
    QnnError
        If the session cannot be made, or the process dies of it.
    """
    config = {"ep.context_enable": "1", "ep.context_file_path": str(context)}
    with Worker() as worker:
        answer = worker.ask("open", model=str(model), options=dict(options), config=config, verbose=True)
        return CompiledContext(tuple(answer["nodes"]), worker.log())


def compile_checked(model: Path, context: Path, options: Mapping[str, str]) -> CompiledContext:
    """Compile `model` as `compile_onnx` does, and refuse an artefact that differs from what was requested.

    Raises
    ------
    QnnError
        If the session cannot be made, the NPU took no node, or the provider did not take an option.
    """
    import onnx

    made = compile_onnx(model, context, options)
    if not context.is_file():
        refused = [f"{v.name} ({v.op}): {v.reason}" for v in validations(made.log).values() if not v.passed]
        error = QnnError(f"The NPU takes none of the {len(made.nodes)} nodes, so there is nothing to compile for it.")
        error.add_note("\n".join([*complaints(made.log), *refused]))
        raise error
    about = onnx.load(context, load_external_data=False)
    require_taken(options, made.log, {entry.key: entry.value for entry in about.metadata_props})
    return made
