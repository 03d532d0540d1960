"""From an exported program to a Relax module: decomposed, refused where TVM would go wrong in silence, and checked."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from kokoro_nb.backends.called_operators import arguments_by_name, calling_module, calls
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.late_code import late_code
from kokoro_nb.backends.quick_decompositions import quick_decompositions
from kokoro_nb.backends.signature import dtype_name
from kokoro_nb.backends.tvm.calls import GraphCall
from kokoro_nb.backends.tvm.tvm_converters import CONVERTERS, FOR_PROCESSORS

Observer = Callable[[Any, Any, Any], Any]
_DECOMPOSED: WeakKeyDictionary[Any, dict[bool, Any]] = WeakKeyDictionary()  # exported program -> keeps LSTMs -> program


def relax_module(exported: Exported, host: bool = True, observer: Observer | None = None) -> Any:
    """Return the Relax module of an exported program: one function, ``main``, of its inputs in order.

    Parameters
    ----------
    exported : Exported
        The program.
    host : bool
        Whether the code is for a processor, which can raise errors: then indices are checked, and an LSTM is one
        kernel per layer and direction; else it is unrolled.
    observer : callable, optional
        Called with each node of the decomposed graph, the Relax expression that it became and TVM's block builder, in
        the order of computation. It returns the expression that is to stand for the node.

    Returns
    -------
    tvm.IRModule
        The weights are constants in it.

    Raises
    ------
    NotImplementedError
        If an operator draws random numbers, or TVM's importer gives a result of another shape or dtype than PyTorch.
    """
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    program = decomposed(exported.program, host)
    refuse_random(program)
    importer = ExportedProgramImporter()
    table = {name: _converter(name, importer, host, observer) for name in {*importer.convert_map, *CONVERTERS}}
    return importer.from_exported_program(program, False, False, False, table)


def decomposed(program: Any, host: bool = True) -> Any:
    """Return an exported program in the operators that we convert, made once for all machines that treat it alike.

    To PyTorch's own table are added operators that TVM's importer lacks or gets wrong and PyTorch can take apart.
    """
    import torch
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    keeps_lstms = host and any(node.target is aten.lstm.input for _, node in calls(program))
    made = _DECOMPOSED.setdefault(program, {})
    if keeps_lstms not in made:
        with late_code(), quick_decompositions():
            table = torch.export.default_decompositions()
            table.update(get_decompositions([aten.elu, aten.celu, aten.hardtanh]))
            if keeps_lstms:
                del table[aten.lstm.input]
            made[keeps_lstms] = program.run_decompositions(table)
    return made[keeps_lstms]


def refuse_random(program: Any) -> None:
    """Refuse a program with an operator that draws random numbers.

    Raises
    ------
    NotImplementedError
        If there is one; it is named.
    """
    import torch

    for name, node in calls(program):
        if torch.Tag.nondeterministic_seeded in node.target.tags and not _at_rest(node):
            raise NotImplementedError(
                f"'{name}' draws random numbers, and TVM's importer would bake one draw into the artefact as a "
                "constant, or leave it out; make the noise an input (for Kokoro: the patch 'explicit_noise')."
            )


def _at_rest(node: Any) -> bool:
    """Return whether a node, such as an LSTM, draws numbers for its dropout alone, and has none."""
    arguments = arguments_by_name(node)
    return arguments.get("train") is False or arguments.get("dropout") == 0


def _converter(name: str, importer: Any, host: bool, observer: Observer | None) -> Callable[..., Any]:
    """Return the converter of one operator, ours or TVM's, with a check of what it gives."""
    theirs = importer.convert_map.get(name)
    ours = CONVERTERS.get(name) if host or name not in FOR_PROCESSORS else None

    def convert(node: Any, _importer: Any = None) -> Any:
        try:
            value = ours(GraphCall(node, importer, host)) if ours else theirs(node)
        except Exception as error:
            error.add_note(f"at '{node.name}' ({name}) in {calling_module(node) or 'the module'}")
            raise
        _require_type(node, value)
        return value if observer is None else observer(node, value, importer.block_builder)

    return convert


def _require_type(node: Any, value: Any) -> None:
    """Refuse a result of another shape or dtype than PyTorch's.

    Raises
    ------
    NotImplementedError
        If it differs.
    """
    from tvm import relax

    if not isinstance(value, relax.Expr):
        return
    expected, given = node.meta.get("val"), value.ty
    if not hasattr(expected, "stride") or not isinstance(given, relax.TensorType):
        return  # no tensor; of several, each is checked where it is taken out
    theirs = dtype_name(expected.dtype), tuple(int(size) for size in expected.shape)
    ours = str(given.dtype.dtype), tuple(int(size) for size in given.shape)
    if ours != theirs:
        raise NotImplementedError(
            f"TVM's importer makes {ours} of '{node.name}' in {calling_module(node) or 'the module'}, "
            f"which is {theirs} in PyTorch."
        )
