"""The delegates that programs are lowered to here."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

Name = Literal["xnnpack", "coreml", "vulkan"]


@dataclass(frozen=True)
class Delegate:
    """A runtime within the runtime, which takes parts of the graph as a whole."""

    backend_id: str  # what the runtime registers it as, and what a ``.pte`` file calls it
    module: str  # of its partitioner, below ``executorch.backends``
    make: Callable[[Any], Any]  # takes that module; returns the partitioner

    def partitioner(self) -> Any:
        """Return a new partitioner, which says what part of a graph the delegate takes."""
        with root_level_kept():
            return self.make(import_module(f"executorch.backends.{self.module}"))


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


@contextmanager
def root_level_kept() -> Iterator[None]:
    """Keep the level of the root logger, which Vulkan's partitioner sets when it is imported."""
    level = logging.root.level
    try:
        yield
    finally:
        logging.root.setLevel(level)
