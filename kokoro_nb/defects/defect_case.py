"""The form of a known defect: what is wrong, the code that shows it, and a control; it needs torch and NumPy alone."""

import inspect
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


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

    where = property(lambda self: self._told("Where"), doc="Files and functions of the tool's source.")
    mended_by = property(lambda self: self._told("Control"), doc="The control in words.")
    varies = property(lambda self: self._told("Varies"), doc="Why another machine may not show it; empty if all do.")
    threads = property(lambda self: tuple(self._told("Threads").replace(",", " ").split()), doc="About this defect.")

    def _told(self, what: str) -> str:
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
    concerns = staticmethod(lambda arguments: arguments.get("rounding_mode", "floor") == "floor")
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
