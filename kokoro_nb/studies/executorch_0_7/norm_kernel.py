"""What an instance norm gives whose sums are added to whatever its memory holds: the suspected cause, computed."""

import numpy as np

EPSILON = 1e-5  # of `torch.nn.InstanceNorm1d`


class AccumulatingNorm:
    """`_native_batch_norm_legit.no_stats` as the portable kernel of ExecuTorch 0.7.0 computes it.

    It adds sums and sums of squares to the memory of its second and third output, the mean and the inverse deviation,
    and then turns them into these in place. The next call begins with what this one left there.

    Parameters
    ----------
    cleared : bool
        Whether the memory is cleared before each call, as it should be.

    Notes
    -----
    Source: ``kernels/portable/cpu/op_native_batch_norm.cpp`` of ExecuTorch 0.7.0; the memory is cleared since pull
    request 17503.
    """

    def __init__(self, channels: int, cleared: bool = False) -> None:
        self._cleared = cleared
        self._mean = np.zeros(channels, np.float32)
        self._inverse = np.zeros(channels, np.float32)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the norm of `x`, (1, channels, length), in float32."""
        if self._cleared:
            self._mean[:] = self._inverse[:] = 0
        length = np.float32(x.shape[-1])
        with np.errstate(invalid="ignore", divide="ignore"):
            self._mean = (self._mean + x[0].sum(axis=-1)) / length
            squares = (self._inverse + (x[0] ** 2).sum(axis=-1)) / length
            self._inverse = 1 / np.sqrt(squares - self._mean**2 + np.float32(EPSILON))
            return (x - self._mean[:, None]) * self._inverse[:, None]
