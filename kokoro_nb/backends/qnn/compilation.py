"""ONNX files compiled to context binaries for the NPU, in a process of their own, and what each option does to them."""

import hashlib
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.qnn.log import complaints, validations
from kokoro_nb.backends.qnn.process import QnnError, Worker
from kokoro_nb.backends.qnn.qnn_worker import PROVIDER
from kokoro_nb.backends.qnn.target import require_taken

PROBE = np.array([1 + 2.0**-12, 1 + 2.0**-9], "float32")  # float16 keeps the second alone, bfloat16 neither


@dataclass(frozen=True)
class Compiled:
    """What came of a compilation.

    Attributes
    ----------
    nodes : tuple
        (provider, name, domain, operator type) of every node that was placed.
    log : str
        All that was said.
    """

    nodes: tuple[tuple[str, str, str, str], ...]
    log: str

    @property
    def on_npu(self) -> int:
        """Number of nodes that the Qualcomm provider took."""
        return sum(provider == PROVIDER for provider, *_ in self.nodes)


def compile_onnx(model: Path, context: Path, options: Mapping[str, str]) -> Compiled:
    """Compile `model` and write `context`, an ONNX file, with the binary beside it; neither if the NPU takes no node.

    Parameters
    ----------
    model : Path
        ONNX file.
    context : Path
        ``<name>.onnx``; the binary becomes ``<name>_qnn.bin``.
    options : mapping
        See `target.checked_options`.

    Raises
    ------
    QnnError
        If the session cannot be made, or the process dies of it.
    """
    config = {"ep.context_enable": "1", "ep.context_file_path": str(context)}
    with Worker() as worker:
        answer = worker.ask("open", model=str(model), options=dict(options), config=config, verbose=True)
        return Compiled(tuple(answer["nodes"]), worker.log())


def compile_checked(model: Path, context: Path, options: Mapping[str, str]) -> Compiled:
    """Compile `model` as `compile_onnx` does, and refuse an artefact that is not what was asked for.

    Raises
    ------
    QnnError
        If the session cannot be made, the NPU took no node, or the provider did not take an option.
    """
    import onnx

    made = compile_onnx(model, context, options)
    if not context.is_file():
        refused = [f"{v.name} ({v.op}): {v.reason}" for v in validations(made.log).values() if not v.passed]
        error = QnnError(f"The NPU takes none of the {len(made.nodes)} nodes, so there is nothing to compile for it.")
        error.add_note("\n".join([*complaints(made.log), *refused]))
        raise error
    about = onnx.load(context, load_external_data=False)
    require_taken(options, made.log, {entry.key: entry.value for entry in about.metadata_props})
    return made


@dataclass(frozen=True)
class Effect:
    """What one option does to a small compiled graph.

    Attributes
    ----------
    option, value : str
        The option.
    changes : bool
        Whether the binary differs from the one that is compiled without it.
    """

    option: str
    value: str
    changes: bool


def option_effects(options: Mapping[str, str]) -> tuple[Effect, ...]:
    """Compile one convolution with all of `options`, then with each of them left out, and compare the binaries.

    The compiler gives the same bytes for the same input, so an option without which the bytes stay the same did
    nothing for this graph, whatever the log says.

    Parameters
    ----------
    options : mapping
        Any provider options; not checked, so that unknown ones can be tried.

    Raises
    ------
    QnnError
        If nothing can be compiled under `options`.
    """
    with tempfile.TemporaryDirectory() as room:
        model = _probe(Path(room))
        whole = _binary(model, Path(room), options)
        if whole is None:
            raise QnnError(f"Under the options {dict(options)} nothing can be compiled for the NPU.")
        return tuple(
            Effect(name, value, _binary(model, Path(room), {k: v for k, v in options.items() if k != name}) != whole)
            for name, value in options.items()
        )


def arithmetic(options: Mapping[str, str]) -> str:
    """Return in what format a float32 graph is computed under `options`: by what a product with 1 leaves of a number.

    Returns
    -------
    str
        ``float32``, ``float16``, or ``coarser`` (of which bfloat16 is one).
    """
    with tempfile.TemporaryDirectory() as room, Worker() as worker:
        model = _probe(Path(room))
        worker.ask("open", model=str(model), options=dict(options), config={})
        (result,) = worker.ask("run", feeds={"x": PROBE.reshape(1, 1, -1)}, outputs=["y"])
    # half of the smaller step: float32 results of a float16 computation can be off by a last bit of their own
    kept = np.abs(result.reshape(-1) - PROBE) < 2.0**-13
    return "float32" if kept[0] else "float16" if kept[1] else "coarser"


def _probe(room: Path) -> Path:
    """Write a convolution with the one weight 1."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    node: Any = helper.make_node("Conv", ["x", "weight"], ["y"], "conv")
    graph = helper.make_graph(
        [node],
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, PROBE.size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, PROBE.size])],
        [numpy_helper.from_array(np.ones((1, 1, 1), "float32"), "weight")],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), room / "probe.onnx")
    return room / "probe.onnx"


def _binary(model: Path, room: Path, options: Mapping[str, str]) -> str | None:
    """Return the SHA-256 of the binary that `model` compiles to, None if it does not."""
    with tempfile.TemporaryDirectory(dir=room) as place, suppress(QnnError, FileNotFoundError):
        compile_onnx(model, Path(place) / "context.onnx", options)
        return hashlib.sha256((Path(place) / "context_qnn.bin").read_bytes()).hexdigest()
    return None
