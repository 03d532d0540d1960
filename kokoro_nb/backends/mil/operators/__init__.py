"""The operators of MIL, by family.

`OPERATORS` gives the implementation of each type that can be executed.
"""

from kokoro_nb.backends.mil.operators import convolution, elementwise, gathering, recurrent, reductions  # noqa: F401
from kokoro_nb.backends.mil.operators.registry import OPERATORS  # noqa: F401
