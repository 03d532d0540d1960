"""How a module is exported to a runtime and run there by the runtime's own means, a function for each; see `repro`."""

import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch


def run_aot_inductor(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    """Compile `module` for the first of `calls`, write and load the package, and return its first output on each."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(module.eval(), tuple(calls[0].values()))
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder) / "model.pt2"))
        compiled = torch._inductor.aoti_load_package(path)
        return [np.array(torch.atleast_1d(compiled(*inputs.values())).numpy()) for inputs in calls]


def run_onnxruntime(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    """Export `module` for the first of `calls` and return its first output on each, on the CPU."""
    import onnxruntime

    program = torch.onnx.export(module.eval(), tuple(calls[0].values()), dynamo=True, verbose=False)
    assert program is not None
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    return [
        session.run(None, {name: value.numpy() for name, value in zip(names, inputs.values(), strict=True)})[0]
        for inputs in calls
    ]


def run_tvm(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], fused: bool = False) -> list[np.ndarray]:
    """Export `module` for the first of `calls` and return its first output on each.

    Parameters
    ----------
    fused : bool
        Compile with the pipeline that joins operators, `tvm.relax.get_default_pipeline`.
    """
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(calls[0].values()))
    target = tvm.target.Target("llvm")
    pipeline = tvm.relax.get_default_pipeline(target) if fused else "default"
    built = tvm.compile(from_exported_program(program), target=target, relax_pipeline=pipeline)
    machine = tvm.relax.VirtualMachine(built, tvm.cpu())
    return [
        machine["main"](*(tvm.runtime.tensor(value.numpy()) for value in inputs.values()))[0].numpy()
        for inputs in calls
    ]


def run_xnnpack(
    module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], delegated: bool = True
) -> list[np.ndarray]:
    """Lower `module` for the first of `calls` and return its first output on each.

    Parameters
    ----------
    delegated : bool
        Ask XNNPACK's partitioner; without it ExecuTorch's own kernels run.
    """
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    exported = torch.export.export(module.eval(), tuple(calls[0].values()))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()] if delegated else [])
    program = Runtime.get().load_program(edge.to_executorch().buffer)
    method = program.load_method("forward")
    assert method is not None
    return [np.array(method.execute(list(inputs.values()))[0].numpy()) for inputs in calls]


class Mil:
    """What the few operators of the cases mean by the documentation of Core ML's MIL; prediction needs macOS."""

    add = staticmethod(lambda x, y: x + y)
    atan = staticmethod(lambda x: np.arctan(x))
    equal = staticmethod(lambda x, y: x == y)
    fill_like = staticmethod(lambda value, ref_tensor: np.full_like(ref_tensor, value))
    floor = staticmethod(lambda x: np.floor(x))
    floor_div = staticmethod(lambda x, y: np.floor(x / y))
    greater = staticmethod(lambda x, y: x > y)
    identity = staticmethod(lambda x: x)
    inverse = staticmethod(lambda x, epsilon: np.float32(1) / (x + epsilon))
    less = staticmethod(lambda x, y: x < y)
    logical_and = staticmethod(lambda x, y: x & y)
    logical_not = staticmethod(lambda x: ~x)
    mul = staticmethod(lambda x, y: x * y)
    real_div = staticmethod(lambda x, y: x / y)
    reduce_sum = staticmethod(lambda x, axes, keep_dims: x.sum(tuple(axes), keepdims=bool(keep_dims)))
    rsqrt = staticmethod(lambda x, epsilon: np.float32(1) / np.sqrt(x + epsilon))
    select = staticmethod(lambda cond, a, b: np.where(cond, a, b))
    sqrt = staticmethod(lambda x: np.sqrt(x))
    sub = staticmethod(lambda x, y: x - y)
    tanh = staticmethod(lambda x: np.tanh(x))

    @staticmethod
    def cast(x: np.ndarray, dtype: Any) -> np.ndarray:
        """Return it in another dtype."""
        return x.astype({"fp32": np.float32, "int32": np.int32, "bool": bool}[str(dtype)])

    @staticmethod
    def gelu(x: np.ndarray, mode: str) -> np.ndarray:
        """Return gelu, by tanh or by erf."""
        if mode == "TANH_APPROXIMATION":
            return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
        return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2

    @staticmethod
    def scatter_along_axis(data: Any, indices: Any, updates: Any, axis: Any, **_: Any) -> np.ndarray:
        """Return the data with the updates put in."""
        out = np.array(data)
        np.put_along_axis(out, indices, updates, int(axis))
        return out


def run_coremltools(
    module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], traced: bool = False
) -> list[np.ndarray]:
    """Convert `module` for the first of `calls` and return its first output on each, computed by `Mil`.

    Parameters
    ----------
    calls : mapping
        Name -> tensor, float32 or int64 (which becomes int32).
    traced : bool
        Hand coremltools a trace and not an exported program.
    """
    import coremltools as ct

    made: Any = (torch.jit.trace if traced else torch.export.export)(module.eval(), tuple(calls[0].values()))
    kinds = {name: np.int32 if x.dtype == torch.int64 else np.float32 for name, x in calls[0].items()}
    takes = [ct.TensorType(name, x.shape, kinds[name]) for name, x in calls[0].items()]
    how: Any = {"minimum_deployment_target": ct.target.iOS17, "compute_precision": ct.precision.FLOAT32}
    program = made if traced else made.run_decompositions({})
    mil = ct.convert(program, source="pytorch", convert_to="milinternal", inputs=takes, **how)
    function = mil.functions["main"]
    results = []
    for inputs in calls:
        given = [np.asarray(x, np.float32 if x.is_floating_point() else None) for x in inputs.values()]
        values = dict(zip(function.inputs, given, strict=True))
        with np.errstate(all="ignore"):
            for operation in function.operations:
                if operation.op_type != "const":
                    named = {name: values.get(one.name, one.val) for name, one in operation.inputs.items()}
                    values[operation.outputs[0].name] = getattr(Mil, operation.op_type)(**named)
        results.append(np.asarray(values.get(function.outputs[0].name, function.outputs[0].val)))
    return results


RUNNERS: dict[str, tuple[Callable[..., Any], ...]] = {  # the function, after what it calls
    "aot_inductor": (run_aot_inductor,),
    "coremltools": (Mil, run_coremltools),
    "onnxruntime": (run_onnxruntime,),
    "tvm": (run_tvm,),
    "xnnpack": (run_xnnpack,),
}
