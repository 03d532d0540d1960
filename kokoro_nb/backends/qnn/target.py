"""Which chip is built for, and whether the provider read the options that it was given.

The provider of onnxruntime-qnn 2.7 ignores an option that it does not know and one whose value it cannot read, without
an error; where ``soc_model`` and ``htp_arch`` contradict each other it builds for the former and records the latter in
the artefact. So the options are those of the table of chips, and are checked afterwards against what its log says that
it read and what is recorded in the artefact.
"""

from collections.abc import Mapping
from pathlib import Path

from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.qnn.process import QnnError, Worker, complaints, options_taken, validations
from kokoro_nb.errors import InputError, noted

RECORD = "ep_compatibility_info.QNNExecutionProvider"  # key in the metadata of a context


def chip_options(soc_model: str) -> dict[str, str]:
    """Return the provider's options for a chip: its number, and the version of its NPU.

    Parameters
    ----------
    soc_model : str
        Qualcomm's number of the chip, for example ``57`` for the SM8650 (Snapdragon 8 Gen 3); the table is
        ExecuTorch's.

    Raises
    ------
    InputError
        If the chip is not in the table.
    """
    chips = {str(int(chip)): (chip.name, info) for chip, info in of_executorch("_soc_info_table").items()}
    if soc_model not in chips:
        known = ", ".join(f"{number} ({name})" for number, (name, _) in chips.items())
        raise InputError(f"There is no chip with soc_model '{soc_model}'; the known ones are {known}.")
    return {"soc_model": soc_model, "htp_arch": str(int(chips[soc_model][1].htp_info.htp_arch))}


def require_taken(options: Mapping[str, str], log: str, metadata: Mapping[str, str]) -> None:
    """Check that the provider read every one of `options` and recorded them in the artefact.

    Parameters
    ----------
    options : mapping
        Those that it was given.
    log : str
        What the session said at log level verbose.
    metadata : mapping
        Of the ONNX file with the context.

    Raises
    ------
    QnnError
        If an option is missing from both, or has another value there.
    """
    fields = metadata.get(RECORD, "").split(":")
    if fields[0] != "v2" or len(fields) != 8:
        raise QnnError(f"The artefact does not say what it was built for, but '{metadata.get(RECORD, '')}'.")
    recorded = {"htp_arch": fields[4], "soc_model": fields[5]}
    taken = options_taken(log)
    for option, value in options.items():
        for where, said in (("log", taken.get(option)), ("artefact", recorded.get(option))):
            if said not in (None, value):
                raise QnnError(f"The provider was given {option}={value}, but its {where} says {said}.")
        if option not in taken and option not in recorded:
            raise QnnError(f"The provider was given {option}={value}, and nothing shows that it read it.")


def compile_onnx(model: Path, context: Path, options: Mapping[str, str]) -> tuple[list[tuple[str, str, str, str]], str]:
    """Compile `model` and write `context`, an ONNX file, with the binary beside it; neither if the NPU takes no node.

    Parameters
    ----------
    model : Path
        ONNX file.
    context : Path
        ``<name>.onnx``; the binary becomes ``<name>_qnn.bin``.
    options : mapping
        See `chip_options`.

    Returns
    -------
    tuple
        Provider, name, domain and operator type of every node that was placed, and the session's verbose log.

    Raises
    ------
    QnnError
        If the session cannot be made, or the process dies of it.
    """
    config = {"ep.context_enable": "1", "ep.context_file_path": str(context)}
    with Worker() as worker:
        answer = worker.ask("open", model=str(model), options=dict(options), config=config, verbose=True)
        return answer["nodes"], worker.log()


def compile_checked(model: Path, context: Path, options: Mapping[str, str]) -> None:
    """Compile `model` as `compile_onnx` does, and refuse an artefact that differs from what was requested.

    Raises
    ------
    QnnError
        If the session cannot be made, the NPU took no node, or the provider did not take an option.
    """
    import onnx

    nodes, log = compile_onnx(model, context, options)
    if not context.is_file():
        refused = [f"{v.name} ({v.op}): {v.reason}" for v in validations(log).values() if not v.passed]
        error = QnnError(f"The NPU takes none of the {len(nodes)} nodes, so there is nothing to compile for it.")
        raise noted(error, "\n".join([*complaints(log), *refused]))
    about = onnx.load(context, load_external_data=False)
    require_taken(options, log, {entry.key: entry.value for entry in about.metadata_props})
