"""From an exported program to a Relax module, by TVM's own importer, which is watched and never replaced."""

from collections.abc import Callable
from typing import Any

from kokoro_nb.backends.called_operators import calling_module
from kokoro_nb.errors import InputError, noted, undocumented

SEEN_IN = {"apache-tvm": ("0.27", "0.27")}  # the importer's table of converters, which is not documented
_TRANSLATOR = "tvm.relax.frontend.torch.exported_program_translator"

Observer = Callable[[Any, Any, Any], Any]


def relax_module(program: Any, observer: Observer | None = None) -> Any:
    """Return the Relax module that ``tvm.relax.frontend.torch.from_exported_program`` makes of a program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        The program, as it was exported.
    observer : callable, optional
        Called with each node of the decomposed graph, the Relax expression that TVM made of it and TVM's block
        builder, in the order of computation. It returns that expression, which may have been given a name.

    Returns
    -------
    tvm.IRModule
        One function, ``main``, of the program's inputs in order; the weights are constants in it.

    Raises
    ------
    Exception
        Whatever TVM raises, with a note that says at which node.
    """
    from tvm.relax.frontend.torch import from_exported_program

    return from_exported_program(program, custom_convert_map=_watched(observer))


def _watched(observer: Observer | None) -> dict[str, Callable[..., Any]]:
    """Return the table of all converters of TVM's, each of which does what it does and is looked at."""
    try:
        importer_of = undocumented(_TRANSLATOR, "ExportedProgramImporter", "No operator of TVM's is shown", SEEN_IN)
    except InputError:
        return {}
    own: dict[Any, dict[str, Callable[..., Any]]] = {}  # importer -> its converters

    def watched(name: str) -> Callable[..., Any]:
        def convert(node: Any, importer: Any = None) -> Any:  # None in a branch of `torch.cond`
            if importer is not None and importer not in own:
                own[importer] = importer.create_convert_map()
            try:
                value = own[importer or next(reversed(own))][name](node)
            except Exception as error:
                noted(error, f"at '{node.name}' ({name}) in {calling_module(node) or 'the module'}")
                raise
            return value if observer is None or importer is None else observer(node, value, importer.block_builder)

        return convert

    return {name: watched(name) for name in importer_of().convert_map}
