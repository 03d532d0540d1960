"""Claims about what runtimes refuse or turn to NaN: ExecuTorch 0.7.0 from its record, and TVM today."""

import numpy as np
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import loaded, outputs_of
from kokoro_nb.errors import InputError
from kokoro_nb.models.patches import patched
from kokoro_nb.studies.executorch_0_7 import files, read_record
from kokoro_nb.studies.old_claims.reported_claims import Answer

TVM = "tvm-unfused"
CHANNELS, STILL, LENGTH = 256, 10, 3840  # of the first norm of the generator's noise branch at 32 frames
MEAN, DEVIATION = 20.0, 0.003  # of the channels that hardly vary


def runtime_answers(seed: int) -> tuple[Answer, ...]:
    """Answer A3, A4, B1, B2 and B3; no weights are needed.

    Parameters
    ----------
    seed : int
        Of what TVM's norm is given.
    """
    return (*_executorch(), *_tvm(seed))


def _executorch() -> tuple[Answer, Answer]:
    """Read the records of ExecuTorch 0.7.0 that notebook 12 compares with today's."""
    names = ("block", "block_written_out", "inverse", "inverse_contiguous")
    sick, mended, refused, copied = (read_record(files(name)[0]) for name in names)
    finite, right = sick["outputs"][0]["finite"], mended["verdict"] == "pass"
    refusal = "dim order" in refused["log"]
    about = f"ExecuTorch {sick['versions']['executorch']}, recorded"
    return (
        Answer(
            "A3",
            f"the decoder's first block on {about}: {100 * finite:g} % finite; with the norm written out "
            f"{mended['verdict']}",
            "another cause" if finite == 0 and right else "confirmed",
            "XNNPACK takes no norm. The portable kernel adds its sums to memory that is not cleared, and it shows only "
            "where that memory was used before.",
            {"finite": finite, "mended": float(right)},
        ),
        Answer(
            "A4",
            f"{about}: the inverse STFT is refused; with its weights copied it is {copied['verdict']}",
            "confirmed" if refusal and copied["verdict"] == "pass" else "refuted",
            "CustomSTFT's weights are a transposed view; `.contiguous()` mends it, and no kernel is wrong.",
            {"refused": float(refusal), "copied": float(copied["verdict"] == "pass")},
        ),
    )


class NormAndConvolution(nn.Module):
    """An instance norm, and the convolution behind it."""

    def __init__(self, seed: int):
        super().__init__()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.norm, self.convolution = nn.InstanceNorm1d(CHANNELS), nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both results."""
        y = self.norm(x)
        return y, self.convolution(y)


def _tvm(seed: int) -> tuple[Answer, Answer, Answer]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(1, CHANNELS, LENGTH, generator=draw)
    x[:, :STILL] = MEAN + DEVIATION * x[:, :STILL]
    module = NormAndConvolution(seed).eval()
    with torch.no_grad():
        eager = [bool(torch.isfinite(one).all()) for one in module(x)]
    found = _run(module, x)
    with patched(module, ("two_pass_norm",)):
        mended = _run(module, x)
    shares = [float(np.isfinite(one).mean()) for one in found]
    lost = int((~np.isfinite(found[0])).all(axis=-1).sum())
    whole = int((~np.isfinite(found[0])).any(axis=-1).sum()) == lost > 0
    cured = all(np.isfinite(one).all() for one in mended)
    about = f"{CHANNELS} channels, {STILL} of which vary by {DEVIATION / MEAN:.2g} of their mean, {TVM}"
    return (
        Answer(
            "B1",
            f"a norm and a convolution: eager finite, on TVM {100 * shares[1]:.3g} % of the output; {about}",
            "confirmed" if all(eager) and shares[1] == 0 else "refuted",
            "Finite inputs are enough, if channels hardly vary beside their mean; zeros behind the text make such.",
            {"finite": shares[1], "eager": float(all(eager))},
        ),
        Answer(
            "B2",
            f"{100 * shares[0]:.4g} % finite behind the norm: {lost} of {CHANNELS} channels wholly not; {about}",
            "confirmed" if whole and shares[1] == 0 else "refuted",
            "A variance belongs to a channel, and so does its NaN; the next convolution hands it to all.",
            {"finite": shares[0], "channels": lost},
        ),
        Answer(
            "B3",
            f"with a variance in two passes {'all is finite' if cured else 'not all is finite'}; {about}",
            "confirmed" if whole and cured else "refuted",
            "E[x²] - E[x]² in float32 is below zero by more than the epsilon.",
            {"cured": float(cured)},
        ),
    )


def _run(module: nn.Module, x: torch.Tensor) -> list[np.ndarray]:
    """Return what TVM makes of it; a failure answers nothing."""
    found = outputs_of(backend(TVM), loaded(backend(TVM), export_program(module, {"x": x}), {"x": x}), {"x": x.numpy()})
    if isinstance(found, Failure):
        raise InputError(f"The claims about TVM cannot be answered: {found}")
    return [*found.values()]
