"""TVM's folding of constants, in which a function of loops is compiled once; the module is the same.

For each constant that an operator can be computed of, TVM compiles that operator's function, though half a dozen
functions move the weights of all layers alike: of a decoder 276 are compiled, of which 47 differ, and that is almost
half of TVM's time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

BUILD = "tirx.build"  # the function of TVM that the pass looks up to compile


@contextmanager
def quick_folding() -> Iterator[None]:
    """Have the pass `FoldConstant` take a function that it has compiled before in this process."""
    import tvm

    plain = tvm.get_global_func(BUILD)
    tvm.register_global_func(BUILD, _compiled_once(plain), override=True)
    try:
        yield
    finally:
        tvm.register_global_func(BUILD, plain, override=True)


@cache
def _compiled_once(compiled: Any) -> Any:
    from tvm_ffi import StructuralKey

    known: dict[tuple[Any, str], Any] = {}

    def compiled_once(function: Any, target: Any = None) -> Any:
        # equal where the loops are, whatever their variables are called
        key = StructuralKey(function), str(target)  # type: ignore[call-arg]
        if key not in known:
            known[key] = compiled(function, target)
        return known[key]

    return compiled_once
