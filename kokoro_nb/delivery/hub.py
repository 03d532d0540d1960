"""A delivered ONNX file handed to Qualcomm AI Hub, which compiles and runs it on a real device: only with a token."""

import os
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError

TOKEN = "QAI_HUB_API_TOKEN"
DEVICE = "Snapdragon 8 Elite QRD"
OPTIONS = "--target_runtime qnn_context_binary"


def hub_available() -> str | None:
    """Return None if a job could be submitted, or the reason why not; nothing is sent."""
    from importlib.util import find_spec

    if not os.environ.get(TOKEN):
        return f"{TOKEN} is not set; an account at Qualcomm AI Hub gives one"
    if find_spec("qai_hub") is None:
        return "qai-hub is not installed; pip install qai-hub"
    return None


def submit(path: str | Path, device: str = DEVICE) -> Any:
    """Have an ONNX file compiled for a device and profiled there.

    Parameters
    ----------
    path : path
        An ``.onnx`` file of static shape, such as a delivered ``kokoro_decoder_3s.onnx``.
    device : str
        Name of the device, as ``qai_hub.get_devices()`` lists them.

    Returns
    -------
    qai_hub.ProfileJob

    Raises
    ------
    InputError
        If there is no token, no client, or no such file.

    Notes
    -----
    Calls of qai-hub's documented client: ``submit_compile_job``, ``get_target_model``, ``submit_profile_job``.
    """
    if reason := hub_available():
        raise InputError(reason)
    if not Path(path).is_file():
        raise InputError(f"There is no file {path}; give a delivered ONNX file.")
    import qai_hub

    target = qai_hub.Device(device)
    compiled = qai_hub.submit_compile_job(model=str(path), device=target, options=OPTIONS)
    return qai_hub.submit_profile_job(model=compiled.get_target_model(), device=target)
