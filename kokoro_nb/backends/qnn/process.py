"""A process for Qualcomm's libraries, kept at a distance: it may print, and it may die; and what is compiled there.

The provider of onnxruntime-qnn 2.7 ignores an option that it does not know and one whose value it cannot read, without
an error; where ``soc_model`` and ``htp_arch`` contradict each other it builds for the former and records the latter in
the artefact. So the options are those of the table of chips, and are checked afterwards against what its log says that
it read and what is recorded in the artefact.
"""

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.errors import InputError, noted
from kokoro_nb.run_apart import SAFELY

_START = re.compile(r"^(?:\x1b\[[0-9;]*m)?\d{4}-\d\d-\d\d [\d:.]+ \[([VIWEF]):[^\]]*\] ?", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OPTION = re.compile(r"User specified (?:ep\.\w+\.)?(\w+): (\S+)$")
_VALIDATION = re.compile(r"Validation (PASSED|FAILED) for \d+ nodes in ")
_NODE = re.compile(r"\tOperator type: (\S+) Node name: (.*) Node index: \d+")
_REASON = re.compile(r"\tREASON : (.*)")


@dataclass(frozen=True)
class Validation:
    """What the provider said of one node by itself, before it looked at the graph around it."""

    name: str
    op: str
    passed: bool  # whether the NPU could compute it
    reason: str = ""  # why not, in the provider's words


def records(log: str) -> Iterator[tuple[str, str]]:
    r"""Yield level (``V``, ``I``, ``W``, ``E``, ``F``) and text of each record; what precedes the first has no level.

    Text that native code prints in between belongs to the record before it.

    >>> list(records("hello\n2026-11-21 13:14:22.7 [E:onnxruntime:, a.cc:1 f] No.\nNot so.\n"))
    [('', 'hello'), ('E', 'a.cc:1 f] No.\nNot so.')]
    """
    starts = [*_START.finditer(log)]
    ends = [*(start.start() for start in starts), len(log)]
    yield "", log[: ends[0]].strip()
    for start, end in zip(starts, ends[1:], strict=True):
        where = start.group().rpartition("[")[2].partition(", ")[2].rstrip()
        yield start.group(1), where + " " + _COLOUR.sub("", log[start.end() : end]).strip()


def complaints(log: str, levels: str = "WEF") -> list[str]:
    """Return what was said at `levels`, without the place in the source."""
    return [text.partition("] ")[2] for level, text in records(log) if level and level in levels]


def validations(log: str) -> dict[str, Validation]:
    """Return the provider's verdict on each node by name; the first, if it looked at one more than once.

    It looks at the graph twice, the second time after its own change to channels-last layout.
    """
    verdicts: dict[str, Validation] = {}
    for level, text in records(log):
        head = _VALIDATION.search(text) if level == "V" else None
        if head:
            lines = text.splitlines()
            reason = next((match[1] for line in lines if (match := _REASON.match(line))), "")
            for line in lines:
                if match := _NODE.match(line):
                    verdicts.setdefault(match[2], Validation(match[2], match[1], head[1] == "PASSED", reason))
    return verdicts


WORKER = Path(__file__).with_name("qnn_worker.py")


class QnnError(RuntimeError):
    """The provider, or one of the libraries under it, refused or failed; what they printed is in the notes."""


class Worker(AbstractContextManager["Worker"]):
    """One such process; it holds at most one session, and ends with this object."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process: Any = subprocess.Popen(
            [sys.executable, *SAFELY, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        self.close = weakref.finalize(self, _end, self._process, self._log)

    def ask(self, action: str, **arguments: Any) -> Any:
        """Have `qnn_worker.ACTIONS[action]` done there and return its result.

        Raises
        ------
        QnnError
            If it raises an exception there, or the process dies of it.
        """
        before = self._size()
        try:
            pickle.dump((action, arguments), self._process.stdin)
            self._process.stdin.flush()
            fine, result = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            how = _how(self._process.wait())
            words = f"The process in which Qualcomm's libraries run {how} during '{action}'."
            raise self._noted(QnnError(words), before) from error
        if not fine:
            raise self._noted(QnnError(": ".join(result)), before)
        return result

    def log(self, start: int = 0) -> str:
        """Return what was printed there, from byte `start` on."""
        return os.pread(self._log.fileno(), self._size() - start, start).decode(errors="replace")

    def _size(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def _noted(self, error: QnnError, start: int) -> QnnError:
        """Add to `error` what was printed from byte `start` on, but for the chatter of a verbose log."""
        said = (text for level, text in records(self.log(start)) if level not in ("V", "I") and text)
        return noted(error, "\n".join(said))

    def __exit__(self, *_: object) -> None:
        self.close()


def _how(code: int) -> str:
    """Say how a process ended.

    >>> _how(-11), _how(1)
    ('died of SIGSEGV', 'ended with status 1')
    """
    return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _end(process: Any, log: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, log):
        with suppress(BrokenPipeError):  # of a request that it did not live to read
            stream.close()


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
    found = (_OPTION.search(text) for level, text in records(log) if level == "V")
    taken = {match[1]: match[2] for match in found if match}
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
        placed = worker.ask("open", model=str(model), options=dict(options), config=config, verbose=True)
        return placed, worker.log()


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
