"""How a module is exported to a runtime and run there by its own means, a function for each; see `defect_case`."""

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
    feeds = [dict(zip(names, map(np.asarray, inputs.values()), strict=True)) for inputs in calls]
    return [session.run(None, feed)[0] for feed in feeds]


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
    given = [[tvm.runtime.tensor(value.numpy()) for value in inputs.values()] for inputs in calls]
    return [machine["main"](*tensors)[0].numpy() for tensors in given]


def run_xnnpack(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    """Lower `module` for the first of `calls` and return its first output on each."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    exported = torch.export.export(module.eval(), tuple(calls[0].values()))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    program = Runtime.get().load_program(edge.to_executorch().buffer)
    method = program.load_method("forward")
    assert method is not None
    return [np.array(method.execute(list(inputs.values()))[0].numpy()) for inputs in calls]


def run_coremltools(
    module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], traced: bool = False
) -> list[np.ndarray]:
    """Convert `module` for the first of `calls` and return its first output on each, computed by coremltools itself.

    Prediction needs macOS; what each operator of a converted program gives for numbers the converter computes anywhere.

    Parameters
    ----------
    calls : mapping
        Name -> tensor, float32 or int64 (which becomes int32).
    traced : bool
        Hand coremltools a trace and not an exported program.
    """
    import coremltools as ct
    from coremltools.converters.mil import Builder

    made: Any = (torch.jit.trace if traced else torch.export.export)(module.eval(), tuple(calls[0].values()))
    kinds = {name: np.int32 if x.dtype == torch.int64 else np.float32 for name, x in calls[0].items()}
    takes = [ct.TensorType(name, x.shape, kinds[name]) for name, x in calls[0].items()]
    how: Any = {"minimum_deployment_target": ct.target.iOS17, "compute_precision": ct.precision.FLOAT32}
    program = made if traced else made.run_decompositions({})
    mil = ct.convert(program, source="pytorch", convert_to="milinternal", inputs=takes, **how)
    function = mil.functions["main"]

    def first_output(inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
        given = [np.asarray(x, kinds[name]) for name, x in inputs.items()]
        values: dict[Any, Any] = dict(zip(function.inputs, given, strict=True))

        @Builder.program(input_specs=[], opset_version=ct.target.iOS17)
        def computed() -> Any:  # each operator is built anew on numbers, and has a value then
            for operation in function.operations:
                if operation.op_type != "const":
                    named = {name: values.get(one.name, one.val) for name, one in operation.inputs.items()}
                    values[operation.outputs[0].name] = getattr(Builder, operation.op_type)(**named).val
                    assert values[operation.outputs[0].name] is not None, operation.op_type
            return Builder.const(val=0.0)  # a program has to return something

        return np.asarray(values.get(function.outputs[0].name, function.outputs[0].val))

    return [first_output(inputs) for inputs in calls]


_EVERY = (run_aot_inductor, run_coremltools, run_onnxruntime, run_tvm, run_xnnpack)
RUNNERS: dict[str, Callable[..., Any]] = {run.__name__.removeprefix("run_"): run for run in _EVERY}
