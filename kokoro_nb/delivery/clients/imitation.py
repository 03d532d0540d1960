"""What a client does with a folder, imitated here on the runtime of its programs: its ids, row, speed, first output.

For machines on which the client is not installed. It shows that a folder keeps the contract as it is written down, not
that the client does.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kokoro_nb.delivery.clients.beside_check import symbols_of, voice_tables
from kokoro_nb.delivery.clients.chained_hosts import chained_host
from kokoro_nb.delivery.clients.client_programs import Request
from kokoro_nb.delivery.clients.known_clients import contract
from kokoro_nb.delivery.clients.react_native_host import ReactNativeHost


def imitate(client: str, folder: str | Path, requests: Sequence[Request]) -> list[np.ndarray]:
    """Speak as a client would: the arguments and the result of `client_programs.speak_in`.

    A first output of another dtype than float32 is read as what its bytes are as float32, as sherpa-onnx does.
    """
    import onnxruntime

    root, rules = Path(folder), contract(client)
    if rules.form == "ExecuTorch":
        host = ReactNativeHost(root, rules)
        said = [(request, host.utter(request)) for request in requests]
        return [one.played if request.default else one.audio for request, one in said]
    if rules.form == "Core ML":
        chain = chained_host(root, rules)
        return [chain.utter(request).audio for request in requests]
    path = next(root / path for path in rules.programs if (root / path).is_file())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    table, voices, spoken = symbols_of(root, rules, metadata), voice_tables(root, rules), []
    inputs, _ = rules.programs[path.relative_to(root).as_posix()]
    names, order = [value.name for value in session.get_inputs()], [rule.name for rule in inputs]
    kinds = {value.name: np.int32 if value.type == "tensor(int32)" else np.float32 for value in session.get_inputs()}
    for request in requests:
        ids = [0, *(table[symbol][0] for symbol in request.symbols if symbol in table), 0]
        rows = voices[request.voice if request.voice in voices else str(request.number)]
        style = rows[rules.row.of(len(ids) - 2, len(request.symbols), len(rows))][None]
        speed = np.array([request.speed], np.float32)
        if kinds.get("speed") is np.int32:
            speed = np.maximum(1, np.rint(speed)).astype(np.int32)
        values = (np.array([ids]), style, speed)
        fed = dict(zip(names if rules.by_position else order, values, strict=True))
        audio = session.run(None, fed)[0]
        spoken.append((audio.view(np.float32) if audio.dtype == np.float16 else audio).reshape(-1))
    return spoken
