"""One library for several sizes of a program, a function for each, in which what they have in common lies once.

TVM compiles the loops of each size for themselves; the weights, and what the schedule makes of them, are the same.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import TensorSpec
from kokoro_nb.backends.tvm import targets, tvm_passes
from kokoro_nb.backends.tvm.compiled_program import MAIN, entry
from kokoro_nb.backends.tvm.importer import relax_module
from kokoro_nb.backends.tvm.threads import use_threads_of_pytorch
from kokoro_nb.storage import digest


def write_sizes(programs: Iterable[Exported | Failure], specs: Sequence[TensorSpec], path: Path) -> Failure | None:
    """Compile programs that differ in the sizes of open axes alone, and link them into one library.

    Parameters
    ----------
    programs : iterable of Exported or Failure
        Each is taken when the one before has been compiled: they need not be in memory together.
    specs : sequence of TensorSpec
        Their inputs, with the axes that differ.
    path : Path
        The library that is written.

    Returns
    -------
    Failure or None
        The first among the programs, if there is one.

    Raises
    ------
    RungError
        If TVM cannot import, compile or link one of them.
    """
    import tvm

    use_threads_of_pytorch()
    builder = tvm.relax.BlockBuilder()
    known: dict[str, Any] = {}
    target = targets.target(targets.this_processor())
    for exported in programs:
        if isinstance(exported, Failure):
            return exported
        name = entry(specs, [spec.shape for spec in exported.inputs])
        with on_rung("lowered"), quietly():
            _add(builder, tvm_passes.applied(tvm_passes.loops(target), relax_module(exported), target), name, known)
    with on_rung("lowered"), quietly():
        built = tvm_passes.built(tvm_passes.applied(tvm_passes.lowering(), builder.finalize(), target), target)
    with on_rung("serialised"), quietly():
        built.export_library(str(path))
    return None


def _add(builder: Any, module: Any, name: str, known: dict[str, Any]) -> None:
    """Add the functions of a module, ``main`` under another name; functions of loops that are there already are shared.

    Parameters
    ----------
    builder : tvm.relax.BlockBuilder
    module : tvm.IRModule
    name : str
    known : dict
        Content -> constant of the functions that were added; new ones are added. TVM finds equal ones itself when it
        builds, and until then all would be in memory.
    """
    from tvm import relax, runtime
    from tvm.relax.expr_functor import PyExprMutator, mutator

    functions = {variable.name_hint: function for variable, function in module.functions_items()}
    main = functions.pop(MAIN)
    places = {own: builder.add_func(function, own) for own, function in functions.items()}

    @mutator
    class Moved(PyExprMutator):
        def visit_global_var_(self, variable: Any) -> Any:
            return places[variable.name_hint]

        def visit_generic_const_(self, constant: Any) -> Any:
            if not isinstance(constant.value, runtime.Tensor):
                return constant
            return known.setdefault(_content(constant.value.numpy()), constant)

    builder.add_func(relax.Function.with_attr(Moved().visit_expr(main), "global_symbol", name), name)


def _content(array: np.ndarray) -> str:
    return f"{array.dtype}{array.shape}{digest(array.tobytes())}"
