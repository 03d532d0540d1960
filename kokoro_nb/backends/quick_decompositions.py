"""Decompositions by PyTorch without work whose result is known before; the programs are the same.

Each decomposition, of which an export has two to fifteen, looks every composite operator up by its name once for each
namespace of operators, and registers some twenty rules for each of them, where Python writes the types of the rule out
anew: a tenth of a second, whatever is decomposed. For a small program that is most of its export; for a large one it is
that all operators are traced, see `distinct_calls`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kokoro_nb.backends.distinct_calls import decomposed

_open: list[object] = []  # the block that is open
_looked_up: list[str] = []  # operators stay, once they have been looked up


@contextmanager
def quick_decompositions() -> Iterator[None]:
    """Have only what is new looked up, rules registered directly and each call decomposed once; for the process."""
    from torch._C import DispatchKey, _dispatch_get_registrations_for_dispatch_key
    from torch._export import utils
    from torch._ops import OperatorBase
    from torch.export import ExportedProgram

    if _open:
        yield
        return
    look_up, register = utils._materialize_cpp_cia_ops, OperatorBase.py_impl
    decompose = ExportedProgram.run_decompositions

    def run_decompositions(program: Any, table: Any = None, *more: Any, **options: Any) -> Any:
        made = None if table is None or more or options else decomposed(program, table, decompose_looking_once)
        return decompose_looking_once(program, table, *more, **options) if made is None else made

    def decompose_looking_once(*given: Any, **options: Any) -> Any:
        look_up_new()
        # while a program is decomposed no operator is defined, and new ones would be looked for forty times
        with patch.object(utils, "_materialize_cpp_cia_ops", lambda: None):
            return decompose(*given, **options)

    def look_up_new() -> None:
        names = _dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if names != _looked_up:
            look_up()
            _looked_up[:] = names

    def register_directly(operator: Any, key: Any) -> Any:
        if not isinstance(key, DispatchKey) or key == DispatchKey.Python or key in operator.py_kernels:
            return register(operator, key)  # which refuses, or knows another table

        def add(rule: Any) -> Any:
            operator.py_kernels[key] = rule
            operator._dispatch_cache.clear()
            return rule

        return add

    with (
        patch.object(utils, "_materialize_cpp_cia_ops", look_up_new),
        patch.object(OperatorBase, "py_impl", register_directly),
        patch.object(ExportedProgram, "run_decompositions", run_decompositions),
    ):
        _open.append(run_decompositions)
        try:
            yield
        finally:
            _open.clear()
