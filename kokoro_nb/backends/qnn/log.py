"""What ONNX Runtime's log says of the Qualcomm provider: which options it took, which nodes it could take, and why not.

The texts are those of onnxruntime-qnn 2.7 (``qnn_execution_provider.cc`` in its public source, MIT licence); they reach
us with the session's log level at verbose.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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


def options_taken(log: str) -> dict[str, str]:
    """Return the value of each provider option as the provider says that it read it."""
    found = (_OPTION.search(text) for level, text in records(log) if level == "V")
    return {match[1]: match[2] for match in found if match}


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
