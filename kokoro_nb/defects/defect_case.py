"""The form of a known defect: what is wrong, the code that shows it, and a control; it needs torch and NumPy alone."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Defect:
    """What a converter, a runtime or a debugging tool gets wrong; each defect is a subclass.

    The subclass's docstring is the title and, after an empty line, the cause, one sentence each. ``broken`` is the form
    that goes wrong and ``mended`` the control, a form that is equal in exact arithmetic: what a module computes of the
    inputs if there is a `runner`, else functions that call the tool. ``right`` gives what is right, if that is not what
    PyTorch makes of the broken form in float64.

    Attributes
    ----------
    packages : tuple of str
        Distributions that are needed; the first is to blame.
    where : str
        Files and functions of its source.
    mended_by : str
        The control in words.
    limit : float
        Largest error that rounding explains, of the peak of what is expected.
    error : str
        Regular expression of the exception that the defect consists of; empty if it gives a wrong result.
    varies : str
        Why another machine may not show it; empty if all do.
    runner : str
        Module of `runners` that exports and runs ``broken`` and ``mended``; empty where the tool is called directly.
    inputs : dict
        Tensors by name, in the order in which both forms take them.
    backends : tuple of str
        Beginnings of the names of backends that show it in a program that is traced there.
    operators : tuple of str
        The operators that it is about: ``instance_norm``.
    mechanism : str
        What happens in them, as `locate.mechanism` names it; empty where the operator says enough.
    threads : tuple of str
        Public threads about this very defect, ``owner/repository#number``: reports, and changes that made or mend it.
    """

    tool: str
    packages: tuple[str, ...]
    where: str
    mended_by: str
    limit = 0.0
    error = ""
    varies = ""
    runner = ""
    backends: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    mechanism = ""
    threads: tuple[str, ...] = ()
    inputs: Mapping[str, Tensor]
    broken: Callable[..., Any]
    mended: Callable[..., Any]

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
        return " ".join(str(self.__doc__).partition("\n\n")[2].split())

    def right(self, *inputs: Any) -> Any:
        """Return what is right, from inputs in float64; here PyTorch's result of the broken form."""
        return self.module(False).double()(*inputs)

    def options(self, mended: bool) -> dict[str, bool]:
        """Return the options that the runner gets for either form."""
        return {}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the defect shows where one of its `operators` is called with these arguments, by name."""
        return True

    def module(self, mended: bool) -> nn.Module:
        """Return a form as a module."""
        form = type(self).mended if mended else type(self).broken
        return type("Form", (nn.Module,), {"forward": form})()

    def expected(self, inputs: Mapping[str, Tensor]) -> np.ndarray:
        """Return what is right on these inputs."""
        with torch.no_grad():
            return np.asarray(self.right(*(x.double() if x.is_floating_point() else x for x in inputs.values())))

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        """Return what one of the forms gives on these inputs today; `run` is the runner's."""
        if run is None:
            return np.asarray((self.mended if mended else self.broken)(*inputs.values()))
        return run(self.module(mended), inputs, **self.options(mended))[0]
