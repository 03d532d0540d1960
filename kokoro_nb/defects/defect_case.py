"""The forms of a known defect and of a finding, and how one is run and judged; all of it may stand in a script.

It needs torch, NumPy and, for a finding, safetensors alone.
"""

import inspect
import json
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn


@dataclass(frozen=True)
class Figure:
    """How far what was seen is from what is right.

    Attributes
    ----------
    wrong : float
        Share of the elements that are wrong, 0 to 1: a number further off than the limit, NaN or an infinity where
        something else is expected, or something else where those are. 1 if the shape differs or an error was raised.
    error : float
        Largest difference between finite numbers over the largest one expected, both finite; NaN if there are none.
    seen, expected : str
        The worst element, or the error.
    """

    wrong: float
    error: float
    seen: str
    expected: str


def measure(case: Any, run: Callable[..., Any] | None, mended: bool) -> Figure:
    """Run one form of a case on its inputs and compare it with what is right.

    Parameters
    ----------
    case : Defect or FindingCase
        Its ``expected(inputs)`` and ``seen(inputs, mended, run)`` return arrays; it has ``inputs`` (name -> tensor), a
        ``limit`` and an ``error``.
    run : callable or None
        Runs a module on the runtime in question.
    mended : bool
        Which form.

    Raises
    ------
    Exception
        Whatever the case raises, unless it is the error that the defect consists of.
    """
    expected = case.expected(case.inputs)
    try:
        seen = case.seen(case.inputs, mended, run)
    except Exception as error:
        known = re.search(case.error, f"{type(error).__name__}: {error}") if case.error else None
        if known is None:
            raise
        return Figure(1.0, float("nan"), known[0], "a result")
    return compare(seen, expected, case.limit)


def compare(seen: Any, expected: Any, limit: float) -> Figure:
    """Compare two arrays of numbers, NaN and infinities included; `limit` is of the peak of what is expected."""
    a, b = np.asarray(seen, np.float64), np.asarray(expected, np.float64)
    if a.shape != b.shape:
        return Figure(1.0, float("nan"), f"shape {a.shape}", f"shape {b.shape}")
    known = np.isfinite(b)
    peak = np.abs(b[known]).max(initial=0) or 1.0
    with np.errstate(all="ignore"):
        gaps = np.abs(a - b) / peak
    gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, gaps)
    wrong = ~(gaps <= limit)  # NaN is within no limit
    both = known & np.isfinite(a)
    worst = np.unravel_index(np.argmax(np.where(np.isnan(gaps), np.inf, gaps)), a.shape)
    error = float(gaps[both].max()) if both.any() else float("nan")
    return Figure(float(wrong.mean()), error, f"{a[worst]:.6g}", f"{b[worst]:.6g}")


def judge(case: Any, run: Callable[..., Any] | None) -> int:
    """Measure the form that the command line asks for, print the figure, and return the exit status.

    It is 1 while the defect is there, 0 where it is gone, and 2 where the case itself breaks.
    """
    try:
        figure = measure(case, run, "--mended" in sys.argv)
    except Exception:
        traceback.print_exc()
        return 2
    print(f"{100 * figure.wrong:.4g} % wrong\nexpected: {figure.expected}\nactual:   {figure.seen}")
    print("The defect is there." if figure.wrong else "The defect is gone.")
    return int(figure.wrong > 0)


class ReproCase:
    """What shows that something is wrong, by itself: two forms, inputs, and what is right.

    ``broken`` is the form that goes wrong and ``mended`` the control, a form that is equal in exact arithmetic: what a
    module computes of the inputs if there is a `runner`, else functions that call the tool. ``right`` gives what is
    right, if that is not what PyTorch makes of the broken form in float64.

    Attributes
    ----------
    packages : tuple of str
        Distributions that are needed; the first is to blame.
    limit : float
        Largest error that rounding explains, of the peak of what is expected.
    error : str
        Regular expression of the exception that the defect consists of; empty if it gives a wrong result.
    runner : str
        The one of `RUNNERS` that exports and runs ``broken`` and ``mended``; empty where the tool is called directly.
    inputs : dict
        Tensors by name, in the order in which both forms take them.
    options : mapping
        The options that the runner gets.
    """

    packages: tuple[str, ...]
    limit = 1e-5
    error = ""
    runner = ""
    inputs: Mapping[str, Tensor]
    broken: Callable[..., Any]
    mended: Callable[..., Any]
    options: Mapping[str, bool] = {}

    def right(self, *inputs: Any) -> Any:
        """Return what is right, from inputs in float64; here PyTorch's result of the broken form."""
        return self.module(False).double()(*inputs)

    def module(self, mended: bool) -> nn.Module:
        """Return a form as a module."""
        form = inspect.getattr_static(self, "mended" if mended else "broken")  # it is no method of the case there
        return type("Form", (nn.Module,), {"forward": form})()

    def expected(self, inputs: Mapping[str, Tensor]) -> np.ndarray:
        """Return what is right on these inputs."""
        with torch.no_grad():
            return np.asarray(self.right(*(x.double() if x.is_floating_point() else x for x in inputs.values())))

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        """Return what one of the forms gives on these inputs today; `run` is the runner's."""
        if run is None:
            return np.asarray((self.mended if mended else self.broken)(*inputs.values()))
        return run(self.module(mended), inputs, **self.options)[0]


class Defect(ReproCase):
    """What a converter, a runtime or a debugging tool gets wrong; each defect is a subclass.

    The subclass's docstring is its record: the title and, after an empty line, the cause, one sentence each; then, each
    from the beginning of a line, ``Where:``, files and functions of the tool's source; ``Control:``, the control in
    words; ``Varies:``, why another machine may not show it; ``Threads:``, public threads about this very defect,
    ``owner/repository#number``, reports and changes that made or mend it.

    Attributes
    ----------
    tool : str
        Its name.
    backends : tuple of str
        Beginnings of the names of backends that show it in a program that is traced there.
    operators : tuple of str
        The operators that it is about: ``instance_norm``.
    mechanism : str
        What happens in them, as `locate.culprit` names it; empty where the operator says enough.
    concerns : callable
        Whether the defect shows where one of its `operators` is called with these arguments, by name.
    """

    tool: str
    backends: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    mechanism = ""
    concerns: Callable[[Mapping[str, Any]], bool] = staticmethod(lambda arguments: True)

    @property
    def name(self) -> str:
        """The class's name in lower case: ``tvm_argmax_nan`` of ``TvmArgmaxNan``."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def title(self) -> str:
        """What is wrong, one sentence without its full stop."""
        return str(self.__doc__).partition("\n\n")[0].removesuffix(".")

    @property
    def cause(self) -> str:
        """Why, one sentence."""
        return " ".join(str(self.__doc__).split("\n\n")[1].split())

    where = property(lambda self: self._section("Where"), doc="Files and functions of the tool's source.")
    mended_by = property(lambda self: self._section("Control"), doc="The control in words.")
    varies = property(lambda self: self._section("Varies"), doc="Why another machine may not show it; empty if all do.")
    threads = property(lambda self: tuple(self._section("Threads").replace(",", " ").split()), doc="About this defect.")

    def _section(self, what: str) -> str:
        fields = r"(?=^\s*(?:Where|Control|Varies|Threads): |\Z)"
        found = re.search(rf"^\s*{what}: (.*?){fields}", str(self.__doc__), re.MULTILINE | re.DOTALL)
        return " ".join(found[1].split()) if found else ""


class ProcessDefect(Defect):
    """A tool may end the process: `printed` runs ``script`` in one of its own."""

    script: str

    def printed(self, *arguments: str) -> str:
        """Return what the case's `script` prints in a process of its own."""
        done = subprocess.run([sys.executable, "-c", self.script, *arguments], capture_output=True, text=True)
        if done.returncode not in (0, -signal.SIGABRT):  # which is how an assertion in C++ ends one
            raise RuntimeError(f"status {done.returncode}: {done.stderr[-300:]}")
        return done.stdout


class TanhGeluDefect(Defect):
    """A tool computes gelu by erf where gelu by tanh is asked for."""

    operators = ("gelu",)
    mechanism = "operator lowered as another"
    inputs: Mapping[str, Tensor] = {"x": torch.linspace(-6, 6, 401)}
    concerns = staticmethod(lambda arguments: arguments.get("approximate") == "tanh")
    broken = staticmethod(lambda x: F.gelu(x, approximate="tanh"))
    mended = staticmethod(lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x * x * x))))


class FloorDivisionDefect(Defect):
    """A tool floors the rounded quotient, where PyTorch takes the remainder away first."""

    operators = ("div", "floor_divide")
    inputs: Mapping[str, Tensor] = {"x": torch.tensor([1.0, 2.5, 3.5, 0.95]), "y": torch.full((4,), 0.1)}
    concerns = staticmethod(lambda arguments: arguments.get("rounding_mode") == "floor")
    broken = staticmethod(lambda x, y: torch.div(x, y, rounding_mode="floor"))
    mended = staticmethod(lambda x, y: torch.round((x - torch.fmod(x, y)) / y))


class WrittenZeroDefect(Defect):
    """A tool takes x * 0 for 0, whatever x is."""

    operators = ("mul",)
    mechanism = "operator lowered as another"
    inputs: Mapping[str, Tensor] = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, inf, nan]), "zero": torch.zeros(6)}
    concerns = staticmethod(lambda arguments: arguments.get("other") == 0)
    broken = staticmethod(lambda x, zero: x * 0)
    mended = staticmethod(lambda x, zero: x * zero)


class PositionalProgram(torch.nn.Module):
    """An exported program as a module that takes its inputs in order and gives its first result."""

    def __init__(self, program: torch.export.ExportedProgram):
        super().__init__()
        self.module: Any = program.module()
        self.takes, self.gives = program.call_spec

    def eval(self) -> "PositionalProgram":
        """Return itself: an exported program has no training mode, and refuses to be asked."""
        return self

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the first result."""
        args, kwargs = self.takes.unflatten(inputs)
        return self.gives.flatten_up_to(self.module(*args, **kwargs))[0]


class FindingCase:
    """The finding whose files are in `folder`, in the form in which `measure` runs a defect.

    ``program.pt2`` holds the operator and its weights as exported, ``right.pt2`` the same as it should be,
    ``values.safetensors`` its inputs and what is right, computed in float64, and ``finding.json`` the rest.
    """

    error = ""

    def __init__(self, folder: Path):
        self.folder, values = folder, load_file(folder / "values.safetensors")
        about = json.loads((folder / "finding.json").read_text(encoding="utf-8"))
        self.limit, self.right = float(about["limit"]), values["right result"]
        self.inputs = {name: values[name] for name in about["inputs"]}

    def expected(self, inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
        """Return what is right on the inputs, float64."""
        return self.right.numpy()

    def seen(self, inputs: Mapping[str, torch.Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
        """Return what the runtime computes; mended: what PyTorch computes of the program as it should be."""
        module = PositionalProgram(torch.export.load(self.folder / ("right.pt2" if mended else "program.pt2")))
        if not mended:
            return run(module, inputs)[0]
        with torch.no_grad():
            return module(*inputs.values()).numpy()
