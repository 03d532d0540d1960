"""What a function of TensorIR is made of: loop nests around one block each, told apart by structure alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Nest:
    """One loop nest of a function, and the block in it."""

    stmt: Any  # tvm.tirx.Stmt: the outermost loop
    block: Any  # tvm.s_tir.SBlock
    stores: tuple[Any, ...]  # of tvm.tirx.BufferStore: the block writes one element of each of its results

    @property
    def name(self) -> str:
        """Return the name of the block."""
        return str(self.block.name_hint)

    @property
    def axes(self) -> dict[Any, int]:
        """Return the axes of the block and their extents."""
        return {axis.var: int(axis.dom.extent) for axis in self.block.iter_vars}

    @property
    def reduces(self) -> dict[Any, int]:
        """Return the axes that the block reduces over, and their extents."""
        return {axis.var: int(axis.dom.extent) for axis in self.block.iter_vars if axis.iter_type == _REDUCES}

    @property
    def injective(self) -> bool:
        """Return whether every element is computed at once, from others than itself."""
        return not self.reduces

    @property
    def store(self) -> Any | None:
        """Return the one statement of the block, None if there are several."""
        return self.stores[0] if same(self.block.body, self.stores[0]) else None

    @property
    def in_order(self) -> bool:
        """Return whether each dimension of the one result is an axis of its own, or of length 1."""
        places = [] if self.store is None else list(self.store.indices)
        axes = [place for place in places if any(same(place, var) for var in self.axes)]
        single = all(int_of(place) == 0 for place in places if not any(same(place, axis) for axis in axes))
        return self.store is not None and single and len(set(axes)) == len(axes)


Values = Mapping[Any, Any]  # variable -> what stands for it

CHOICE = "prim.if_then_else"  # TVM's name of the expression that evaluates one of its two values
_SPREADS, _REDUCES = 0, 2  # IterVar.DataPar, IterVar.CommReduce


def nests(function: Any) -> list[Nest] | None:
    """Return the loop nests of `function` in order, or None if it is made of anything else.

    What is accepted is what Relax's legalisation makes of tensor expressions: plain loops of constant extent around one
    block that stores one element of each of its results.
    """
    from tvm import s_tir

    if not isinstance(function.body, s_tir.SBlockRealize) or function.body.block.iter_vars:
        return None
    found = [_nest(stmt) for stmt in _sequence(function.body.block.body)]
    return None if None in found else [nest for nest in found if nest is not None]


def _nest(stmt: Any) -> Nest | None:
    from tvm import s_tir, tirx

    loops, inner = [], stmt
    while isinstance(inner, tirx.For):
        if inner.kind != tirx.ForKind.SERIAL or int_of(inner.extent) is None or int_of(inner.min) != 0:
            return None
        loops.append(inner.loop_var)
        inner = inner.body
    if not isinstance(inner, s_tir.SBlockRealize) or len(inner.block.iter_vars) != len(loops):
        return None
    block, steps = inner.block, _sequence(inner.block.body)
    stores = tuple(step for step in steps if isinstance(step, tirx.BufferStore))
    plain = (
        all(isinstance(step, tirx.BufferStore | tirx.Bind) for step in steps)
        and all(map(same, inner.iter_values, loops))
        and all(axis.iter_type in (_SPREADS, _REDUCES) and int_of(axis.dom.min) == 0 for axis in block.iter_vars)
        and not (block.match_buffers or block.alloc_buffers)
        and int_of(inner.predicate) == 1
    )
    return Nest(stmt, block, stores) if plain and stores else None


def _sequence(stmt: Any) -> list[Any]:
    from tvm import tirx

    return list(stmt.seq) if isinstance(stmt, tirx.SeqStmt) else [stmt]


def same(a: Any, b: Any) -> bool:
    """Return whether two expressions are one object."""
    return bool(a.same_as(b))


def int_of(expression: Any) -> int | None:
    """Return the value of an integer constant, None of anything else."""
    from tvm import tirx

    return int(expression) if isinstance(expression, int | tirx.IntImm) else None


def uses(expression: Any, variable: Any) -> bool:
    """Return whether `variable` occurs in `expression`."""
    return any(same(found, variable) for found in every(expression, type(variable)))


def every(root: Any, kind: type) -> Iterator[Any]:
    """Give every object of type `kind` in a statement or expression."""
    import tvm_ffi

    found: list[Any] = []
    tvm_ffi.structural_walk(root, (kind, found.append))
    yield from found


def substituted(root: Any, mapping: Values) -> Any:
    """Return a statement or expression with variables, or buffers, put in place of others."""
    import tvm_ffi
    from tvm import tirx

    return tvm_ffi.structural_map(root, (tirx.Var, lambda variable: mapping.get(variable, variable)))


def simplified(root: Any, extents: Mapping[Any, int]) -> Any:
    """Return an expression simplified by the ranges of its variables, each from 0 on."""
    from tvm import ir, sym

    analyzer = sym.Analyzer()
    for variable, extent in extents.items():
        analyzer.bind(variable, ir.Range(0, extent))
    return analyzer.simplify(root)


def constant(value: int, like: Any) -> Any:
    """Return an integer constant of the type of the variable `like`."""
    from tvm import tirx

    return tirx.const(value, like.ty.dtype)


def spliced(function: Any, old: Nest, new: Any, buffers: Sequence[Any]) -> Any:
    """Return `function` with the nests of `new` in the place of one of its own.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        The function.
    old : Nest
        The nest to replace.
    new : tvm.tirx.PrimFunc
        What computes the same buffer, from `te.create_prim_func`.
    buffers : sequence of tvm.tirx.Buffer
        The buffers of `function` that the parameters of `new` stand for.
    """
    from tvm import s_tir, tirx

    root, inner = function.body.block, substituted(new.body.block, dict(zip(new.params, buffers, strict=True)))
    before = _sequence(root.body)
    here = next(i for i, stmt in enumerate(before) if same(stmt, old.stmt))
    steps = [*before[:here], *_sequence(inner.body), *before[here + 1 :]]
    body = tirx.SeqStmt(steps) if len(steps) > 1 else steps[0]
    allocated = [*root.alloc_buffers, *inner.alloc_buffers]
    block = s_tir.SBlock([], [], [], "root", body, alloc_buffers=allocated)
    return function.with_body(s_tir.SBlockRealize([], True, block))
