"""The operators of MIL, by family.

`OPERATORS` gives the implementation of each type that can be executed.
"""

from kokoro_nb.backends.mil.operators import (  # noqa: F401
    compression,
    control,
    convolution,
    elementwise,
    gathering,
    recurrent,
    reductions,
    shape,
)
from kokoro_nb.backends.mil.operators.registry import OPERATORS  # noqa: F401
