"""What other packages do not document is named in one module for each, with the versions that it was seen in."""

import ast
import re
from importlib import import_module
from importlib.metadata import version

import pytest

from kokoro_nb.backends.executorch.executorch_private import UNDOCUMENTED, of_executorch
from kokoro_nb.errors import InputError, undocumented
from tests.test_pins import EXTRAS
from tests.test_rooms import _read

HOMES = (
    *("torch_private", "backends.inductor", "backends.tvm", "backends.coreml.coreml_private"),
    *("backends.executorch.executorch_private", "models.pocket.pocket_steps", "listening.recogniser"),
    "inspection.semantics.onnx_call",
)
SCRIPT = "backends.executorch.tracer"  # run on its own, without this package
DOCUMENTED = {  # under a private name, on the pages of AOTInductor, fake tensors, extending PyTorch, scan
    *("torch._inductor.aoti_compile_and_package", "torch._inductor.aoti_load_package"),
    *("torch._subclasses.fake_tensor.FakeTensorMode", "torch.utils._python_dispatch.TorchDispatchMode"),
    "torch._higher_order_ops.scan",
}
FINE = re.compile(r"(torch\.ops\.aten|ATEN)\._\w+\.default|.*\b_repr_html_|.*\b_asdict|kokoro_nb.*")
PUBLICLY_NAMED = re.compile(  # modules that are not documented either
    r"executorch\.(exir\.(schema|sym_util|passes|backend\.canonical)|devtools\.etdump|backends\.\w+\.(utils|serial))"
    r"|coremltools\.converters\.mil\.(mil|frontend)|onnxruntime\.capi|onnx\.reference\.ops|tvm\..*_translator"
)


def _private(word):
    return word.startswith("_") and not word.startswith("__")


def _dotted(node):
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _uses(source):
    """Return what `source` names of other packages that they keep private."""
    nodes = list(ast.walk(ast.parse(source)))
    own = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    own |= {getattr(node, "attr", getattr(node, "id", "")) for node in stored}
    found, inner = set(), {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        names = ()
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Attribute) and node not in inner:
            words = [word for word in _dotted(node).split(".") if not (_private(word) and word in own)]
            names = [".".join(words)] if words[0] not in ("self", "cls") else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "undocumented"):
            names = ["_"] if "doc" in ast.unparse(node.func) else [str(getattr(node.args[1], "value", ""))]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            names = [str(node.slice.value)]
        found |= {name for name in names if any(map(_private, name.split("."))) or PUBLICLY_NAMED.match(name)}
    return {name for name in found - DOCUMENTED if not FINE.fullmatch(name)}


def test_it_is_named_in_its_module_alone():
    found = {name.removeprefix("kokoro_nb."): used for name, source in _read().items() if (used := _uses(source))}
    assert {name: used for name, used in found.items() if name not in (*HOMES, SCRIPT)} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from torch.utils._pytree import tree_leaves",
        "def late():\n    import torch._dynamo.config",
        "model._mil_program.functions",
        "torch._ops.OpOverload",
        "getattr(operator, '_schema')",
        "vars(module)['_modules']",
        "undocumented('torch', '_ops', 'nothing', {})",
        "from executorch.exir.schema import Null",
        "from coremltools.converters.mil.mil import types",
    ],
)
def test_a_use_elsewhere_is_seen(line):
    assert len(_uses(line)) == 1
    assert _uses("self._x\nclass A:\n    def _y(self): return other._y\ntorch.ops.aten._to_copy.default") == set()


@pytest.mark.parametrize("home", HOMES)
def test_a_module_says_in_which_versions_it_was_seen(home):
    ((package, (first, last)),) = import_module(f"kokoro_nb.{home}").SEEN_IN.items()
    numbers = [tuple(map(int, one.split("+")[0].split(".")[:2])) for one in (first, version(package), last)]
    assert sorted(numbers) == numbers, "the installed version is outside the range: look whether all is there"
    least = [line for lines in EXTRAS.values() for line in lines if line.startswith(f"{package}>=")]
    assert least == [f"{package}>={first}"], "the range begins with the oldest version that may be installed"


def test_this_executorch_has_all_of_it():
    assert all(of_executorch(name) is not None for name in UNDOCUMENTED)


def test_what_a_version_lacks_is_one_sentence():
    sentence = r"^Nothing is judged: numpy [\d.]+ has no _gone, which 1.26 to 2.4 have; install one of these\.$"
    for owner in ("numpy", "numpy._gone", object()):
        with pytest.raises(InputError, match=sentence):
            undocumented(owner, "_gone", "Nothing is judged", {"numpy": ("1.26", "2.4")})
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        undocumented("no_such_package._inner", "name", "Nothing is judged", {"numpy": ("1.26", "2.4")})
