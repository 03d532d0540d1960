"""What TVM compiles for: other processors, and graphics processors with a host beside them."""

from typing import Any

ARM_LINUX = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]}
ARM_MACOS = {"kind": "llvm", "mtriple": "arm64-apple-macos", "mcpu": "apple-m1"}
TARGETS: dict[str, dict[str, Any]] = {
    "aarch64-linux": ARM_LINUX,
    "arm64-macos": ARM_MACOS,
    "metal": {"kind": "metal"},
    "opencl": {"kind": "opencl"},
}
KERNELS = {"metal": "kernels.metal", "opencl": "kernels.cl"}  # of graphics processors, the file of the kernels' sources
GRAPHICS = {"metal": ARM_MACOS, "opencl": ARM_LINUX}  # each with the processor that drives it


def target(description: dict[str, Any]) -> Any:
    """Return TVM's target; one for graphics gets its host from `GRAPHICS`."""
    from tvm.target import Target

    host = GRAPHICS.get(description["kind"])
    return Target(description, host=host) if host else Target(description)
