"""onnx's own node tests, with float64 in place of float32: an oracle of 1e-12 that nobody here wrote.

Each case of ``onnx.backend.test.case.node`` computes in NumPy what its node should give. Its source is read with every
``np.float32`` made ``np.float64`` and ``complex64`` made ``complex128``. An attribute of ONNX holds no more than
float32, so that a second reading also rounds the numbers in the source to float32; a case passes by either.
"""

import ast
import contextlib
import copy
import inspect
import pkgutil
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, computed, dtypes_of

ROOM = "onnx.backend.test.case.node"
LIMIT = 1e-12
RANDOM = {
    *("test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed", "test_training_dropout"),
    *("test_training_dropout_default", "test_training_dropout_default_mask", "test_training_dropout_mask"),
}
_LITERAL = """
adam adam_multiple averagepool_2d_ceil_last_window_starts_on_pad basic_deform_conv_with_padding
basic_deform_conv_without_padding deform_conv_with_mask_bias deform_conv_with_multiple_offset_groups gridsample
gridsample_zeros_padding gridsample_border_padding gridsample_reflection_padding gridsample_bilinear
gridsample_aligncorners_true gridsample_bicubic gridsample_bilinear_align_corners_0_additional_1
gridsample_bilinear_align_corners_1_additional_1 gridsample_bicubic_align_corners_0_additional_1
gridsample_bicubic_align_corners_1_additional_1 gridsample_volumetric_bilinear_align_corners_0
gridsample_volumetric_bilinear_align_corners_1 resize_upsample_scales_cubic_align_corners
resize_downsample_scales_cubic_align_corners resize_upsample_sizes_cubic resize_downsample_sizes_cubic
resize_downsample_scales_cubic_antialias resize_downsample_sizes_cubic_antialias roialign_aligned_false
roialign_aligned_true roialign_mode_max
"""
_FLEXIBLE = "score_mod prob_mod causal_mask soft_cap relative_positional"
OTHER = {
    **dict.fromkeys((f"test_{name}" for name in _LITERAL.split()), "what is right is a table of a few digits"),
    **dict.fromkeys((f"test_flexattention_{k}" for k in _FLEXIBLE.split()), "a preview operator, bodies of float32"),
    "test_constant": "the constant in the node is a float32",
    "test_scan_sum": "Scan of opset 8, which was replaced in the next",
}
"""The float cases that do not come out to 1e-12, and why."""


@dataclass(frozen=True, eq=False)
class NodeCase:
    """One node with what goes in and what has to come out.

    Attributes
    ----------
    name : str
        What it is called.
    node : onnx.NodeProto
        The node.
    opsets : dict of str to int
        Which version of each domain it is of.
    inputs, outputs : list
        Arrays; lists for sequences, None for what is absent.
    """

    name: str
    node: Any
    opsets: dict[str, int]
    inputs: list[Any]
    outputs: list[Any]


class _Doubled(ast.NodeTransformer):
    def __init__(self, rounded: bool, original: bool) -> None:
        self.rounded, self.original = rounded, original

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "np" and not self.original:
            node.attr = {"float32": "float64", "complex64": "complex128"}.get(node.attr, node.attr)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.bases = []  # their metaclass would register the case once more
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if self.rounded and isinstance(node.value, float):
            node.value = float(np.float32(node.value))
        return node


def module_names() -> list[str]:
    """Return the names of all modules of cases."""
    import onnx.backend.test.case.node as room

    return [info.name for info in pkgutil.iter_modules(room.__path__) if not info.name.startswith("_")]


def cases_of(module: str, *, rounded: bool = False, original: bool = False) -> list[NodeCase]:
    """Return the cases of one module, but for those of which no function can be read so.

    Parameters
    ----------
    module : str
        Of `module_names`.
    rounded : bool
        Round numbers in the source to float32.
    original : bool
        Leave everything in float32.
    """
    import onnx
    import onnx.backend.test.case.node as room

    path = f"{next(iter(room.__path__))}/{module}.py"
    with open(path, encoding="utf-8") as file:
        tree = _Doubled(rounded, original).visit(ast.parse(file.read()))
    space = types.ModuleType(f"{ROOM}.{module}")
    space.__package__ = ROOM
    exec(compile(tree, path, "exec"), space.__dict__)
    found: list[NodeCase] = []

    def expect(node: Any, inputs: Any, outputs: Any, name: str, **more: Any) -> None:
        if not isinstance(node, onnx.NodeProto):
            return
        imports = more.get("opset_imports")
        schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
        newest = onnx.defs.onnx_opset_version() if not node.domain else schema.since_version
        opsets = {one.domain: one.version for one in imports} if imports else {node.domain: newest}
        given, right = (_arrays(copy.deepcopy(list(values))) for values in (inputs, outputs))
        found.append(NodeCase(name, node, opsets, given, right))

    space.expect = expect  # type: ignore[attr-defined]
    for group in vars(space).copy().values():
        if not inspect.isclass(group) or group.__module__ != space.__name__:
            continue
        for name, function in vars(group).items():
            if name.startswith("export"):
                np.random.seed(0)
                with contextlib.suppress(Exception):  # what no longer fits together in float64: views of bytes, mostly
                    function()
    return found


def _arrays(values: Iterable[Any]) -> list[Any]:
    """Return tensors of ONNX as arrays."""
    import onnx

    return [onnx.numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else one for one in values]


def distance(given: Any, right: Any) -> float:
    """Return the largest difference as a share of the largest right value: infinite where kind or shape differ."""
    if isinstance(right, list | tuple):
        if len(given) != len(right):
            return np.inf
        return float(np.max([distance(g, r) for g, r in zip(given, right, strict=True)], initial=0.0))
    if given is None or right is None:
        return 0.0 if given is right else np.inf
    given, right = np.asarray(given), np.asarray(right)
    if given.shape != right.shape:
        return np.inf
    numeric = "fiubc"
    if given.dtype.kind not in numeric or right.dtype.kind not in numeric:
        try:
            given, right = given.astype(np.float64), right.astype(np.float64)
        except (TypeError, ValueError):
            return 0.0 if given.tolist() == right.tolist() else np.inf
    wide = np.complex128 if "c" in (given.dtype.kind, right.dtype.kind) else np.float64
    given, right = given.astype(wide), right.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.where((given == right) | (np.isnan(given) & np.isnan(right)), 0, np.abs(given - right))
    peak = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    return float(np.max(apart / (peak or 1.0), initial=0.0)) if not np.isnan(apart).any() else np.inf


def distances(module: str) -> dict[str, float]:
    """Return the smaller distance of both readings by the name of each case that gives float64 and draws nothing."""
    found: dict[str, float] = {}
    for rounded in (False, True):
        for case in cases_of(module, rounded=rounded):
            arrays = [one for one in case.outputs if isinstance(one, np.ndarray)]
            if case.name in RANDOM or not any(one.dtype == np.float64 for one in arrays):
                continue
            if found.get(case.name, np.inf) > LIMIT:
                found[case.name] = float(np.min([found.get(case.name, np.inf), _distance(case)]))
    return found


def _distance(case: NodeCase) -> float:
    given = iter(case.inputs)
    inputs = [next(given) if name else None for name in case.node.input]
    try:
        outputs = computed(OnnxCall(case.node, case.opsets, dtypes_of(inputs)), inputs)
    except NotDefined:
        return np.inf
    return distance([one for one, name in zip(outputs, case.node.output, strict=False) if name], case.outputs)
