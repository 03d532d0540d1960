"""What ExecuTorch does not document and this package calls; but for the tracer's script, no other module names it."""

from typing import Any

from kokoro_nb.errors import undocumented

SEEN_IN = {"executorch": ("0.7", "1.5")}
_SINCE = {"_OperatorsSupportedForCoreMLBackend": "1.5"}  # 0.7 has it by another name
_UNREAD, _UNWRITTEN = "No .pte file can be read", "No instruction can be written alone"
UNDOCUMENTED = {  # name -> the module that has it, and what is lost without it
    "deserialize_pte_binary": ("exir._serialize._program", _UNREAD),
    "serialize_pte_binary": ("exir._serialize._program", _UNWRITTEN),
    "Null": ("exir.schema", _UNWRITTEN),
    "_run_flatc": ("exir._serialize._flatbuffer", "Nothing inside XNNPACK can be read"),
    "XNNHeader": ("backends.xnnpack.serialization.xnnpack_graph_serialize", "Nothing inside XNNPACK can be read"),
    "eval_upper_bound": ("exir.sym_util", "Nothing is known of open sizes"),
    "InitializedMutableBufferPass": ("exir.passes.init_mutable_pass", "No state can be saved with its first values"),
    "_load_for_executorch": ("extension.pybindings.portable_lib", "Nothing can be profiled"),
    "deserialize_from_etdump_flatcc": ("devtools.etdump.serialize", "No event can be read"),
    "format_target_name": ("exir.backend.canonical_partitioners.config_partitioner", "XNNPACK gives no reason"),
    "_OperatorsSupportedForCoreMLBackend": ("backends.apple.coreml.partition.coreml_partitioner", "Core ML gives none"),
    "VulkanSupportedOperators": ("backends.vulkan.partitioner.vulkan_partitioner", "Vulkan gives no reason"),
    "utils": ("backends.vulkan", "Vulkan gives no reason"),
    "_soc_info_table": ("backends.qualcomm.serialization.qc_schema", "No chip is known"),
}


def of_executorch(name: str) -> Any:
    """Return what ExecuTorch calls so.

    Raises
    ------
    InputError
        If this version does not have it: what is lost, and the versions that do.
    """
    module, lost = UNDOCUMENTED[name]
    seen = {"executorch": (_SINCE.get(name, SEEN_IN["executorch"][0]), SEEN_IN["executorch"][1])}
    return undocumented(f"executorch.{module}", name, lost, seen)
