"""The delegates that ExecuTorch's wheel can lower to, and why it cannot lower to the others."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from kokoro_nb.backends.base import quietly

Name = Literal["xnnpack", "coreml", "vulkan"]
_BACKENDS = "executorch.backends"


@dataclass(frozen=True)
class Delegate:
    """A runtime within the runtime, which takes parts of the graph as a whole.

    Attributes
    ----------
    backend_id : str
        What the runtime registers it as, and what a ``.pte`` file calls it.
    module : str
        Module of its partitioner, below ``executorch.backends``.
    make : callable
        Takes that module; returns the partitioner.
    """

    backend_id: str
    module: str
    make: Callable[[Any], Any]

    def partitioner(self) -> Any:
        """Return a new partitioner, which says what part of a graph the delegate takes."""
        with root_level_kept():
            return self.make(import_module(f"{_BACKENDS}.{self.module}"))


def _coreml(module: Any) -> Any:
    """Return Core ML's partitioner with float32 in the place of its default, float16."""
    import coremltools as ct

    specs = module.CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT32
    )
    return module.CoreMLPartitioner(compile_specs=specs)


DELEGATES: dict[Name, Delegate] = {
    "xnnpack": Delegate(
        "XnnpackBackend", "xnnpack.partition.xnnpack_partitioner", lambda module: module.XnnpackPartitioner()
    ),
    "coreml": Delegate("CoreMLBackend", "apple.coreml.partition.coreml_partitioner", _coreml),
    "vulkan": Delegate(
        "VulkanBackend", "vulkan.partitioner.vulkan_partitioner", lambda module: module.VulkanPartitioner()
    ),
}

_OTHERS: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "OpenVINO": ("openvino.partitioner", None),
    "MLX": ("mlx.partitioner", None),
    "Arm (TOSA, Ethos-U, VGF)": ("arm.tosa.partitioner", None),
    "MediaTek": ("mediatek.partitioner", None),
    "Samsung Exynos": ("samsung.partition.enn_partitioner", None),
    "NXP Neutron": ("nxp.neutron_partitioner", None),
    "Cadence": ("cadence.aot.compiler", None),
    "Core AI": ("apple.coreai.partition.partitioner", lambda module: module.CoreAIPartitioner()),
    "Metal": ("apple.metal.metal_partitioner", lambda module: module.MetalPartitioner(_forward(module.MetalBackend))),
    "CUDA": ("cuda.cuda_partitioner", lambda module: module.CudaPartitioner(_forward(module.CudaBackend))),
    "native": ("native.partitioner", lambda module: module.NativePartitioner()),
    "WebGPU": ("webgpu.partitioner", lambda module: module.WebGPUPartitioner()),
}


def other_delegates() -> dict[str, str]:
    """Have every further partitioner in the wheel lower one convolution.

    Qualcomm's is left out: to import it is to have it download an SDK. WebGPU's is Vulkan's under another name.

    Returns
    -------
    dict
        Name -> ``lowers``, ``imports, not tried`` or the error.
    """
    import torch

    convolution = torch.nn.Conv1d(3, 4, 3).eval()
    program = torch.export.export(convolution, (torch.zeros(1, 3, 8),))
    found = {}
    for name, (path, make) in _OTHERS.items():
        try:
            with quietly(), root_level_kept():
                module = import_module(f"{_BACKENDS}.{path}")
                if make is not None:
                    from executorch.exir import to_edge_transform_and_lower

                    to_edge_transform_and_lower(program, partitioner=[make(module)]).to_executorch()
            found[name] = "lowers" if make else "imports, not tried"
        except Exception as error:  # whatever stops them is what is asked for
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _forward(backend: Any) -> list[Any]:
    return [backend.generate_method_name_compile_spec("forward")]


@contextmanager
def root_level_kept() -> Iterator[None]:
    """Keep the level of the root logger, which Vulkan's partitioner sets when it is imported."""
    level = logging.root.level
    try:
        yield
    finally:
        logging.root.setLevel(level)
