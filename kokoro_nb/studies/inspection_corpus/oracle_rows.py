"""What operators compute in float64 beside onnx's own node tests, module by module: to 1e-12, or listed with why."""

from dataclasses import dataclass

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, dtypes_of
from kokoro_nb.inspection.semantics.operator_semantics import NotDefined, computed
from kokoro_nb.studies.inspection_corpus.node_tests import NodeCase, cases_of, distance, module_names

LIMIT = 1e-12
LEFT_OUT = ("ai_onnx_ml",)  # trees and tables: no operators of a network
RANDOM = {
    *("test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed", "test_training_dropout"),
    *("test_training_dropout_default", "test_training_dropout_default_mask", "test_training_dropout_mask"),
}
LITERAL = "what is right is a table of a few digits"
OTHER = {
    "test_adam": LITERAL,
    "test_adam_multiple": LITERAL,
    "test_averagepool_2d_ceil_last_window_starts_on_pad": LITERAL,
    "test_constant": "the constant in the node is a float32",
    **dict.fromkeys(
        [
            f"test_{name}"
            for name in (
                *("basic_deform_conv_with_padding", "basic_deform_conv_without_padding", "deform_conv_with_mask_bias"),
                "deform_conv_with_multiple_offset_groups",
            )
        ],
        LITERAL,
    ),
    **dict.fromkeys(
        [
            f"test_flexattention_{k}"
            for k in ("score_mod", "prob_mod", "causal_mask", "soft_cap", "relative_positional")
        ],
        "a preview operator whose bodies hold float32",
    ),
    **dict.fromkeys(
        [f"test_gridsample{kind}" for kind in ("", "_zeros_padding", "_border_padding", "_reflection_padding")]
        + [f"test_gridsample_{kind}" for kind in ("bilinear", "aligncorners_true", "bicubic")]
        + [f"test_gridsample_{k}_align_corners_{a}_additional_1" for k in ("bilinear", "bicubic") for a in (0, 1)]
        + [f"test_gridsample_volumetric_bilinear_align_corners_{a}" for a in (0, 1)],
        LITERAL,
    ),
    **dict.fromkeys(
        [
            f"test_resize_{name}"
            for name in (
                *("upsample_scales_cubic_align_corners", "downsample_scales_cubic_align_corners"),
                *("upsample_sizes_cubic", "downsample_sizes_cubic"),
                *("downsample_scales_cubic_antialias", "downsample_sizes_cubic_antialias"),
            )
        ],
        LITERAL,
    ),
    **dict.fromkeys(["test_roialign_aligned_false", "test_roialign_aligned_true", "test_roialign_mode_max"], LITERAL),
    "test_scan_sum": "Scan of opset 8, which was replaced in the next",
}
"""The float cases that do not come out to 1e-12, and why."""


@dataclass(frozen=True)
class NodeTests:
    """The cases of one module."""

    module: str

    @property
    def name(self) -> str:
        """The module."""
        return self.module


@dataclass(frozen=True)
class OracleRow:
    """How many of a module's deterministic float cases come out.

    Attributes
    ----------
    case : str
        The module.
    cases, within : int
        How many there are, and how many come out to 1e-12 of the largest value.
    others : tuple of str
        The others, each with the reason.
    """

    case: str
    cases: int
    within: int
    others: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether each other one has a reason."""
        return all(": " in one for one in self.others) and self.within + len(self.others) == self.cases


def oracle_entries() -> tuple[NodeTests, ...]:
    """Return the modules of onnx's node tests."""
    return tuple(NodeTests(name) for name in module_names() if name not in LEFT_OUT)


def oracle_row(tests: NodeTests) -> OracleRow:
    """Compute the cases of a module."""
    apart = distances(tests.module)
    failed = [name for name, one in apart.items() if not one <= LIMIT]
    others = tuple(f"{name}: {OTHER[name]}" if name in OTHER else name for name in failed)
    return OracleRow(tests.name, len(apart), len(apart) - len(failed), others)


def distances(module: str) -> dict[str, float]:
    """Return the smaller distance of both readings by the name of each case that gives float64 and draws nothing."""
    found: dict[str, float] = {}
    for rounded in (False, True):
        for case in cases_of(module, rounded=rounded)[0]:
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
