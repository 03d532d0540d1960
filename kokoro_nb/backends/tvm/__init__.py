"""TVM: ``from_exported_program`` and ``tvm.compile``, linked into a library, run on the Relax virtual machine.

TVM's own importer is watched and never replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import Add, FileBackend, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, import_failure, on_rung, quietly
from kokoro_nb.backends.called_operators import calling_module
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import array_of, as_tensors
from kokoro_nb.errors import InputError, noted, undocumented
from kokoro_nb.traces.trace import Keep

SEEN_IN = {"apache-tvm": ("0.27", "0.27")}  # the importer's table of converters, which is not documented
_TRANSLATOR = "tvm.relax.frontend.torch.exported_program_translator"
Observer = Callable[[Any, Any, Any], Any]
Place = tuple[int, str, int]  # number of the call, the function, and which argument from the end
MAIN = "main"
_OWN = "kokoro_nb_"


@dataclass(frozen=True)
class TvmProgram(FileProgram):
    """A virtual machine that runs the function ``main``; of a build with joined functions nothing else is seen."""

    machine: Any  # tvm.relax.VirtualMachine

    how: ClassVar[str] = "calls of the virtual machine"

    def computed(self, arrays: NamedArrays) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`."""
        import tvm

        tensors = map(tvm.runtime.from_dlpack, as_tensors(arrays, self.artifact.inputs).values())
        return [_array(result) for result in self.machine[MAIN](*tensors)]

    def captured(self, arrays: NamedArrays, places: Mapping[str, Any], add: Add, keep: Keep) -> list[np.ndarray]:
        """Look at what each call fills as soon as it has: see `FileProgram`."""
        self.machine.set_instrument(instrument(places, add))
        try:
            return self.computed(arrays)
        finally:
            self.machine.set_instrument(lambda *_: None)  # TVM has no way to take one off


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


class Calls:
    """Gives each node's result a variable of its own name, and finds that variable again among the compiled calls.

    TVM's passes keep the name of a variable as long as no functions are joined, but give new ones names that are taken.
    """

    def __init__(self) -> None:
        self._variables: dict[Any, str] = {}
        self._filled: dict[str, Place | None] = {}

    def observe(self, node: Any, value: Any, builder: Any) -> Any:
        """Name what a node of the decomposed program became: see `relax_module`."""
        from tvm import relax

        if not isinstance(value, relax.Var) or not isinstance(value.ty, relax.TensorType):
            return value
        self._variables[node] = f"{_OWN}{len(self._variables)}"
        return builder.emit(value, self._variables[node])

    def instrument(self) -> Any:
        """Return the instrument of TVM's passes that notes the calls as soon as ``CallTIRRewrite`` has made them."""
        import tvm

        calls = self

        @tvm.instrument.pass_instrument
        class Listing:
            def run_after_pass(self, module: Any, info: Any) -> None:
                if info.name == "CallTIRRewrite" and MAIN in [one.name_hint for one in module.get_global_vars()]:
                    calls._filled = _fillings(module[MAIN])

        return Listing()

    def places(self, exported: Exported) -> dict[str, Place]:
        """Return where each operator's result is filled in."""
        results = exported.specification.results(self._variables)
        found = {name: self._filled.get(self._variables[node]) for name, node in results.items()}
        return {name: place for name, place in found.items() if place is not None}


def _fillings(main: Any) -> dict[str, Place | None]:
    """Return, by the name of each of our variables, the call that fills it."""
    import tvm
    from tvm import relax

    allocation, view = tvm.ir.Op.get("relax.builtin.alloc_tensor"), tvm.ir.Op.get("relax.reshape")
    number = 0
    fresh: set[str] = set()
    filled: dict[str, Any] = {}  # variable -> its place; a list for a tuple; of one name the latest counts
    for binding in (binding for block in main.body.blocks for binding in block.bindings):
        value, name = binding.value, binding.var.name
        filled.pop(name, None)
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            for back, argument in enumerate(reversed(value.args), start=1):
                if _name(argument) in fresh:  # allocated just now, so this call fills it
                    fresh.remove(argument.name)
                    filled[argument.name] = (number, value.op.name_hint, -back)
            number += 1
        elif isinstance(value, relax.Call) and value.op == allocation:
            fresh.add(name)
        elif isinstance(value, relax.Call) and value.op == view:
            filled[name] = filled.get(_name(value.args[0]))  # the same memory in another shape
        elif isinstance(value, relax.Var) and value.name in filled:
            filled[name] = filled[value.name]
        elif isinstance(value, relax.Tuple):
            filled[name] = [filled.get(_name(field)) for field in value.fields]
        elif isinstance(value, relax.TupleGetItem) and filled.get(_name(value.tuple_value)):
            filled[name] = filled[value.tuple_value.name][value.index]
    return {name: place for name, place in filled.items() if name.startswith(_OWN)}


def instrument(places: Mapping[str, Place], add: Callable[[str, Any], None]) -> Callable[..., None]:
    """Return what `VirtualMachine.set_instrument` takes, to hand on each result as soon as it is computed.

    Parameters
    ----------
    places : mapping
        Name of an operator -> where its result is filled in.
    add : callable
        Called with that name and the result as an array, which must be copied if it is to be kept: the memory is used
        again. Of an operator that is a view, it has the shape of what it is a view of.

    Raises
    ------
    RuntimeError
        While it runs, if the calls are not those that were noted when the program was compiled.
    """
    wanted: dict[int, list[tuple[str, str, int]]] = {}
    for name, (number, function, back) in places.items():
        wanted.setdefault(number, []).append((name, function, back))
    count = -1

    def look(_function: Any, called: str, before: bool, _result: Any, *arguments: Any) -> None:
        nonlocal count
        if "." in called or called.startswith("shape_func"):  # of TVM itself, assertions too, and sizes of open axes
            return
        if before:
            count += 1
            return
        for name, function, back in wanted.get(count, ()):
            if function != called:
                raise RuntimeError(f"call {count} is '{called}' and was '{function}' when the program was compiled")
            add(name, _array(arguments[back]))

    return look


def _array(tensor: Any) -> np.ndarray:
    """Return the numbers of a tensor of TVM's: see `array_of`."""
    import torch

    return array_of(torch.from_dlpack(tensor))


def _name(expression: Any) -> str:
    return getattr(expression, "name", "")


@dataclass(frozen=True)
class Tvm(FileBackend):
    """TVM on this processor, as its own entry points build it.

    Attributes
    ----------
    fused : bool
        Compile with `tvm.relax.get_default_pipeline` of the target, which folds constants and joins operators into one
        function. Without, with the default of `tvm.compile`, which joins nothing: each operator is one call on the
        virtual machine, so that each can be traced.

    Notes
    -----
    What TVM 0.27 gets wrong is in `kokoro_nb.defects.cases.tvm_defects`, each with a program that shows it.
    """

    fused: bool = True

    file: ClassVar[str] = "model.so"
    packages: ClassVar[tuple[str, ...]] = ("apache-tvm", "apache-tvm-ffi")

    def available(self) -> str | None:
        """Return None if TVM and a compiler to link with are here, else the reason why not, in one sentence."""
        absent = import_failure("TVM", "tvm", "tvm.relax")
        if absent:
            return absent
        from tvm.support.cc import get_cc

        return None if get_cc() else "TVM links its library with a C compiler, and there is none; install gcc or clang."

    def options(self) -> dict[str, Any]:
        """Return the target and the kind of build."""
        return {"target": "llvm", "fused": self.fused}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, Place] | None:
        """Import, compile and link."""
        calls = None if self.fused else Calls()
        with on_rung("lowered", seconds), quietly():
            import tvm

            target = tvm.target.Target(self.options()["target"])
            pipeline = self.pipeline(target)
            module = relax_module(exported.program, None if calls is None else calls.observe)
            with tvm.transform.PassContext(instruments=[] if calls is None else [calls.instrument()]):
                built = tvm.compile(module, target=target, relax_pipeline=pipeline)
        with on_rung("serialised", seconds), quietly():
            built.export_library(str(path))
        return calls.places(exported) if calls else None

    def opened(self, artifact: Artifact, path: Path) -> TvmProgram:
        """Load the library into a virtual machine."""
        import tvm

        return TvmProgram(artifact, tvm.relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu()))

    def pipeline(self, target: Any) -> Any:
        """Return TVM's passes for a target."""
        from tvm import relax

        return relax.get_default_pipeline(target) if self.fused else "default"
