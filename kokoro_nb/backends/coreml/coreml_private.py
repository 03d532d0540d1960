"""What coremltools does not document and this package calls; no other module names it."""

from typing import Any

from kokoro_nb.errors import undocumented

SEEN_IN = {"coremltools": ("8.3", "9.0")}
_MIL = "coremltools.converters.mil"
IOS18 = 9  # number of the operator set


def program_of(model: Any) -> Any:
    """Return the MIL program that a model was converted to: `coremltools.converters.mil.Program`."""
    return undocumented(model, "_mil_program", "No operator of a converted model is shown", SEEN_IN)


def scopes() -> Any:
    """Return the kinds of notes that the converter leaves on each operation, of where it comes from."""
    return undocumented(f"{_MIL}.mil.scope", "ScopeSource", "No operator of a converted model is shown", SEEN_IN)


def mil_types() -> Any:
    """Return the module of MIL's types."""
    return undocumented(f"{_MIL}.mil", "types", "No Core ML program can be read", SEEN_IN)


def read_program(spec: Any, weights: str) -> Any:
    """Return the MIL program of a specification, its weights from the folder `weights`."""
    load = undocumented(f"{_MIL}.frontend.milproto.load", "load", "No Core ML program can be read", SEEN_IN)
    return load(spec, spec.specificationVersion, weights)


def decompression(kind: str, opset: int) -> Any:
    """Return the function with which the operator `kind` of an operator set makes a weight of what a file holds."""
    module = f"{_MIL}.mil.ops.defs." + ("iOS18.compression" if opset >= IOS18 else "iOS16.constexpr_ops")
    lost = "No compressed weight can be read"
    return undocumented(undocumented(module, kind, lost, SEEN_IN), "decompress", lost, SEEN_IN)
