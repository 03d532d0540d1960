"""The vendors' documented calls on small modules, in a process that imports nothing of the package.

`main` writes to a folder what each tool makes of each module, or what that gives, as ``NAME.BACKEND.SUFFIX``.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(torch.softmax(q @ k.transpose(1, 2) / 8**0.5, -1) @ v)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(10, 8), nn.LayerNorm(8)

    def forward(self, ids, mask, gain):
        return self.norm(self.table(ids)) * mask[:, :, None] * gain, (ids + 1, mask.logical_not())


def modules():
    """Return name -> module; each takes one float tensor of shape (2, 6, 8)."""
    torch.manual_seed(0)
    norms = nn.InstanceNorm1d(8, affine=True), nn.LayerNorm(16)
    up = nn.ConvTranspose1d(8, 6, 4, stride=2, padding=1)
    return {
        "layers": nn.Sequential(
            *(nn.Conv1d(6, 8, 3, padding=1), nn.LeakyReLU(0.1), norms[0], up, norms[1], nn.GELU()),
            *(nn.MaxPool1d(2), nn.Linear(8, 4), nn.Tanh()),
        ),
        "attention": Attention(),
        "phase": Function(lambda x: nn.functional.pad(torch.sin(torch.cumsum(x, 1)), (1, 1)).exp().mean(-1)),
    }


def inputs():
    """Return the input of all modules."""
    return torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))


def onnxruntime(program, tensors, names, path):
    """Write an ONNX file."""
    options = {"input_names": names[0], "output_names": names[1]}
    torch.onnx.export(program, tensors, f"{path}.onnx", dynamo=True, verbose=False, external_data=False, **options)


def executorch(program, path, partitioners):
    """Write a ``.pte`` file."""
    from executorch.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(program, partitioner=partitioners)
    Path(f"{path}.pte").write_bytes(edge.to_executorch().buffer)


def tvm(program, tensors, path, fused):
    """Write what TVM's code gives."""
    import tvm as tool
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    target = tool.target.Target("llvm")
    pipeline = relax.get_default_pipeline(target) if fused else "default"
    built = tool.compile(from_exported_program(program), target=target, relax_pipeline=pipeline)
    results = relax.VirtualMachine(built, tool.cpu())["main"](*(tool.runtime.tensor(one.numpy()) for one in tensors))
    np.save(f"{path}.npy", results[0].numpy())


def inductor(program, tensors, path):
    """Write what AOTInductor's code gives."""
    package = torch._inductor.aoti_compile_and_package(program, package_path=f"{path}.pt2")
    np.save(f"{path}.npy", torch._inductor.aoti_load_package(package)(*tensors).detach().numpy())


def core_ml_cases():
    """Return name -> module and its inputs."""
    torch.manual_seed(0)
    ids, mask = torch.tensor([[1, 5, 9]]), torch.tensor([[True, False, True]])
    return {
        "layers": (modules()["layers"], {"input": inputs()}),
        "attention": (Attention(), {"x": inputs()}),
        "lookup": (Lookup(), {"ids": ids, "mask": mask, "gain": torch.tensor(0.5)}),
    }


def core_ml(folder):
    """Write Core ML packages of both routes."""
    import coremltools as ct

    for name, (module, given) in core_ml_cases().items():
        tensors = tuple(given.values())
        with torch.no_grad():
            program = torch.export.export(module.eval(), tensors).run_decompositions({})
            traced = torch.jit.trace(module.eval(), tensors)
        types = [
            ct.TensorType(name=key, shape=one.shape or (1,), dtype=np.int32 if one.dtype == torch.int64 else np.float32)
            for key, one in given.items()
        ]
        made = {
            "coreml": ct.convert(program, skip_model_load=True),
            "coreml-float32": ct.convert(program, skip_model_load=True, compute_precision=ct.precision.FLOAT32),
            "coreml-trace": ct.convert(traced, inputs=types, skip_model_load=True),
        }
        for kind, model in made.items():
            model.save(f"{folder}/{name}-{kind}.mlpackage")


def compiled(folder):
    """Export one module with AOTInductor."""
    with torch.no_grad():
        program = torch.export.export(modules()["phase"], (inputs(),))
    inductor(program, (inputs(),), Path(folder) / "phase.aot-inductor")


def main(folder):
    """Export all modules with every other tool."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    room = Path(folder)
    x = inputs()
    for name, module in modules().items():
        module.eval()
        with torch.no_grad():
            program = torch.export.export(module, (x,))
        given = [node.name for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
        onnxruntime(module, (x,), (given, ["output"]), room / f"{name}.onnxruntime")
        executorch(torch.export.export(module, (x,)), room / f"{name}.executorch-xnnpack", [XnnpackPartitioner()])
        executorch(torch.export.export(module, (x,)), room / f"{name}.executorch-portable", [])
        tvm(program, (x,), room / f"{name}.tvm", True)
        tvm(program, (x,), room / f"{name}.tvm-unfused", False)
