"""Built-in max and min forget NaN: `max(0.1, nan)` is 0.1. What was measured goes through NumPy's, which return NaN.

So do NumPy's and PyTorch's functions that leave NaN out.
"""

import ast
import json
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DRAWING = ("commands", "reporting")  # what they show was measured elsewhere, and is checked before
WHOLE = {"int", "len", "round", "ceil", "numel", "prod"}  # what these return is an integer
COUNTS = {"frames", "room", "size", "ndim", "buckets", "calls"}  # what is called so is a count or a request
WALL = "wall times, which are always numbers"
OTHER: dict[str, str] = {  # the rest of what is no measurement -> why NaN cannot be forgotten
    "min(((room, name) for name, room in self.contract.buckets.items() if frames <= room))": (
        "pairs of a bucket's frames, an integer, and its name"
    ),
    "max(self.contract.buckets.values(), default=self.contract.most_frames or float('inf'))": (
        "frames of buckets or of a program, integers"
    ),
    "max(self.seconds)": "lengths that a caller asked for, none of them measured",
    "max(self.outputs, key=lambda one: np.inf if np.isnan(one.ratio) else one.ratio, default=None)": "NaN is infinite",
    "max(timed(call)[1], 1e-09)": WALL,
    "min(rounds, max(1, int(limit / max(timed(call)[1], 1e-09))))": WALL,
    "min((each['ts'] + each['dur'] for each in output if each['name'] == 'model_run'))": "times that a profiler wrote",
    "min(a, b)": "lengths of axes",
    "max(pair)": "how many elements are padded",
    "min(end, frame + utterance.after_stop)": "numbers of frames",
    "max(indices)": "places in a list",
    "max(read, default=-1)": "places in a list",
    "max((one for one in noted.get(sources.EXIR_DEBUG_HANDLE, ()) if one is not None), default=None)": (
        "numbers of a debugger's nodes"
    ),
    "max((positions.get(user, beyond) for user in node.users), default=positions[node])": "places in a graph",
    "max(needed_until, self._last_read[node])": "places in a graph",
    "min(ids, rows)": "how many ids and rows there are",
    "max(numbers, default=0)": "ids of symbols, integers",
    "max((np.size(every.get(one, 0)) for one in scaled))": "how many scales there are",
    "max(array.shape)": "lengths of axes",
    "min(bounds, default=None)": "bounds that a graph states for an index, integers",
    "min(places, key=lambda one: -one[0])": "pairs of a count and a place",
    "min(model.ir_version, IR_VERSION)": "versions, integers",
    "min(sizes, key=cycles)": "cycles that a schedule is counted to need, never measured",
    "min(100 * fraction, 99.99)": "only below 1, which NaN is not: so that not all is never shown as all",
    "min(shares)": "their sum is finite, which is asked first",
    "max(abs(self.minimum), abs(self.maximum))": "extremes of what is finite, or both NaN",
    "max(-low, high)": "extremes of what is finite",
}
FORGETFUL = ("fmax", "fmin", "nan_to_num", "nanmax", "nanmin", "nanmean", "nanmedian", "nanquantile", "nanpercentile")
FORGETFUL += ("nansum", "nanstd", "nanvar", "nanargmax", "nanargmin")


def code(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def extremes(source: str, allowed: Container[str] = OTHER) -> Iterator[str]:
    """Yield every call of the built-in max or min that may compare measured figures, but those that are allowed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
            parts = [one.elt if isinstance(one, ast.GeneratorExp) else one for one in node.args]
            if not any(map(whole, parts)) and ast.unparse(node) not in allowed:
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
    assert len(FILES) > 200


def test_what_is_allowed_is_there_and_has_its_reason():
    found = {call for path in FILES for call in extremes(code(path), ())}
    assert set(OTHER) - found == set(), "allowed, and nowhere in the package or the notebooks"
    assert all(len(reason.split()) >= 2 for reason in OTHER.values())


def test_nothing_that_leaves_nan_out_is_called():
    found = {path.name: [*forgetful(code(path))] for path in FILES}
    assert {name: calls for name, calls in found.items() if calls} == {}
    assert [*forgetful("np.nanmax(errors) + np.max(errors)")] == ["np.nanmax(errors)"]


def test_the_rule_sees_what_it_should():
    seen = ("max(one.of_peak for one in runs)", "max(1e-5, 2 * rounding)", "min(figures)", "max(2 * figure, limit)")
    assert all([*extremes(call)] for call in (*seen, "max(runs, key=lambda run: run.error)"))
    for counted in ("max(0, end - around)", "min(len(first) - 1, lag)", "min(frames, case.frames)"):
        assert not [*extremes(counted)]
