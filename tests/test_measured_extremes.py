"""Built-in max and min forget NaN: `max(0.1, nan)` is 0.1. What was measured goes through NumPy's, which return NaN.

So do NumPy's and PyTorch's functions that leave NaN out.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DRAWING = ("commands", "reporting")  # what they show was measured elsewhere, and is checked before
WHOLE = {"int", "len", "round", "ceil", "numel", "prod"}  # what these return is an integer
COUNTS = {
    "frames",
    "room",
    "size",
    "ndim",
    "buckets",
    "calls",
}  # what is called so is a count, a request or a wall time
# the rest of what is no measurement: integers, names and requests
OTHER = {
    "min(enough)",
    "max(self.contract.buckets.values())",
    "min(set(only) - set(steps))",
    "min(buckets)",
    "min(self.request.seconds)",
    "max(changes.get(call.after, 0.0), call.change, key=_size)",  # a key that puts NaN first
    "max(self.history.changes.values(), key=_size)",
    "max(parities, key=lambda parity: (np.isnan(parity.of_peak), parity.of_peak))",  # likewise
    "min(seconds[0])",  # wall times
    "min(seconds[1])",
    "min(peak, LARGEST - 32)",
    "min(a, b)",  # of two shapes
    "min(ids, rows)",
    "max(numbers)",  # ids of symbols
    "min(embedded)",
    "min(bounds, default=None)",
    "min(places, key=lambda one: -one[0])",
    "min(model.ir_version, IR_VERSION)",
    "min(forms, key=lambda one: abs(_number(one.known[0]) - _number(version)))",
    "max(grown, key=lambda one: one.noise - one.before, default=None)",  # what is finite alone
    "max(self.outputs, key=lambda one: np.inf if np.isnan(one.ratio) else one.ratio, default=None)",  # NaN first
    "min(((other, sketch.distance(each)) for other, each in known.items()), key=lambda p: p[1], default=('', np.inf))",
    "min(near, key=lambda one: abs(np.log(one)))",  # what is near is finite
    "min(((other, one.distance(others[other])) for other in near), key=lambda pair: pair[1])",  # never NaN
    "min(limit, PASSES)",
    "min(100 * fraction, 99.99)",  # so that not all is never shown as all
    "max(handles)",
    "max((positions.get(user, beyond) for user in node.users), default=positions[node])",
    "max(needed_until, self._last_read[node])",
    "max(indices)",
    "max(before, after)",  # of two lengths
    "min(candidates, key=cycles)",
    "min(rows, key=len, default=[])",
    "min(group, count)",
    "min(rounds, max(1, int(limit / max(_seconds(call, clock), 1e-09))))",  # wall times
    "max(_seconds(call, clock), 1e-09)",
    "min((each['ts'] + each['dur'] for each in output if each['name'] == 'model_run'))",
    "min(times)",
    "min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())",
    "max(places, key=self._age, default=None)",
    "max((axis for axis in range(1, weight.ndim) if weight.shape[axis] > 1))",
    "max(map(len, turned))",
    "max((self._last, *nodes), key=order.__getitem__)",
    "max((ending for ending, _ in fitting), default=0)",
    "min(end, frame + utterance.after_stop)",
    "min(shares)",  # whose sum is finite
    "max(abs(self.minimum), abs(self.maximum))",  # both of what is finite, or both NaN
    "min(low, least)",  # of what is finite alone
    "max(high, most)",
    "max(-least, most)",
    "max(-low, high)",
    "max(full_config()['vocab'].values())",
    "min(self.step / max(s.steps, 1), 1.0)",  # of steps
    "min((self.step + 1) / s.warm_up, 1.0)",
}
FORGETFUL = ("fmax", "fmin", "nan_to_num", "nanmax", "nanmin", "nanmean", "nanmedian", "nanquantile", "nanpercentile")
FORGETFUL += ("nansum", "nanstd", "nanvar", "nanargmax", "nanargmin")


def code(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def extremes(source: str) -> Iterator[str]:
    """Yield every call of the built-in max or min that may compare measured figures."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
            parts = [one.elt if isinstance(one, ast.GeneratorExp) else one for one in node.args]
            if not any(map(whole, parts)) and ast.unparse(node) not in OTHER:
                yield ast.unparse(node)


def whole(node: ast.expr) -> bool:
    """Return whether an expression is visibly an integer, or counted."""
    if isinstance(node, ast.BinOp):
        sides = (whole(node.left), whole(node.right))
        return all(sides) if isinstance(node.op, ast.Mult | ast.Div) else any(sides)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in WHOLE
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Subscript):
        return getattr(node.value, "attr", "") == "shape"
    return getattr(node, "attr", getattr(node, "id", "")) in COUNTS


def forgetful(source: str) -> Iterator[str]:
    """Yield every call of a library's function that leaves NaN out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FORGETFUL:
            yield ast.unparse(node)


PACKAGE = ROOT / "kokoro_nb"
FILES = [*(ROOT / "notebooks").glob("*.ipynb")]
FILES += [path for path in PACKAGE.rglob("*/*.py") if path.relative_to(PACKAGE).parts[0] not in DRAWING]


def test_no_measured_figure_goes_through_the_built_in_extremes():
    found = {path.name: [*extremes(code(path))] for path in FILES}
    assert {name: calls for name, calls in found.items() if calls} == {}
    assert len(FILES) > 500


def test_nothing_that_leaves_nan_out_is_called():
    found = {path.name: [*forgetful(code(path))] for path in FILES}
    assert {name: calls for name, calls in found.items() if calls} == {}
    assert [*forgetful("np.nanmax(errors) + np.max(errors)")] == ["np.nanmax(errors)"]


@pytest.mark.parametrize(
    ("call", "caught"),
    [
        ("max(one.of_peak for one in runs)", True),
        ("max(1e-5, 2 * rounding)", True),
        ("min(figures)", True),
        ("max(runs, key=lambda run: run.error)", True),
        ("max(2 * figure, limit)", True),
        ("max(0, end - around)", False),
        ("min(len(first) - 1, lag)", False),
        ("min(frames, case.frames)", False),
    ],
)
def test_the_rule_sees_what_it_should(call, caught):
    assert len([*extremes(call)]) == caught
