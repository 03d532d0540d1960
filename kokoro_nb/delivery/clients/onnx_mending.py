"""ONNX programs mended where they deviate from a client's contract, a function for each rule."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kokoro_nb.delivery.clients.client_contract import ClientContract
from kokoro_nb.delivery.clients.delivery_check import DRAWS
from kokoro_nb.delivery.clients.inverse_level import BINS, WINDOW, inverse_level
from kokoro_nb.delivery.clients.speech_program import rename

BANK = 24_000  # samples of noise, read cyclically


def lower_form(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Give the file a form that the client's runtime reads."""
    model.ir_version = min(rules.ir_version, 8)
    return f"IR version {model.ir_version}"


def reorder_outputs(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Put the outputs into the client's order: audio, durations, what else there is."""
    from onnx import TensorProto

    whole = (TensorProto.INT64, TensorProto.INT32)
    ranked = sorted(model.graph.output, key=lambda value: value.type.tensor_type.elem_type in whole)
    ordered = [type(value).FromString(value.SerializeToString()) for value in ranked]
    del model.graph.output[:]
    model.graph.output.extend(ordered)
    return "outputs reordered"


def reorder_inputs(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Put the inputs into the client's order, found by their names."""
    order = [rule.name for rule in rules.programs[path][0]]
    ranked = sorted(model.graph.input, key=lambda value: order.index(value.name) if value.name in order else len(order))
    ordered = [type(value).FromString(value.SerializeToString()) for value in ranked]
    del model.graph.input[:]
    model.graph.input.extend(ordered)
    return "inputs reordered"


def rename_inputs(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Give the inputs the client's names, found by their shape and dtype."""
    from onnx import TensorProto

    names = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        sizes = [one.dim_value for one in tensor.shape.dim]
        whole = tensor.elem_type in (TensorProto.INT64, TensorProto.INT32)
        position = 1 if sizes[-1:] == [256] else 0 if len(sizes) == 2 and whole else 2
        names[value.name] = rules.programs[path][0][position].name
    rename(model, names)
    return ", ".join(f"{old} is now {new}" for old, new in names.items() if old != new)


def float_speed(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Make the speed a float32 where the file casts it to one by itself."""
    from onnx import TensorProto

    (speed,) = [value for value in model.graph.input if value.name == rules.programs[path][0][2].name]
    speed.type.tensor_type.elem_type = TensorProto.FLOAT
    return "the speed is an input of float32; the file's own cast to it stays, and does nothing"


def float_audio(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Cast the audio to float32 as the last step."""
    from onnx import TensorProto, helper

    audio = model.graph.output[0]
    inner = f"{audio.name}_as_computed"
    for node in model.graph.node:
        for position, name in enumerate(node.output):
            if name == audio.name:
                node.output[position] = inner
    model.graph.node.append(helper.make_node("Cast", [inner], [audio.name], to=TensorProto.FLOAT))
    audio.type.tensor_type.elem_type = TensorProto.FLOAT
    return "audio cast to float32"


def open_draws(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Put a bank of noise, read cyclically, in place of each draw; the bank is an initializer that can be replaced."""
    from onnx import helper, numpy_helper

    graph, kept, draw, banks = model.graph, [], np.random.default_rng(seed), 0
    for node in list(graph.node):
        if node.op_type not in DRAWS or not node.op_type.endswith("Like"):
            kept.append(node)
            continue
        bank, out = f"noise_bank_{banks}", node.output[0]
        uniform = node.op_type.startswith("RandomUniform")
        values = draw.random(BANK) if uniform else draw.standard_normal(BANK)
        constants = {bank: values.astype(np.float32), f"{bank}_size": np.array(BANK), f"{bank}_zero": np.array(0)}
        constants |= {f"{bank}_one": np.array(1)}
        graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
        make = helper.make_node
        kept += [
            make("Shape", [node.input[0]], [f"{out}_shape"]),
            make("ReduceProd", [f"{out}_shape"], [f"{out}_count"], keepdims=0),
            make("Range", [f"{bank}_zero", f"{out}_count", f"{bank}_one"], [f"{out}_number"]),
            make("Mod", [f"{out}_number", f"{bank}_size"], [f"{out}_place"]),
            make("Gather", [bank, f"{out}_place"], [f"{out}_flat"]),
            make("Reshape", [f"{out}_flat", f"{out}_shape"], [out]),
        ]
        banks += 1
    del graph.node[:]
    graph.node.extend(kept)
    return f"{banks} draws out of banks of {BANK} samples, seed {seed}"


def rescale(model: Any, rules: ClientContract, path: str, seed: int) -> str:
    """Scale the weights of the inverse STFT: bins 1 to 9 count twice, and the windows' sum is 1.5."""
    from onnx import numpy_helper

    level, changed = inverse_level(model), 0
    if level is None:
        return "nothing: there is no inverse STFT to be seen"
    scale = np.array([1 / level.ends, *[1 / level.middle] * (BINS - 2), 1 / level.ends], np.float32)
    read = {node.input[1] for node in model.graph.node if node.op_type == "ConvTranspose"}
    for tensor in model.graph.initializer:
        if tensor.name in read and list(tensor.dims) == [BINS, 1, WINDOW]:
            values = numpy_helper.to_array(tensor) * scale[:, None, None]
            tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))
            changed += 1
    return f"{changed} weights of the inverse STFT scaled"


MENDS: dict[str, Callable[[Any, ClientContract, str, int], str]] = {
    "IR version": lower_form,
    "input name": rename_inputs,
    "input order": reorder_inputs,
    "integer speed": float_speed,
    "output order": reorder_outputs,
    "audio dtype": float_audio,
    "draws": open_draws,
    "level": rescale,
}
