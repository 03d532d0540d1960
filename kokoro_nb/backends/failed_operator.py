"""Which operator, and which line of the model, the message of a failed export is about, as far as it says so."""

import re
import sys
from linecache import getline
from pathlib import Path
from traceback import walk_tb
from typing import Any

from kokoro_nb.traces.trace import Operator

OPERATORS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[target=(?:torch\.ops\.|executorch[\w.]*\._ops\.)?([\w.]+)\]",  # torch.fx
        r"OpOverload\(op='([\w.]+)', overload='([\w.]+)'",  # torch.onnx
        r"EdgeOpOverload: ([\w.]+)",  # ExecuTorch
        r"Operator torch\._ops\.([\w.]+) is not",
        r"Missing out variants: \{'([\w:.]+)'",
        r"Unsupported function types? \[?'([\w.]+)'",  # TVM
        r"Unsupported fx node (\w+)",  # Core ML
        r"(?:op|function for op|operation) '([\w.:]+)' (?:is )?not (?:implemented|supported)",
        r"converting '([\w.]+)' op",
    )
)
OTHERS = frozenset(("kokoro_nb", "torch", "numpy", *sys.stdlib_module_names))  # whose lines are none of the model
FRAME = r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>\S+)\n[ \t]*(?P<code>[^\n]*)'
# after these words come the lines of the model; the last of them is the innermost
TRACE = re.compile(
    r"(?:Original traceback:|stack trace:|from user code:|The following call raised this error:)\s*"
    rf"(?P<frames>(?:\s*{re.sub(r'[?]P<[a-z]+>', '?:', FRAME)})+)"
)


def failed_operator(*texts: str) -> str:
    """Return the operator that the first of `texts` which names one is about; empty if none does.

    >>> failed_operator("Unsupported function types ['cumprod.default']", "converting 'x' op")
    'cumprod.default'
    """
    return next((".".join(found.groups()) for text in texts for one in OPERATORS if (found := one.search(text))), "")


def failed_line(*texts: str) -> str:
    """Return the line of the model that the first of `texts` which quotes one is about; empty if none does.

    >>> failed_line('Original traceback:\\nFile "/home/me/net.py", line 7, in forward\\n    return x.cumprod(1)\\n')
    'net.py:7, in forward: return x.cumprod(1)'
    """
    for text in texts:
        trace = TRACE.search(text)
        if trace is not None:
            *_, last = re.finditer(FRAME, trace["frames"])
            file = re.split(r"[/\\]", last["file"])[-1]
            return f"{file}:{last['line']}, in {last['function']}: {last['code'].strip()}".removesuffix(": ")
    return ""


def raised_at(error: BaseException | None) -> str:
    """Return the innermost line of the model that an error passed, as `failed_line` does; empty if it passed none."""
    if error is None:
        return ""
    lines = [
        f"{Path(frame.f_code.co_filename).name}:{line}, in {frame.f_code.co_name}: "
        f"{getline(frame.f_code.co_filename, line).strip()}"
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "torch").split(".")[0] not in OTHERS
    ]
    return raised_at(error.__cause__) or (lines[-1] if lines else "")


def blamed_operator(failure: Any, specification: Any) -> Operator | None:
    """Return the operator of a program that the error of a `Failure` is about: at the line that it quotes, if it does.

    Where it quotes none, the first of those that it names in full: all of them are refused.
    """
    text = f"{failure.message}\n{failure.cause}"
    operators = specification.operators
    # TVM's importer names operators without their namespace: 'complex.default'
    written = {one.op: (one.op, one.op.partition(".")[2]) for one in operators}
    named = [
        one for one in operators if one.op == failure.operator or any(f"'{word}'" in text for word in written[one.op])
    ]
    line = failure.line.partition(",")[0]
    at_line = [one for one in operators if line and specification.source_line(one.name) == line]
    return next((one for one in (*(one for one in at_line if one in named), *at_line, *named)), None)
